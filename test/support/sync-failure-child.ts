/** Writes and syncs under strace, for `test/money/failed-sync.test.ts`; prints the result of each sync. */

import { statSync } from "node:fs";
import { join } from "node:path";
import { buildHoldRequest } from "../../src/billing/engine/direct-billing.test-support.ts";
import { Journal } from "../../src/billing/journal/journal.ts";
import { openDb } from "../../src/store/engine/db.ts";

const [what = "", dir = ""] = process.argv.slice(2);
const say = (line: string) => console.log(line);
const outcome = (sync: Promise<void>) =>
  sync.then(
    () => "ok",
    () => "failed",
  );

if (what === "journal") {
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: 700 });
  for (let i = 0; i < 12; i++) journal.appendHold({ request: buildHoldRequest(`r${i}`), atMs: i });
  const first = join(dir, "journal-inc_1.1.jsonl");
  const before = statSync(first).ino;
  for (let i = 0; i < 3; i++) say(await outcome(journal.sync()));
  say(statSync(first).ino === before ? "same file" : "new file");
  await journal.close();
} else {
  const db = await openDb(`sqlite:${join(dir, "store.db")}`);
  await db.sql.script("CREATE TABLE one (n BIGINT)");
  await db.sql`INSERT INTO one (n) VALUES (1)`;
  for (let i = 0; i < 3; i++) {
    say(await outcome(db.flush()));
    say(`log ${Bun.file(join(dir, "store.db-wal")).size}`);
  }
  await db.close();
}
