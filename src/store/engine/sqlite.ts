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
const STATEMENTS_KEPT = 400;
/** 32 MB. Moving the log into the file waits for the disk; SQLite's own 1,000 pages are some 90 paid requests. */
const LOG_PAGES = 8_000;
/** 16 MB: as many pages as a large transaction changes, for those that do not fit are written more than once. */
const CACHE_KB = 16_000;

/** By `bun:sqlite`, because Bun.SQL prepares a statement anew each time it runs: twice the time a usage row. */
export async function openSqlite(path: string): Promise<Db> {
  const inMemory = path === ":memory:";
  if (!inMemory) makePrivateFile(path);
  const driver = new Database(path);
  const { execute, executeEach, finalize } = keepStatements(driver);
  const run: Run = (text, values) => whenFree(() => execute(text, values));
  const each: StoreConnection["each"] = (text, rows) => whenFree(() => executeEach(text, rows));
  const script = (text: string) => whenFree(() => void driver.run(text));

  // SQLite's own wait would hold up the whole process; `whenFree` waits without.
  await script("PRAGMA busy_timeout = 0");
  if (!inMemory) await script("PRAGMA journal_mode = WAL");
  await script("PRAGMA synchronous = NORMAL");
  await script(`PRAGMA wal_autocheckpoint = ${LOG_PAGES}`);
  await script(`PRAGMA cache_size = -${CACHE_KB}`);
  await script("PRAGMA foreign_keys = ON");

  // One connection: a statement asked for while a transaction is open has to wait for its end.
  const inTurn = createQueue();
  const writing = inMemory ? openQueue() : writeQueueOf(path);
  const { isAwaited } = writing;
  // Whoever has begun to write is alone: within a transaction nothing has to wait.
  const inside: StoreConnection = {
    engine: "sqlite",
    run: (text, values) => settled(() => execute(text, values)),
    each: (text, rows) => settled(() => executeEach(text, rows)),
    script: (text) => settled(() => void driver.run(text)),
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
        // A full disk, for one, has rolled back already; the first error is the one to tell.
        await run("ROLLBACK", []).catch(() => {});
        throw error;
      }
    });
  }

  const log = openLogFile(`${path}-wal`, () =>
    writing.inTurn(() => inTurn(() => run("PRAGMA wal_checkpoint(TRUNCATE)", []))),
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
        ? writing.inTurn(() => transact("BEGIN IMMEDIATE", () => withinWrite(inside, work)))
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
 * Transactions of several connections of this process to one file take turns before they ask for its lock: whoever
 * polls for it would never get between two of somebody who goes on at once, and keep its own connection waiting.
 */
function writeQueueOf(path: string): Queue {
  const known = writeQueues.get(path);
  if (known !== undefined) return known;
  const made = openQueue();
  writeQueues.set(path, made);
  return made;
}

/**
 * Commits go to this file without waiting for the disk. The sync runs beside the process's own thread, unlike SQLite's.
 * After a failed sync the kernel may have forgotten pages of the log, and a later sync of it would say nothing of them.
 * `moveAway` then writes what the log has to the store's own file, syncs that, and empties the log.
 */
function openLogFile(path: string, moveAway: () => Promise<Row[]>) {
  let file: Promise<FileHandle> | null = null;
  let hasFailed = false;

  const shared = sharedSync(async () => {
    if (hasFailed) await leaveLog();
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

  async function leaveLog(): Promise<void> {
    const [moved] = await moveAway();
    if (moved === undefined || integer(moved, "busy") !== 0) throw new Error("the store's log is in use");
  }

  /** What is asked for after it opens the file anew. */
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

/** `gives`: it has rows to collect. Running one that has none is cheaper. */
interface Kept {
  statement: Statement<Row, SqlValue[]>;
  gives: boolean;
}

function keepStatements(driver: Database) {
  const kept = new Map<string, Kept>();

  function prepare(text: string): Kept {
    const known = kept.get(text);
    if (known !== undefined) return known;
    const statement = driver.prepare<Row, SqlValue[]>(text);
    const made = { statement, gives: statement.columnNames.length > 0 };
    kept.set(text, made);
    for (const [oldest, { statement: old }] of kept) {
      if (kept.size <= STATEMENTS_KEPT) break;
      kept.delete(oldest);
      old.finalize();
    }
    return made;
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
      for (const { statement } of kept.values()) statement.finalize();
      kept.clear();
    },
  };
}

/** Done at once, told by promise. */
function settled<T>(work: () => T): Promise<T> {
  try {
    return Promise.resolve(work());
  } catch (error) {
    return Promise.reject(error);
  }
}

/** SQLite gives its -wal and -shm files the mode of the database. */
function makePrivateFile(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // Only one that is not there: to close a file gives back the locks that this process has on it by another connection.
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
