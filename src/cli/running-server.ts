/** The server that runs on this data folder, asked by the socket that it opens there for its operator. */

import type { Settings } from "../config/installation/environment.ts";

const TIMEOUT_MS = 2_000;

/** Null where none runs, or it does not answer in time, or cannot: the store alone tells then. */
export async function askServer(
  { controlSocketFile }: Pick<Settings, "controlSocketFile">,
  path: string,
  question: object,
): Promise<string | null> {
  try {
    const response = await fetch(`http://localhost${path}`, {
      unix: controlSocketFile,
      method: "POST",
      body: JSON.stringify(question),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const answer = await response.text();
    return response.ok ? answer : null;
  } catch {
    return null;
  }
}

/**
 * What the server has done for a user and not booked yet is in the store after it, and what it has set aside of the
 * wallet for requests to come goes back, unless such come meanwhile. Null: what it has done for anybody, and no more.
 */
export async function flushUser(settings: Settings, userId: string | null): Promise<void> {
  await askServer(settings, "/settle-up", { userId });
}
