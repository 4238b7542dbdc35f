/**
 * Ensures one server for each data folder and each SQLite store. The lock is a SQLite lock on an empty file: on
 * every supported platform, the kernel releases it when the process ends, even after a crash.
 */

import { Database, SQLiteError } from "bun:sqlite";
import { closeSync, existsSync, mkdirSync, readFileSync, renameSync, statSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";
import { createPrivateFile, openPrivateFile } from "../../base/private-file.ts";
import { readMachineId } from "./machine-id.ts";

export interface FolderLock {
  /** The same for every process of this machine that locks this folder. A copy of the folder has a different id. */
  readonly folderId: string;
  release(): void;
}

export class LockHeld extends Error {
  override readonly name = "LockHeld";
  /** The locked folder or store. */
  readonly path: string;
  readonly holder: LockHolder | null;
  constructor(path: string, holder: LockHolder | null) {
    super(`${path} is in use by ${holder === null ? "another process" : `process ${holder.pid}`}.`);
    this.path = path;
    this.holder = holder;
  }
}

const holderShape = z.object({ pid: z.int(), host: z.string(), folder: z.string() });
type LockHolder = z.infer<typeof holderShape>;

const LOCK_NAME = "gateway.lock";
const MACHINE_MARK = "@";

/** Whether two ids differ in the machine alone: the disk was moved to another machine, or copied. */
export function isOnOtherMachine(folderId: string, other: string): boolean {
  const [folder, machine] = folderId.split(MACHINE_MARK);
  const [otherFolder, otherMachine] = other.split(MACHINE_MARK);
  return folder === otherFolder && machine !== otherMachine;
}
const HOLDER_NAME = "gateway.pid";

/** Locks an existing folder and its store, which may be in another one. Throws `LockHeld`. */
export function lockFolder(dir: string, storePath: string | null): FolderLock {
  const path = join(dir, LOCK_NAME);
  const folder = lockFile(path);
  if (folder === null) throw new LockHeld(dir, readHolder(dir));
  const store = isFilePath(storePath) ? lockStore(storePath) : folder;
  if (store === null) {
    folder.close();
    throw new LockHeld(storePath ?? dir, null);
  }
  const id = readHolder(dir)?.folder ?? Bun.randomUUIDv7();
  writeHolder(dir, { pid: process.pid, host: hostname(), folder: id });
  return {
    // A copied folder has another inode, and the copy of a whole disk is on another machine.
    folderId: `${id}:${statSync(path).ino}${MACHINE_MARK}${readMachineId()}`,
    release() {
      store.close();
      folder.close();
    },
  };
}

const isFilePath = (storePath: string | null): storePath is string =>
  storePath !== null && storePath !== "" && storePath !== ":memory:";

function lockStore(storePath: string): Database | null {
  mkdirSync(dirname(storePath), { recursive: true, mode: 0o700 });
  return lockFile(`${storePath}-lock`);
}

/** Returns null if another connection holds the lock, in this process or another one. */
function lockFile(path: string): Database | null {
  // Closing a file releases every lock that this process has on it, so an existing file is not opened here.
  if (!existsSync(path)) createPrivateFile(path);
  const file = new Database(path);
  try {
    file.run("PRAGMA busy_timeout = 0");
    // Held as long as the connection is open.
    file.run("BEGIN IMMEDIATE");
    return file;
  } catch (error) {
    file.close();
    if (error instanceof SQLiteError && error.code?.startsWith("SQLITE_BUSY") === true) return null;
    throw error;
  }
}

function readHolder(dir: string): LockHolder | null {
  try {
    return holderShape.parse(JSON.parse(readFileSync(join(dir, HOLDER_NAME), "utf8")));
  } catch {
    return null;
  }
}

/** Written atomically: a process that fails to get the lock may read the file at any moment. */
function writeHolder(dir: string, holder: LockHolder): void {
  const path = join(dir, HOLDER_NAME);
  const file = openPrivateFile(`${path}.new`, "w");
  writeSync(file, `${JSON.stringify(holder)}\n`);
  closeSync(file);
  renameSync(`${path}.new`, path);
}
