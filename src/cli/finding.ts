/** The result of one check of `doctor` or `selftest`, and how it is printed. */

import type { Terminal } from "./terminal.ts";

export interface Finding {
  what: string;
  /** `broken`: something does not work. `doubtful`: it may be intended. */
  state: "good" | "doubtful" | "broken";
  message: string;
  todo: string | null;
}

export function passed(what: string, message: string): Finding {
  return { what, state: "good", message, todo: null };
}

export function warned(what: string, message: string, todo: string): Finding {
  return { what, state: "doubtful", message, todo };
}

export function failed(what: string, message: string, todo: string | null): Finding {
  return { what, state: "broken", message, todo };
}

export function printFinding({ what, state, message, todo }: Finding, { print, paint }: Terminal): void {
  const mark = { good: paint.green("✓"), doubtful: paint.yellow("!"), broken: paint.red("✗") }[state];
  print(`${mark} ${paint.bold(what)}: ${message}`);
  if (todo !== null) print(`    ${todo}`);
}
