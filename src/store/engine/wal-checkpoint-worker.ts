/** Worker thread of `wal-checkpointer.ts`: opens its own connection to the store and runs checkpoints on command. */

import { type Db, openDb } from "./db.ts";
import type { CheckpointCommand } from "./wal-checkpointer.ts";

declare const self: Worker;

let db: Db | null = null;

self.onmessage = async ({ data }: MessageEvent<CheckpointCommand>) => {
  try {
    await execute(data);
  } finally {
    self.postMessage("done");
  }
};

async function execute(command: CheckpointCommand): Promise<void> {
  if (command.kind === "close") {
    await db?.close();
    db = null;
    return;
  }
  db ??= await openDb(command.databaseUrl);
  // A passive checkpoint never waits: frames that a reader still needs stay in the WAL until the next checkpoint.
  await db.sql.script("PRAGMA wal_checkpoint(PASSIVE)");
}
