/** The SQLite engine, on `bun:sqlite`. */

import { Database, SQLiteError } from "bun:sqlite";
import { chmodSync, existsSync, mkdirSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname } from "node:path";
import { createPrivateFile } from "../../base/private-file.ts";
import { integer } from "./row.ts";
import { sharedSync } from "./shared-sync.ts";
import { openSqliteReader } from "./sqlite-reader.ts";
import { StatementCache } from "./sqlite-statements.ts";
import {
  createQueue,
  createSql,
  type Db,
  openQueue,
  type Queue,
  type Row,
  type StoreAccess,
  type StoreConnection,
  withinTransaction,
  withinWrite,
} from "./transaction.ts";

const BUSY_TIMEOUT_MS = 5_000;
const BUSY_PAUSE_MS_MAX = 20;
/** 32 MB. A checkpoint waits for the disk; SQLite's default of 1,000 pages is reached after some 90 paid requests. */
const WAL_PAGES_MAX = 8_000;
/** 16 MB: as many pages as a large transaction changes. Pages that do not fit are written more than once. */
const CACHE_KB = 16_000;

/** Uses `bun:sqlite`, because Bun.SQL prepares a statement each time it runs: twice the time per usage row. */
export async function openSqlite(path: string, access: StoreAccess): Promise<Db> {
  const inMemory = path === ":memory:";
  const isReadOnly = access === "read";
  if (!inMemory && !isReadOnly) createDatabaseFile(path);
  const leavesWal = isReadOnly && !existsSync(`${path}-wal`);
  const writeQueue = inMemory ? openQueue() : lookUpWriteQueue(path);
  const { isAwaited } = writeQueue;
  const connection = new SqliteConnection(openFile(path, isReadOnly), isAwaited);
  await connection.configure({ hasWal: !inMemory && !isReadOnly });

  // There is one connection: a statement outside a transaction waits until the open transaction ends.
  const inTurn = createQueue();
  const { outside, inside } = connection;
  const wal = new WalFile(`${path}-wal`, () =>
    writeQueue.inTurn(() => inTurn(() => outside.run("PRAGMA wal_checkpoint(TRUNCATE)", []))),
  );
  const reader = inMemory || isReadOnly ? null : openSqliteReader(path);
  const db: Db = {
    engine: "sqlite",
    sql: createSql({
      engine: "sqlite",
      run: (text, values) => inTurn(() => outside.run(text, values)),
      each: (text, rows) => inTurn(() => outside.each(text, rows)),
      script: (text) => inTurn(() => outside.script(text)),
    }),
    begin: (mode, work) =>
      mode === "write"
        ? writeQueue.inTurn(() =>
            inTurn(() => connection.transact("BEGIN IMMEDIATE", () => withinWrite(inside, work))),
          )
        : inTurn(() => connection.transact("BEGIN", () => withinTransaction(outside, work))),
    get reports() {
      return reader ?? db;
    },
    isAwaited,
    flush: inMemory ? async () => {} : () => wal.flush(),
    close: () =>
      inTurn(async () => {
        await reader?.close();
        await wal.close();
        connection.close();
        if (leavesWal) removeUnusedWal(path);
      }),
  };
  return db;
}

function openFile(path: string, isReadOnly: boolean): Database {
  return isReadOnly ? new Database(path, { readonly: true }) : new Database(path);
}

/**
 * Reading creates an empty WAL, which a read-only connection cannot remove. A connection that may write removes it when
 * it closes, unless another process uses it.
 */
function removeUnusedWal(path: string): void {
  try {
    const driver = new Database(path, { readwrite: true, create: false });
    driver.query("SELECT 1 FROM sqlite_master LIMIT 1").all();
    driver.close();
  } catch {
    // The user may read the file and not write it, or another process has locked it. The empty WAL is harmless.
  }
}

class SqliteConnection {
  /** Waits asynchronously while another process holds the lock. */
  readonly outside: StoreConnection;
  /** For write transactions, which hold the write lock: their statements never have to wait. */
  readonly inside: StoreConnection;
  readonly #driver: Database;
  readonly #statements: StatementCache;

  constructor(driver: Database, isAwaited: () => boolean) {
    this.#driver = driver;
    const statements = new StatementCache(driver);
    this.#statements = statements;
    this.outside = {
      engine: "sqlite",
      run: (text, values) => whenFree(() => statements.execute(text, values)),
      each: (text, rows) => whenFree(() => statements.executeEach(text, rows)),
      script: (text) => whenFree(() => void driver.run(text)),
      isAwaited,
    };
    this.inside = {
      engine: "sqlite",
      run: (text, values) => runAsPromise(() => statements.execute(text, values)),
      each: (text, rows) => runAsPromise(() => statements.executeEach(text, rows)),
      script: (text) => runAsPromise(() => void driver.run(text)),
      isAwaited,
    };
  }

  async configure({ hasWal }: { hasWal: boolean }): Promise<void> {
    const { outside } = this;
    // SQLite's own busy wait would block the whole process; `whenFree` waits asynchronously.
    await outside.script("PRAGMA busy_timeout = 0");
    if (hasWal) await outside.script("PRAGMA journal_mode = WAL");
    await outside.script("PRAGMA synchronous = NORMAL");
    await outside.script(`PRAGMA wal_autocheckpoint = ${WAL_PAGES_MAX}`);
    await outside.script(`PRAGMA cache_size = -${CACHE_KB}`);
    await outside.script("PRAGMA foreign_keys = ON");
  }

  async transact<T>(begin: string, work: () => Promise<T>): Promise<T> {
    const { outside } = this;
    await outside.run(begin, []);
    try {
      const result = await work();
      await outside.run("COMMIT", []);
      return result;
    } catch (error) {
      // Some errors (a full disk, for example) have already rolled back. Report the first error.
      await outside.run("ROLLBACK", []).catch(() => {});
      throw error;
    }
  }

  close(): void {
    this.#statements.finalize();
    this.#driver.close();
  }
}

const writeQueues = new Map<string, Queue>();

/**
 * Write transactions of several connections of this process to one file queue here before they request its lock. A
 * connection that polls for the lock would starve while another one starts transactions back to back.
 */
function lookUpWriteQueue(path: string): Queue {
  const existing = writeQueues.get(path);
  if (existing !== undefined) return existing;
  const created = openQueue();
  writeQueues.set(path, created);
  return created;
}

/**
 * The WAL file. Commits are written to it without waiting for the disk. The sync runs outside the main thread,
 * unlike SQLite's own. After a failed sync the kernel may have dropped pages of the WAL, and a later sync would not
 * report them. `checkpoint` then checkpoints the WAL into the database file, syncs that file, and truncates the WAL.
 */
class WalFile {
  readonly #path: string;
  readonly #checkpoint: () => Promise<Row[]>;
  readonly #shared = sharedSync(() => this.#sync());
  #file: Promise<FileHandle> | null = null;
  #hasFailed = false;

  constructor(path: string, checkpoint: () => Promise<Row[]>) {
    this.#path = path;
    this.#checkpoint = checkpoint;
  }

  flush(): Promise<void> {
    return this.#shared.flush();
  }

  async close(): Promise<void> {
    await this.#shared.rest();
    await this.#closeFile();
  }

  async #sync(): Promise<void> {
    if (this.#hasFailed) await this.#abandonWal();
    this.#file ??= open(this.#path, "r");
    try {
      await (await this.#file).datasync();
      this.#hasFailed = false;
    } catch (error) {
      this.#hasFailed = true;
      await this.#closeFile().catch(() => {});
      throw error;
    }
  }

  async #abandonWal(): Promise<void> {
    const [result] = await this.#checkpoint();
    if (result === undefined || integer(result, "busy") !== 0)
      throw new Error("the write-ahead log is in use");
  }

  /** A later flush opens the file again. */
  async #closeFile(): Promise<void> {
    const opened = await this.#file?.catch(() => null);
    this.#file = null;
    await opened?.close();
  }
}

/** Runs synchronously and returns the result as a promise. */
function runAsPromise<T>(work: () => T): Promise<T> {
  try {
    return Promise.resolve(work());
  } catch (error) {
    return Promise.reject(error);
  }
}

/** SQLite creates its -wal and -shm files with the mode of the database file. */
function createDatabaseFile(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // Only a file that does not exist: closing a file releases the locks that this process holds on it by another
  // connection.
  if (!existsSync(path)) createPrivateFile(path);
  chmodSync(path, 0o600);
}

async function whenFree<T>(attempt: () => T): Promise<T> {
  const startedMs = performance.now();
  for (let pauseMs = 1; ; pauseMs = Math.min(pauseMs * 2, BUSY_PAUSE_MS_MAX)) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error) || performance.now() - startedMs > BUSY_TIMEOUT_MS) throw error;
    }
    await Bun.sleep(pauseMs);
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof SQLiteError && error.code?.startsWith("SQLITE_BUSY") === true;
}
