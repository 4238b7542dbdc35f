import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { openLog } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { runAlone } from "../../store/nodes/job-leases.test-support.ts";
import { insertUsage, usageRow } from "../../store/usage/usage-row.test-support.ts";
import { startFoldingDays } from "./fold-days.ts";

const NOW_MS = Date.parse("2026-09-03T12:00:00Z");

function folding(db: Db) {
  const lines: string[] = [];
  const clock = { nowMs: NOW_MS };
  const job = startFoldingDays({
    db,
    log: openLog(
      () => 0,
      (line) => lines.push(line),
    ),
    clock: { nowMs: () => clock.nowMs },
    everyMs: 3_600_000,
    runJob: runAlone,
  });
  return { job, lines, clock };
}

async function counted(db: Db): Promise<unknown> {
  const [row] = await db.sql`
    SELECT CAST(COALESCE(SUM(requests), 0) AS BIGINT) AS many FROM usage_day WHERE scope = 'all'`;
  return row?.many;
}

eachEngine(({ open }) => {
  test("folds on request, and no more once stopped", async () => {
    const db = await open();
    const { job } = folding(db);
    await insertUsage(db, [usageRow({ atMs: NOW_MS })]);
    await Promise.all([job.run(), job.run()]);
    expect(await counted(db)).toBe(1);
    await job.stop();
    await insertUsage(db, [usageRow({ atMs: NOW_MS })]);
    await job.run();
    expect(await counted(db)).toBe(1);
  });

  test("a request longer than the grace period is folded within the hour, without a mark", async () => {
    const db = await open();
    const { job, clock } = folding(db);
    await job.run();
    await insertUsage(db, [usageRow({ atMs: NOW_MS - 10 * HOUR_MS })]);
    clock.nowMs += 60_000;
    await job.run();
    expect(await counted(db)).toBe(0);
    clock.nowMs += HOUR_MS;
    await job.run();
    expect(await counted(db)).toBe(1);
    await job.stop();
  });

  test("after days without a pass, the next pass folds everything that is left", async () => {
    const db = await open();
    const { job, clock } = folding(db);
    await insertUsage(db, [usageRow({ atMs: NOW_MS })]);
    await job.run();
    for (const days of [0, 2, 5, 9]) await insertUsage(db, [usageRow({ atMs: NOW_MS + days * DAY_MS })]);
    clock.nowMs += 9 * DAY_MS;
    await job.run();
    expect(await counted(db)).toBe(5);
    await job.stop();
  });

  test("a failed pass is logged, and the next pass catches up", async () => {
    const db = await open();
    const { job, lines } = folding(db);
    await insertUsage(db, [usageRow({ atMs: NOW_MS })]);
    await db.sql.script("ALTER TABLE usage_day RENAME TO away");
    await job.run();
    expect(lines.join("")).toContain("usage_fold_failed");
    await db.sql.script("ALTER TABLE away RENAME TO usage_day");
    await job.run();
    expect(await counted(db)).toBe(1);
    await job.stop();
  });
});
