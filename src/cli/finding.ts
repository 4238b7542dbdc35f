/** The result of one check of `doctor` or `selftest`, and how it is printed. */

import type { Terminal } from "./terminal.ts";

export interface Finding {
  what: string;
  /** `broken`: something does not work. `doubtful`: it may be intended. */
  state: "good" | "doubtful" | "broken";
  message: string;
  todo: string | null;
}

export function printFinding({ what, state, message, todo }: Finding, { print, paint }: Terminal): void {
  const mark = { good: paint.green("✓"), doubtful: paint.yellow("!"), broken: paint.red("✗") }[state];
  print(`${mark} ${paint.bold(what)}: ${message}`);
  if (todo !== null) print(`    ${todo}`);
}
