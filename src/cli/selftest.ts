/** `model-gateway selftest`: proves that this copy of the program is complete, without an installation or a network. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CommandDefinition, JSON_OPTION } from "./command.ts";
import { failed, passed, printFinding } from "./finding.ts";

export const selftest: CommandDefinition = {
  changes: "nothing",
  about: `Starts every worker thread, counts tokens, opens a new database and looks for the built pages, all in a temporary
folder. Needs no installation, no configuration and no network. Exits with 1 if a check fails.`,
  options: { json: JSON_OPTION },
  async run(input) {
    // Imported only when used: it needs the modules of the whole server.
    const { SELF_CHECKS } = await import("./self-checks.ts");
    const folder = mkdtempSync(join(tmpdir(), "model-gateway-selftest-"));
    const results: { check: string; ok: boolean; detail: string }[] = [];
    try {
      for (const { name, run } of SELF_CHECKS) {
        const [ok, detail] = await run(folder).then(
          (text) => [true, text] as const,
          (error: unknown) => [false, error instanceof Error ? error.message : "unknown"] as const,
        );
        results.push({ check: name, ok, detail });
        if (!input.flag("json"))
          printFinding(ok ? passed(name, detail) : failed(name, detail, null), input.terminal);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
    const isComplete = results.every(({ ok }) => ok);
    if (input.flag("json"))
      input.terminal.print(JSON.stringify({ ok: isComplete, checks: results }, null, 2));
    return isComplete ? 0 : 1;
  },
};
