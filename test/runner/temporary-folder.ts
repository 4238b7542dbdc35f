/** Where the tests of a run keep their files. */

import { chmodSync, mkdtempSync, rmSync, statfsSync } from "node:fs";

const MEMORY = "/dev/shm";
/** All files of a run need a fraction of this. A container may have only 64 MB. */
const FREE_BYTES_MIN = 2 * 2 ** 30;

/**
 * A new folder in memory, which is deleted when this process ends: each test gateway has a database of its own, and would
 * wait for the disk whenever it commits. Null if this machine has no such file system, or too little room in it.
 */
export function createMemoryFolder(): string | null {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    if (bavail * bsize < FREE_BYTES_MIN) return null;
    // Short: the path of a socket has at most 107 bytes.
    const folder = mkdtempSync(`${MEMORY}/mg-`);
    // Other users may pass through it: PostgreSQL does not run as root.
    chmodSync(folder, 0o711);
    // Servers of the tests may still be deleting their files.
    process.on("exit", () =>
      rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }),
    );
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));
    return folder;
  } catch {
    return null;
  }
}
