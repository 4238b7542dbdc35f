import { expect, test } from "bun:test";
import { mkdtempSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../../../test/support/eventually.ts";
import { openDb } from "./db.ts";
import { openWalCheckpointer } from "./wal-checkpointer.ts";

test("checkpoints the WAL during reads and writes, any number of times", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "gateway-log-")), "gateway.db");
  const db = await openDb(`sqlite:${path}`);
  await db.sql.script("CREATE TABLE line (text TEXT)");
  const mover = openWalCheckpointer(`sqlite:${path}`);
  for (const round of [1, 2]) {
    const before = statSync(path).size;
    await db.sql.each("INSERT INTO line (text) VALUES (?)", Array(20).fill(["x".repeat(4_000)]));
    expect(statSync(path).size).toBe(before);
    await eventually(() => {
      mover.checkpoint();
      return statSync(path).size > before + 60_000;
    });
    expect(await db.sql`SELECT COUNT(*) AS many FROM line`).toEqual([{ many: 20 * round }]);
  }
  await mover.close();
  mover.checkpoint();
  await mover.close();
  await db.close();
});
