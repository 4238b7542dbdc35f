import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { HOUR_MS } from "../../base/time.ts";
import { insertUsage, usageRow } from "../usage/usage-row.test-support.ts";
import { readSplitUsage } from "./usage-series.ts";
import { readSplitRows } from "./usage-series-rows.ts";

const AT_MS = Date.parse("2026-09-03T00:00:00Z");
const ASKED = {
  scope: {},
  accountId: "a1",
  by: "model",
  granularity: "hour",
  fromMs: AT_MS,
  toMs: AT_MS + 10 * HOUR_MS,
} as const;
const BOUNDS = { ranked: 10, drawn: 5, rows: 1_000 };

eachEngine(({ open }) => {
  test("requests of an account are split like roll-ups with the same rows", async () => {
    const db = await open();
    await insertUsage(
      db,
      Array.from({ length: 12 }, (_, i) =>
        usageRow({
          atMs: AT_MS + (i % 4) * HOUR_MS,
          accountId: "a1",
          publicModel: i % 3 === 0 ? "slow" : "fast",
          outcome: i === 5 ? "refused" : i === 7 ? "failed" : "completed",
          firstByteMs: i % 2 === 0 ? 20 : null,
          costNano: BigInt(i),
        }),
      ),
    );
    const { sinceMs, ...fromRows } = await readSplitRows(db, ASKED, BOUNDS);
    expect(sinceMs).toBe(AT_MS);
    expect(fromRows).toEqual(await readSplitUsage(db, ASKED, BOUNDS));
  });

  test("requests served by other accounts are not counted", async () => {
    const db = await open();
    await insertUsage(db, [
      usageRow({ atMs: AT_MS, accountId: "a1" }),
      usageRow({ atMs: AT_MS, accountId: "a2" }),
      usageRow({ atMs: AT_MS, accountId: null }),
    ]);
    expect((await readSplitRows(db, ASKED, BOUNDS)).total.requests).toBe(1);
  });

  test("with too many rows, only the newest are read, and the result contains the time of the first", async () => {
    const db = await open();
    await insertUsage(
      db,
      Array.from({ length: 10 }, (_, i) => usageRow({ atMs: AT_MS + i, accountId: "a1" })),
    );
    const { sinceMs, total } = await readSplitRows(db, ASKED, { ...BOUNDS, rows: 4 });
    expect([sinceMs, total.requests]).toEqual([AT_MS + 6, 4]);
  });
});
