/** Sends requests to the server that runs on this data folder, through the operator sockets of its processes. */

import { join } from "node:path";
import { PROCESSES_FOLDER, type Settings } from "../config/installation/environment.ts";
import { askProcesses, askSocket, NOT_RUNNING } from "../server/machine-processes.ts";

const TIMEOUT_MS = 2_000;

/**
 * Returns the response of each process: one, or several that serve one port. None if no server runs, or if it does not
 * respond in time. The command then relies on the database alone.
 */
export async function sendToServer(
  { controlSocketFile, dataDir }: Pick<Settings, "controlSocketFile" | "dataDir">,
  path: string,
  payload: object,
): Promise<string[]> {
  const question = { path, payload };
  const machine = { folder: join(dataDir, PROCESSES_FOLDER), timeoutMs: TIMEOUT_MS };
  const [alone, several] = await Promise.all([
    askSocket(controlSocketFile, { ...question, timeoutMs: TIMEOUT_MS }),
    askProcesses(machine, question),
  ]);
  const bodies = [alone === NOT_RUNNING ? null : alone, ...several.map(({ body }) => body)];
  return bodies.filter((body) => body !== null);
}

/**
 * Makes the server write its unwritten records of a user to the database, and release the user's wallet reservation
 * unless new requests arrive meanwhile. With null, it writes the records of all users and releases nothing.
 */
export async function flushUser(settings: Settings, userId: string | null): Promise<void> {
  await sendToServer(settings, "/settle-up", { userId });
}
