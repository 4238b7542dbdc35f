import { chmodSync, closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { SQL } from "bun";
import { createQueue, createSql, type Db, type Row, type Run, withinTransaction } from "./scope.ts";

const BUSY_TIMEOUT_MS = 5_000;
const BUSY_PAUSE_MS_MAX = 20;

export async function openSqlite(path: string): Promise<Db> {
  const inMemory = path === ":memory:";
  if (!inMemory) makePrivateFile(path);
  const driver = new SQL({ adapter: "sqlite", filename: path });
  const run: Run = (text, values) =>
    whenFree(async () => {
      const rows = values.length === 0 ? await driver.unsafe(text) : await driver.unsafe(text, [...values]);
      return rows as Row[];
    });

  // SQLite's own wait would hold up the whole process; `whenFree` waits without.
  await run("PRAGMA busy_timeout = 0", []);
  if (!inMemory) await run("PRAGMA journal_mode = WAL", []);
  await run("PRAGMA synchronous = NORMAL", []);
  await run("PRAGMA foreign_keys = ON", []);

  // One connection: a statement asked for while a transaction is open has to wait for its end.
  const inTurn = createQueue();
  return {
    engine: "sqlite",
    sql: createSql((text, values) => inTurn(() => run(text, values))),
    begin: (mode, work) =>
      inTurn(async () => {
        await run(mode === "write" ? "BEGIN IMMEDIATE" : "BEGIN", []);
        try {
          const result = await withinTransaction("sqlite", run, work);
          await run("COMMIT", []);
          return result;
        } catch (error) {
          // A full disk, for one, has rolled back already; the first error is the one to tell.
          await run("ROLLBACK", []).catch(() => {});
          throw error;
        }
      }),
    close: () => inTurn(() => driver.close()),
  };
}

/** SQLite gives its -wal and -shm files the mode of the database. */
function makePrivateFile(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  closeSync(openSync(path, "a", 0o600));
  chmodSync(path, 0o600);
}

async function whenFree<T>(attempt: () => Promise<T>): Promise<T> {
  const startedMs = performance.now();
  for (let pauseMs = 1; ; pauseMs = Math.min(pauseMs * 2, BUSY_PAUSE_MS_MAX)) {
    try {
      return await attempt();
    } catch (error) {
      if (!isBusy(error) || performance.now() - startedMs > BUSY_TIMEOUT_MS) throw error;
    }
    await Bun.sleep(pauseMs);
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof SQL.SQLiteError && error.code.startsWith("SQLITE_BUSY");
}
