/** Files that only the user of the server can read. */

import { closeSync, fchownSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Opens a file, and creates it for its owner alone. If root creates it, it belongs to the owner of its folder:
 * commands may run as root, and the server could not read the file otherwise.
 */
export function openPrivateFile(path: string, flags: "a" | "wx" | "w"): number {
  const file = openSync(path, flags, 0o600);
  if (process.geteuid?.() !== 0) return file;
  const { uid, gid } = statSync(dirname(path));
  try {
    if (uid !== 0) fchownSync(file, uid, gid);
  } catch {
    // A confined root, as on some network file systems, may not change owners.
  }
  return file;
}

/** Creates a private file if it is missing. */
export function createPrivateFile(path: string): void {
  closeSync(openPrivateFile(path, "a"));
}
