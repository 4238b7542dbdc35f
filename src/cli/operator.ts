/** Whoever may run commands here, by the system's own name for them: $USER is anybody's to set. */

import type { Installation } from "../config/installation/installation.ts";
import { appendChange, type ChangeActor, type ChangeEntry } from "../store/change-log/change-log.ts";
import { transaction } from "../store/engine/db.ts";

export function operatorName(): string {
  try {
    const asked = Bun.spawnSync(["id", "-un"], { stdout: "pipe", stderr: "ignore" });
    const name = asked.stdout.toString().trim();
    if (asked.success && name !== "") return name;
  } catch {
    // No such program here.
  }
  // A container may run under a number that has no name.
  return String(process.getuid?.() ?? "unknown");
}

/** As the audit log names them. */
export function operator(): ChangeActor {
  return { kind: "cli", id: null, name: operatorName() };
}

/** What was done, for the audit log. */
export type Deed = Pick<ChangeEntry, "action" | "target" | "changes">;

/** Does it and writes it to the audit log, or neither. `told` gives null where nothing was changed. */
export function audited<T>(
  installation: Installation,
  work: (within: Installation) => Promise<T>,
  told: (result: T) => Deed | null,
): Promise<T> {
  return transaction(installation.db, async (tx) => {
    const result = await work({ ...installation, db: tx });
    const deed = told(result);
    if (deed !== null) {
      await appendChange(tx, { ...deed, atMs: installation.clock.nowMs(), actor: operator(), address: null });
    }
    return result;
  });
}
