/** Worker thread of `sqlite-reader.ts`: reads a SQLite file by a connection of its own, one statement at a time. */

import { Database, SQLiteError } from "bun:sqlite";
import type { ReaderCommand, ReaderReply } from "./sqlite-reader.ts";
import { StatementCache } from "./sqlite-statements.ts";

declare const self: Worker;

/** A recovery of the write-ahead log holds a lock. Waiting blocks this thread only. */
const BUSY_TIMEOUT_MS = 5_000;
/** Each statement reads pages of its own, so a larger cache would hold pages that are not read again. */
const CACHE_KB = 4_000;

let open: { readonly driver: Database; readonly statements: StatementCache } | null = null;

self.onmessage = ({ data }: MessageEvent<ReaderCommand>) => self.postMessage(execute(data));

function execute(command: ReaderCommand): ReaderReply {
  try {
    if (command.kind === "close") {
      open?.statements.finalize();
      open?.driver.close();
      open = null;
      return { ok: true, rows: [] };
    }
    open ??= openFile(command.path);
    return { ok: true, rows: open.statements.execute(command.text, command.values) };
  } catch (error) {
    return {
      ok: false,
      message: error instanceof Error ? error.message : "unknown",
      code: error instanceof SQLiteError ? (error.code ?? null) : null,
    };
  }
}

function openFile(path: string) {
  const driver = new Database(path, { readonly: true });
  driver.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  driver.run(`PRAGMA cache_size = -${CACHE_KB}`);
  return { driver, statements: new StatementCache(driver) };
}
