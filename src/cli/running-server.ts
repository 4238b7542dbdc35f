/** Sends requests to the server that runs on this data folder, through its operator socket. */

import type { Settings } from "../config/installation/environment.ts";

const TIMEOUT_MS = 2_000;

/**
 * Returns null if no server runs, or if it does not respond in time. The command then relies on the database alone.
 */
export async function sendToServer(
  { controlSocketFile }: Pick<Settings, "controlSocketFile">,
  path: string,
  payload: object,
): Promise<string | null> {
  try {
    const response = await fetch(`http://localhost${path}`, {
      unix: controlSocketFile,
      method: "POST",
      body: JSON.stringify(payload),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const received = await response.text();
    return response.ok ? received : null;
  } catch {
    return null;
  }
}

/**
 * Makes the server write its unwritten records of a user to the database, and release the user's wallet reservation
 * unless new requests arrive meanwhile. With null, it writes the records of all users and releases nothing.
 */
export async function flushUser(settings: Settings, userId: string | null): Promise<void> {
  await sendToServer(settings, "/settle-up", { userId });
}
