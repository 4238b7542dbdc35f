/** Files that only the user of the server can read. */

import { closeSync, fchownSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { hasErrorCode } from "./error-code.ts";

/**
 * Opens a file, and creates it for its owner alone. If root creates it, it belongs to the owner of its folder:
 * commands may run as root, and the server could not read the file otherwise.
 */
export function openPrivateFile(path: string, flags: "a" | "wx" | "w"): number {
  try {
    // Fails for anything that exists, also for a link: its target must not change its owner.
    const file = openSync(path, flags === "a" ? "ax" : "wx", 0o600);
    if (process.geteuid?.() === 0) giveToFolderOwner(file, path);
    return file;
  } catch (error) {
    if (flags === "wx" || !hasErrorCode(error, "EEXIST")) throw error;
    return openSync(path, flags, 0o600);
  }
}

function giveToFolderOwner(file: number, path: string): void {
  const { uid, gid } = statSync(dirname(path));
  try {
    if (uid !== 0) fchownSync(file, uid, gid);
  } catch {
    // A confined root, as on some network file systems, may not change owners.
  }
}

/** Creates a private file if it is missing. */
export function createPrivateFile(path: string): void {
  closeSync(openPrivateFile(path, "a"));
}
