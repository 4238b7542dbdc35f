import { Database, SQLiteError, type Statement } from "bun:sqlite";
import { chmodSync, closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import {
  createQueue,
  createSql,
  type Db,
  type Row,
  type Run,
  type Value,
  withinTransaction,
} from "./scope.ts";

const BUSY_TIMEOUT_MS = 5_000;
const BUSY_PAUSE_MS_MAX = 20;
const STATEMENTS_KEPT = 200;

/** By `bun:sqlite`, because Bun.SQL prepares a statement anew each time it runs: twice the time a usage row. */
export async function openSqlite(path: string): Promise<Db> {
  const inMemory = path === ":memory:";
  if (!inMemory) makePrivateFile(path);
  const driver = new Database(path);
  const { execute, finalize } = keepStatements(driver);
  const run: Run = (text, values) => whenFree(() => execute(text, values));
  const script = (text: string) => whenFree(() => void driver.run(text));

  // SQLite's own wait would hold up the whole process; `whenFree` waits without.
  await script("PRAGMA busy_timeout = 0");
  if (!inMemory) await script("PRAGMA journal_mode = WAL");
  await script("PRAGMA synchronous = NORMAL");
  await script("PRAGMA foreign_keys = ON");

  // One connection: a statement asked for while a transaction is open has to wait for its end.
  const inTurn = createQueue();
  const connection = { engine: "sqlite", run, script } as const;
  return {
    engine: "sqlite",
    sql: createSql({
      engine: "sqlite",
      run: (text, values) => inTurn(() => run(text, values)),
      script: (text) => inTurn(() => script(text)),
    }),
    begin: (mode, work) =>
      inTurn(async () => {
        await run(mode === "write" ? "BEGIN IMMEDIATE" : "BEGIN", []);
        try {
          const result = await withinTransaction(connection, work);
          await run("COMMIT", []);
          return result;
        } catch (error) {
          // A full disk, for one, has rolled back already; the first error is the one to tell.
          await run("ROLLBACK", []).catch(() => {});
          throw error;
        }
      }),
    close: () =>
      inTurn(async () => {
        finalize();
        driver.close();
      }),
  };
}

/** `gives`: it has rows to collect. Running one that has none is cheaper. */
interface Kept {
  statement: Statement<Row, Value[]>;
  gives: boolean;
}

function keepStatements(driver: Database) {
  const kept = new Map<string, Kept>();

  function prepare(text: string): Kept {
    const known = kept.get(text);
    if (known !== undefined) return known;
    const statement = driver.prepare<Row, Value[]>(text);
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
    execute(text: string, values: readonly Value[]): Row[] {
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

/** SQLite gives its -wal and -shm files the mode of the database. */
function makePrivateFile(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  closeSync(openSync(path, "a", 0o600));
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
