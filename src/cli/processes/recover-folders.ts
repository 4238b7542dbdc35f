/**
 * Settles what earlier processes left in folders that no process will use: after `server.processes` was reduced, set
 * for the first time, or removed.
 */

import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { PROCESSES_FOLDER, type Settings } from "../../config/installation/environment.ts";
import type { Log } from "../../observe/log.ts";
import { listProcessNumbers } from "../../server/machine-processes.ts";
import { buildEnvironment, PROGRAM_COMMAND } from "./program.ts";

const SETTLEMENTS = "settlements";

/** `count` processes are about to start; 0 for one process without a supervisor, which uses the data folder itself. */
export async function recoverFolders(
  { dataDir }: Pick<Settings, "dataDir">,
  { count, log }: { count: number; log: Log },
): Promise<void> {
  if (count > 0 && hasJournal(dataDir)) await recover(dataDir, null, log);
  // One number more than processes is in use while they are replaced.
  const usedMax = count === 0 ? 0 : count + 1;
  for (const number of listProcessNumbers(join(dataDir, PROCESSES_FOLDER)).filter((one) => one > usedMax)) {
    const folder = join(dataDir, PROCESSES_FOLDER, String(number));
    if (hasJournal(folder)) await recover(dataDir, `${number}/${Math.max(1, count)}`, log);
    // Damaged files stay for the operator.
    if (listNames(join(folder, SETTLEMENTS)).length > 0) log.warn("folder_not_recovered", { folder });
    else rmSync(folder, { recursive: true, force: true });
  }
}

async function recover(dataDir: string, place: string | null, log: Log): Promise<void> {
  const args = ["start", "--data", dataDir, "--host", "127.0.0.1", "--port", "0"];
  const child = Bun.spawn([...PROGRAM_COMMAND, ...args], {
    env: buildEnvironment("recover", place),
    stdio: ["ignore", "ignore", "inherit"],
  });
  log.info("folder_recovered", { place, code: await child.exited });
}

/** A process that ended in order leaves none. */
function hasJournal(folder: string): boolean {
  return listNames(join(folder, SETTLEMENTS)).some((name) => name.endsWith(".jsonl"));
}

function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
