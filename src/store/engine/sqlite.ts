/** The SQLite engine, on `bun:sqlite`. */

import { Database, SQLiteError, type Statement } from "bun:sqlite";
import { chmodSync, closeSync, existsSync, mkdirSync, openSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname } from "node:path";
import { integer } from "./row.ts";
import { sharedSync } from "./shared-sync.ts";
import {
  createQueue,
  createSql,
  type Db,
  openQueue,
  type Queue,
  type Row,
  type Run,
  type SqlValue,
  type StoreConnection,
  withinTransaction,
  withinWrite,
} from "./transaction.ts";

const BUSY_TIMEOUT_MS = 5_000;
const BUSY_PAUSE_MS_MAX = 20;
const STATEMENT_CACHE_MAX = 400;
/** 32 MB. A checkpoint waits for the disk; SQLite's default of 1,000 pages is reached after some 90 paid requests. */
const WAL_PAGES_MAX = 8_000;
/** 16 MB: as many pages as a large transaction changes. Pages that do not fit are written more than once. */
const CACHE_KB = 16_000;

/** Uses `bun:sqlite`, because Bun.SQL prepares a statement each time it runs: twice the time per usage row. */
export async function openSqlite(path: string): Promise<Db> {
  const inMemory = path === ":memory:";
  if (!inMemory) createPrivateFile(path);
  const driver = new Database(path);
  const { execute, executeEach, finalize } = createStatementCache(driver);
  const run: Run = (text, values) => whenFree(() => execute(text, values));
  const each: StoreConnection["each"] = (text, rows) => whenFree(() => executeEach(text, rows));
  const script = (text: string) => whenFree(() => void driver.run(text));

  // SQLite's own busy wait would block the whole process; `whenFree` waits asynchronously.
  await script("PRAGMA busy_timeout = 0");
  if (!inMemory) await script("PRAGMA journal_mode = WAL");
  await script("PRAGMA synchronous = NORMAL");
  await script(`PRAGMA wal_autocheckpoint = ${WAL_PAGES_MAX}`);
  await script(`PRAGMA cache_size = -${CACHE_KB}`);
  await script("PRAGMA foreign_keys = ON");

  // There is one connection: a statement outside a transaction waits until the open transaction ends.
  const inTurn = createQueue();
  const writeQueue = inMemory ? openQueue() : lookUpWriteQueue(path);
  const { isAwaited } = writeQueue;
  // A write transaction holds the write lock, so its statements never have to wait.
  const inside: StoreConnection = {
    engine: "sqlite",
    run: (text, values) => runAsPromise(() => execute(text, values)),
    each: (text, rows) => runAsPromise(() => executeEach(text, rows)),
    script: (text) => runAsPromise(() => void driver.run(text)),
    isAwaited,
  };
  const connection: StoreConnection = { engine: "sqlite", run, each, script, isAwaited };

  function transact<T>(begin: string, work: () => Promise<T>): Promise<T> {
    return inTurn(async () => {
      await run(begin, []);
      try {
        const result = await work();
        await run("COMMIT", []);
        return result;
      } catch (error) {
        // Some errors (a full disk, for example) have already rolled back. Report the first error.
        await run("ROLLBACK", []).catch(() => {});
        throw error;
      }
    });
  }

  const log = openWalFile(`${path}-wal`, () =>
    writeQueue.inTurn(() => inTurn(() => run("PRAGMA wal_checkpoint(TRUNCATE)", []))),
  );
  return {
    engine: "sqlite",
    sql: createSql({
      engine: "sqlite",
      run: (text, values) => inTurn(() => run(text, values)),
      each: (text, rows) => inTurn(() => each(text, rows)),
      script: (text) => inTurn(() => script(text)),
    }),
    begin: (mode, work) =>
      mode === "write"
        ? writeQueue.inTurn(() => transact("BEGIN IMMEDIATE", () => withinWrite(inside, work)))
        : transact("BEGIN", () => withinTransaction(connection, work)),
    isAwaited,
    flush: inMemory ? async () => {} : log.flush,
    close: () =>
      inTurn(async () => {
        await log.close();
        finalize();
        driver.close();
      }),
  };
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
function openWalFile(path: string, checkpoint: () => Promise<Row[]>) {
  let file: Promise<FileHandle> | null = null;
  let hasFailed = false;

  const shared = sharedSync(async () => {
    if (hasFailed) await abandonWal();
    file ??= open(path, "r");
    try {
      await (await file).datasync();
      hasFailed = false;
    } catch (error) {
      hasFailed = true;
      await close().catch(() => {});
      throw error;
    }
  });

  async function abandonWal(): Promise<void> {
    const [result] = await checkpoint();
    if (result === undefined || integer(result, "busy") !== 0) throw new Error("the store's log is in use");
  }

  /** A later flush opens the file again. */
  async function close(): Promise<void> {
    const opened = await file?.catch(() => null);
    file = null;
    await opened?.close();
  }

  return {
    flush: shared.flush,
    async close(): Promise<void> {
      await shared.rest();
      await close();
    },
  };
}

/** A prepared statement. `gives`: it returns rows. Running one that returns none is cheaper. */
interface CachedStatement {
  statement: Statement<Row, SqlValue[]>;
  gives: boolean;
}

function createStatementCache(driver: Database) {
  const cache = new Map<string, CachedStatement>();

  function prepare(text: string): CachedStatement {
    const cached = cache.get(text);
    if (cached !== undefined) return cached;
    const statement = driver.prepare<Row, SqlValue[]>(text);
    const created = { statement, gives: statement.columnNames.length > 0 };
    cache.set(text, created);
    for (const [oldest, { statement: old }] of cache) {
      if (cache.size <= STATEMENT_CACHE_MAX) break;
      cache.delete(oldest);
      old.finalize();
    }
    return created;
  }

  return {
    executeEach(text: string, rows: readonly (readonly SqlValue[])[]): void {
      const { statement } = prepare(text);
      for (const values of rows) statement.run(...values);
    },
    execute(text: string, values: readonly SqlValue[]): Row[] {
      const { statement, gives } = prepare(text);
      if (gives) return statement.all(...values);
      statement.run(...values);
      return [];
    },
    finalize(): void {
      for (const { statement } of cache.values()) statement.finalize();
      cache.clear();
    },
  };
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
function createPrivateFile(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // Only a file that does not exist: closing a file releases the locks that this process holds on it by another
  // connection.
  if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
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
