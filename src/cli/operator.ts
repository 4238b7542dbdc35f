/** The login name of the operator, from the system: anyone can set $USER. */

import type { Installation } from "../config/installation/installation.ts";
import { appendChange, type ChangeActor, type ChangeEntry } from "../store/audit-log/audit-log.ts";
import { transaction } from "../store/engine/db.ts";

export function operatorName(): string {
  try {
    const result = Bun.spawnSync(["id", "-un"], { stdout: "pipe", stderr: "ignore" });
    const name = result.stdout.toString().trim();
    if (result.success && name !== "") return name;
  } catch {
    // The program does not exist on this system.
  }
  // A container may run under a user id without a name.
  return String(process.getuid?.() ?? "unknown");
}

export function operator(): ChangeActor {
  return { kind: "cli", id: null, name: operatorName() };
}

/** The entry of a command in the audit log. */
export type CommandChange = Pick<ChangeEntry, "action" | "target" | "changes">;

/** Runs `work` and appends to the audit log, atomically. `describeChange` returns null if nothing was changed. */
export function runLogged<T>(
  installation: Installation,
  work: (txInstallation: Installation) => Promise<T>,
  describeChange: (result: T) => CommandChange | null,
): Promise<T> {
  return transaction(installation.db, async (tx) => {
    const result = await work({ ...installation, db: tx });
    const change = describeChange(result);
    if (change !== null) {
      await appendChange(tx, {
        ...change,
        atMs: installation.clock.nowMs(),
        actor: operator(),
        address: null,
      });
    }
    return result;
  });
}
