/** How the supervisor starts this program once more. */

import { PROCESS_VARIABLE } from "../../config/installation/environment.ts";
import { type ProcessRole, ROLE_VARIABLE } from "./process-messages.ts";

/** Read once: later the path of a replaced executable would not be found. A newer version under this path is started. */
export const PROGRAM_COMMAND: readonly string[] = Bun.isStandaloneExecutable
  ? [process.execPath]
  : [process.execPath, Bun.main];

/** `place` is `number/count`; null for a process that uses the data folder itself. */
export function buildEnvironment(
  role: ProcessRole,
  place: string | null,
): Record<string, string | undefined> {
  // The supervisor itself reports to the service manager.
  const { NOTIFY_SOCKET: _, WATCHDOG_USEC: __, WATCHDOG_PID: ___, ...environment } = process.env;
  return { ...environment, [ROLE_VARIABLE]: role, ...(place === null ? {} : { [PROCESS_VARIABLE]: place }) };
}
