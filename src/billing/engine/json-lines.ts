/** Files of JSON lines that outlive the process which wrote them. */

import { open } from "node:fs/promises";

/** What could not be taken from such a file. */
export interface UnreadableLine {
  /** Half lines, torn by a crash: nobody was told that they were written. */
  torn: number;
  /** Lines that another version wrote, and that this one cannot understand. */
  unreadable: number;
}

/** `take` throws at what it does not understand. */
export function readJsonLines(lines: readonly string[], take: (json: unknown) => void): UnreadableLine {
  const untaken = { torn: 0, unreadable: 0 };
  for (const line of lines) {
    if (line === "") continue;
    let json: unknown;
    try {
      json = JSON.parse(line);
    } catch {
      untaken.torn++;
      continue;
    }
    try {
      take(json);
    } catch {
      untaken.unreadable++;
    }
  }
  return untaken;
}

/** The name of a new file has to survive the loss of power as well as what is in it. */
export async function syncFolder(dir: string): Promise<void> {
  const folder = await open(dir, "r");
  await folder.sync().finally(() => folder.close());
}
