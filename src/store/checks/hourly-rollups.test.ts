import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import type { Db } from "../engine/db.ts";
import { writeSetting } from "../settings/settings.ts";
import { insertUsage, usageRow } from "../usage/usage-row.test-support.ts";
import { findWrongRollUps } from "./hourly-rollups.ts";

const DAY = Date.parse("2026-09-03T00:00:00Z");
const LATE = DAY + 23 * HOUR_MS;

/** Two days far apart. One row of the second day is in its last hour. */
async function someHours(db: Db): Promise<void> {
  await insertUsage(db, [
    usageRow({ requestId: "early", atMs: DAY - 400 * DAY_MS, costNano: 5n }),
    usageRow({ requestId: "noon", atMs: DAY + 12 * HOUR_MS, outcome: "refused" }),
    usageRow({ requestId: "late", atMs: LATE + 5, firstByteMs: 7, outcome: "failed" }),
    usageRow({ requestId: "other", atMs: LATE + 6, keyId: "k2" }),
  ]);
}

/** The key and the hour of each finding. */
const subjects = async (db: Db, limit = 10) =>
  (await findWrongRollUps(db, limit)).map(({ subject }) => subject.split(" ").slice(0, 2).join(" "));

eachEngine(({ open }) => {
  test("correct hourly roll-ups have no findings", async () => {
    const db = await open();
    expect(await findWrongRollUps(db, 10)).toEqual([]);
    await someHours(db);
    expect(await findWrongRollUps(db, 10)).toEqual([]);
  });

  test.each([
    [
      "a row deleted from the last hour of a day",
      "DELETE FROM usage_row WHERE request_id = 'late'",
      [`k1 ${LATE}`],
    ],
    [
      "a row moved to another hour",
      `UPDATE usage_row SET at_ms = ${LATE - 1} WHERE request_id = 'other'`,
      [`k2 ${LATE - HOUR_MS}`, `k2 ${LATE}`],
    ],
    [
      "a row moved to another key",
      "INSERT INTO usage_id VALUES (99, 'k3'); UPDATE usage_row SET key_no = 99 WHERE request_id = 'late'",
      [`k1 ${LATE}`, `k3 ${LATE}`],
    ],
    ["a deleted key id", "DELETE FROM usage_id WHERE id = 'k2'", [` ${LATE}`, `k2 ${LATE}`]],
    [
      "a row with another outcome",
      "UPDATE usage_kind SET outcome = 'completed' WHERE outcome = 'failed'",
      [`k1 ${LATE}`],
    ],
    [
      "an hour without its rows",
      `DELETE FROM usage_row WHERE at_ms >= ${LATE}`,
      [`k1 ${LATE}`, `k2 ${LATE}`],
    ],
    [
      "rows without their hour",
      `DELETE FROM usage_hour WHERE hour_ms = ${LATE}`,
      [`k1 ${LATE}`, `k2 ${LATE}`],
    ],
    [
      "a changed sum of an old hour",
      `UPDATE usage_hour SET cost_nano = 6 WHERE hour_ms < ${DAY}`,
      [`k1 ${DAY - 400 * DAY_MS}`],
    ],
  ])("reports %s", async (_what, change, named) => {
    const db = await open();
    await someHours(db);
    await db.sql.script(change);
    expect(await subjects(db)).toEqual(named);
  });

  test("the number of findings is limited over all days", async () => {
    const db = await open();
    await someHours(db);
    await db.sql`UPDATE usage_hour SET images = 1`;
    expect(await subjects(db)).toHaveLength(4);
    expect(await subjects(db, 2)).toHaveLength(2);
  });

  test("hours with rows removed by retention are not compared", async () => {
    const db = await open();
    await someHours(db);
    await db.sql`DELETE FROM usage_row WHERE at_ms < ${LATE + 6}`;
    await writeSetting(db, "usage_rows_removed_before_ms", String(LATE + 6));
    expect(await subjects(db)).toEqual([]);
    await writeSetting(db, "usage_rows_removed_before_ms", String(LATE));
    expect(await subjects(db)).toEqual([`k1 ${LATE}`]);
  });
});
