/** Reads files of JSON lines that outlive the process that wrote them. */

import { open } from "node:fs/promises";

/** Counts of lines that could not be used. */
export interface UnreadableLine {
  /** Incomplete lines, torn by a crash. Their write was never acknowledged. */
  torn: number;
  /** Lines that another version wrote and this one does not understand. */
  unreadable: number;
}

/** `take` throws on a line that it does not understand. */
export function readJsonLines(lines: readonly string[], take: (json: unknown) => void): UnreadableLine {
  const skipped = { torn: 0, unreadable: 0 };
  for (const line of lines) {
    if (line === "") continue;
    let json: unknown;
    try {
      json = JSON.parse(line);
    } catch {
      skipped.torn++;
      continue;
    }
    try {
      take(json);
    } catch {
      skipped.unreadable++;
    }
  }
  return skipped;
}

/** Makes the name of a new file survive a power failure, as its content does. */
export async function syncFolder(dir: string): Promise<void> {
  const folder = await open(dir, "r");
  await folder.sync().finally(() => folder.close());
}
