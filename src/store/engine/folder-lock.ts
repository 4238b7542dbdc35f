/**
 * One server for each data folder and for each SQLite store. The lock is one of SQLite's own, on an empty file: the
 * kernel frees it when the process ends, however it ends, on every platform that the store runs on.
 */

import { Database, SQLiteError } from "bun:sqlite";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";

export interface FolderLock {
  /** The same for every process that locks this folder, and another one for a copy of it. */
  readonly folderId: string;
  release(): void;
}

/** Another process holds the lock. */
export class LockHeld extends Error {
  override readonly name = "LockHeld";
  /** What is locked. */
  readonly path: string;
  readonly holder: LockHolder | null;
  constructor(path: string, holder: LockHolder | null) {
    super(`${path} is in use by ${holder === null ? "another process" : `process ${holder.pid}`}.`);
    this.path = path;
    this.holder = holder;
  }
}

const holderShape = z.object({ pid: z.int(), host: z.string(), folder: z.string() });
export type LockHolder = z.infer<typeof holderShape>;

const LOCK_NAME = "gateway.lock";
const HOLDER_NAME = "gateway.pid";

/** The folder is there. Throws `LockHeld`; `storePath` is that of a SQLite store, wherever it stands. */
export function lockFolder(dir: string, storePath: string | null): FolderLock {
  const path = join(dir, LOCK_NAME);
  const folder = lockFile(path);
  if (folder === null) throw new LockHeld(dir, readHolder(dir));
  const store = isFile(storePath) ? lockStore(storePath) : folder;
  if (store === null) {
    folder.close();
    throw new LockHeld(storePath ?? dir, null);
  }
  const id = readHolder(dir)?.folder ?? Bun.randomUUIDv7();
  writeHolder(dir, { pid: process.pid, host: hostname(), folder: id });
  return {
    // A copied folder has the same content, and another inode.
    folderId: `${id}:${statSync(path).ino}`,
    release() {
      store.close();
      folder.close();
    },
  };
}

const isFile = (storePath: string | null): storePath is string =>
  storePath !== null && storePath !== "" && storePath !== ":memory:";

function lockStore(storePath: string): Database | null {
  mkdirSync(dirname(storePath), { recursive: true, mode: 0o700 });
  return lockFile(`${storePath}-lock`);
}

/** Null if another connection has it, of this process or of another one. */
function lockFile(path: string): Database | null {
  // To close a file gives back every lock that this process has on it, so one that is there is not opened here.
  if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
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

/** Whole or not at all: a process that is refused reads it at any moment. */
function writeHolder(dir: string, holder: LockHolder): void {
  const path = join(dir, HOLDER_NAME);
  writeFileSync(`${path}.new`, `${JSON.stringify(holder)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
