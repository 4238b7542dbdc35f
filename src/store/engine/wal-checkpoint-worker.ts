/** Opens the store for itself, and moves its log when it is told to. See `wal-checkpointer.ts`. */

import { type Db, openDb } from "./db.ts";
import type { CheckpointCommand } from "./wal-checkpointer.ts";

declare const self: Worker;

let db: Db | null = null;

self.onmessage = async ({ data }: MessageEvent<CheckpointCommand>) => {
  try {
    await obey(data);
  } finally {
    self.postMessage("done");
  }
};

async function obey(order: CheckpointCommand): Promise<void> {
  if (order.kind === "close") {
    await db?.close();
    db = null;
    return;
  }
  db ??= await openDb(order.databaseUrl);
  // It waits for nobody: what somebody still reads stays in the log until the next time.
  await db.sql.script("PRAGMA wal_checkpoint(PASSIVE)");
}
