/** What a request used → one row, exactly once. Rows are written in batches, off the request's path. */

import type { Log } from "../observe/log.ts";
import type { Db } from "../store/db.ts";
import { insertUsage, type UsageRow } from "../store/usage.ts";

export interface UsageWriter {
  push(row: UsageRow): void;
  /** Resolves when everything pushed so far is in the store; rejects when the store does not take it. */
  flush(): Promise<void>;
  /** False while the store has been unable to take rows for so long that more would not fit in memory. */
  hasRoom(): boolean;
}

export interface UsageWriterOptions {
  db: Db;
  log: Log;
  /** A row waits no longer than this for company. */
  gatherMs: number;
  batchRowsMax: number;
  waitingRowsMax: number;
  /** After a failed write. */
  retryMs: number;
}

export function openUsageWriter(options: UsageWriterOptions): UsageWriter {
  const { db, log } = options;
  let waiting: UsageRow[] = [];
  let pushedRows = 0;
  let writtenRows = 0;
  let armed = false;
  let writing: Promise<void> | null = null;

  function arm(ms: number): void {
    if (armed) return;
    armed = true;
    setTimeout(() => {
      armed = false;
      void write();
    }, ms);
  }

  function write(): Promise<void> {
    writing ??= writeBatches().finally(() => {
      writing = null;
      if (waiting.length > 0) arm(options.gatherMs);
    });
    return writing;
  }

  async function writeBatches(): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting.slice(0, options.batchRowsMax);
      try {
        await insertUsage(db, batch);
      } catch (error) {
        // Kept and tried again: inserting is idempotent by request id.
        log.error("usage_write_failed", {
          rows: waiting.length,
          reason: error instanceof Error ? error.message : "unknown",
        });
        await Bun.sleep(options.retryMs);
        return;
      }
      waiting = waiting.slice(batch.length);
      writtenRows += batch.length;
    }
  }

  return {
    push(row) {
      waiting.push(row);
      pushedRows++;
      if (waiting.length >= options.batchRowsMax) void write();
      else arm(options.gatherMs);
    },
    async flush() {
      const wantedRows = pushedRows;
      while (writtenRows < wantedRows) {
        const before = writtenRows;
        await write();
        if (writtenRows === before) throw new Error("the store does not take usage rows");
      }
    },
    hasRoom: () => waiting.length < options.waitingRowsMax,
  };
}
