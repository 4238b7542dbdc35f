import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { RowRemoval } from "../../billing/maintenance/remove-rows.ts";
import { openLog } from "../../observe/log.ts";
import type { Db } from "../engine/db.ts";
import { runAlone } from "../nodes/job-leases.test-support.ts";
import { keyTotals, type UsageRow } from "./usage.ts";
import { readUsageRowsRemovedBefore, removeUsageRows, writeUsageRowsKept } from "./usage-removal.ts";
import { insertUsage, usageRow } from "./usage-row.test-support.ts";

const row = (requestId: string, atMs: number, outcome: UsageRow["outcome"] = "completed"): UsageRow =>
  usageRow({ requestId, atMs, outcome });

async function present(db: Db): Promise<unknown[]> {
  return (await db.sql`SELECT request_id FROM usage ORDER BY request_id`).map((found) => found.request_id);
}

function removal(db: Db, nowMs: number) {
  const log = openLog(
    () => 0,
    () => {},
  );
  return new RowRemoval({
    db,
    openMaintenanceDb: async () => ({ ...db, close: async () => {} }),
    log,
    clock: { nowMs: () => nowMs },
    everyMs: 3_600_000,
    firstAfterMs: 3_600_000,
    rowsMax: 2,
    pauseMs: 0,
    runJob: runAlone,
  });
}

eachEngine(({ open }) => {
  test("old rows are removed in small batches, each together with the retention bound", async () => {
    const db = await open();
    await insertUsage(db, [row("r1", 10), row("r2", 20), row("r3", 20), row("r4", 30), row("r5", 40)]);
    expect(await readUsageRowsRemovedBefore(db)).toBe(0);
    expect(await removeUsageRows(db, { beforeMs: 35, rowsMax: 2 })).toBe(2);
    // Both rows of time 20 are removed; otherwise the bound would be wrong for one of them.
    expect(await present(db)).toEqual(["r4", "r5"]);
    expect(await readUsageRowsRemovedBefore(db)).toBe(21);
    expect(await removeUsageRows(db, { beforeMs: 35, rowsMax: 2 })).toBe(1);
    expect(await removeUsageRows(db, { beforeMs: 35, rowsMax: 2 })).toBe(0);
    expect(await present(db)).toEqual(["r5"]);
    expect(await readUsageRowsRemovedBefore(db)).toBe(31);
  });

  test("the retention bound never decreases", async () => {
    const db = await open();
    await insertUsage(db, [row("r1", 50)]);
    await removeUsageRows(db, { beforeMs: 100, rowsMax: 10 });
    await insertUsage(db, [row("r2", 20)]);
    await removeUsageRows(db, { beforeMs: 100, rowsMax: 10 });
    expect(await present(db)).toEqual([]);
    expect(await readUsageRowsRemovedBefore(db)).toBe(51);
  });

  test("roll-ups and pending rows are kept", async () => {
    const db = await open();
    await insertUsage(db, [row("r1", 10), row("r2", 11, "pending")]);
    await removeUsageRows(db, { beforeMs: 100, rowsMax: 10 });
    expect(await present(db)).toEqual(["r2"]);
    expect((await keyTotals(db, "k1", null)).requests).toBe(2);
  });

  test("the job applies the retention setting, and removes nothing without one", async () => {
    const db = await open();
    await insertUsage(
      db,
      [10, 20, 30, 40, 50, 60].map((atMs) => row(`r${atMs}`, atMs)),
    );
    const job = removal(db, 1_055);
    await job.remove();
    expect(await present(db)).toHaveLength(6);
    await writeUsageRowsKept(db, 1_000);
    await job.remove();
    expect(await present(db)).toEqual(["r60"]);
    await writeUsageRowsKept(db, null);
    await job.stop();
    await job.remove();
    expect(await present(db)).toEqual(["r60"]);
  });
});
