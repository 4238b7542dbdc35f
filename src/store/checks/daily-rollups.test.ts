import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { foldDays } from "../../billing/maintenance/fold-days.ts";
import { type Db, transaction } from "../engine/db.ts";
import { markDays, startOfDay } from "../usage/usage-day.ts";
import { insertUsage, usageRow } from "../usage/usage-row.test-support.ts";
import { findWrongDays } from "./daily-rollups.ts";

/** A Thursday. */
const NOW_MS = Date.parse("2026-09-03T12:00:00Z");

const subjects = async (db: Db) => (await findWrongDays(db, NOW_MS, 100)).map(({ subject }) => subject);

/**
 * Two requests of a key in the previous week, two current ones, and one of a key without a user; all of them folded.
 */
async function someDays(db: Db): Promise<void> {
  await db.sql`INSERT INTO app_user (id, email, email_folded, role, created_at_ms) VALUES ('u1', 'a', 'a', 'user', 1)`;
  await db.sql`INSERT INTO key_group (id, name, interfaces, billing, on_disconnect, created_at_ms)
    VALUES ('g1', 'g', '[]', '{}', 'cancel', 1)`;
  await db.sql`INSERT INTO api_key (id, name, user_id, group_id, digest, public_id, last4, status, created_at_ms, revision)
    VALUES ('k1', 'k', 'u1', 'g1', 'd', 'p', '0000', 'active', 1, 1)`;
  const times = [NOW_MS - 8 * DAY_MS, NOW_MS - 7 * DAY_MS, NOW_MS - DAY_MS, NOW_MS];
  await insertUsage(
    db,
    times.map((atMs) => usageRow({ atMs, userId: "u1", costNano: 10n })),
  );
  await insertUsage(db, [usageRow({ atMs: NOW_MS, keyId: "k2", userId: null })]);
  await foldDays(db, NOW_MS, true);
}

const TAMPERED = [
  ["key", "k1"],
  ["user", "u1"],
  ["group", "g1"],
] as const;

eachEngine(({ open }) => {
  test("correct daily roll-ups have no findings", async () => {
    const db = await open();
    await someDays(db);
    expect(await findWrongDays(db, NOW_MS, 100)).toEqual([]);
  });

  test("reports a changed sum by scope, id and day, with its expected value", async () => {
    const db = await open();
    await someDays(db);
    await db.sql`UPDATE usage_day SET cost_nano = 11, requests = 3
      WHERE scope = 'key' AND scope_id = 'k1' AND day_ms = ${startOfDay(NOW_MS - DAY_MS)}`;
    expect(await findWrongDays(db, NOW_MS, 100)).toContainEqual({
      subject: "key k1 2026-09-02 fast",
      is: "requests 3, cost_nano 11",
      ought: "requests 1, cost_nano 10",
    });
  });

  test.each(TAMPERED)("checks all sums of a %s", async (scope, id) => {
    const db = await open();
    await someDays(db);
    // Weeks begin on Mondays.
    for (const [name, time] of [
      [scope, "2026-09-02"],
      [`${scope}_sum`, "2026-09-02"],
      [`${scope}_week`, "2026-08-31"],
    ] as const) {
      const add = (nano: number) => db.sql`UPDATE usage_day SET cost_nano = cost_nano + ${nano}
        WHERE scope = ${name} AND scope_id = ${id} AND day_ms = ${Date.parse(time)}`;
      await add(1);
      const found = await subjects(db);
      expect(found.some((subject) => subject.startsWith(`${name} ${id} ${time}`))).toBe(true);
      await add(-1);
      expect(await subjects(db)).toEqual([]);
    }
  });

  test("checks the hourly and daily sums over all callers", async () => {
    const db = await open();
    await someDays(db);
    await db.sql`UPDATE usage_day SET cost_nano = cost_nano + 1
      WHERE scope = 'all' AND day_ms < ${startOfDay(NOW_MS) - DAY_MS}`;
    expect(await subjects(db)).toEqual(["all 2026-08-26 fast", "all 2026-08-27 fast"]);
    await db.sql`UPDATE usage_day SET cost_nano = cost_nano + 1 WHERE scope = 'all_hour' AND day_ms = ${NOW_MS - DAY_MS}`;
    expect(await subjects(db)).toContain("all_hour 2026-09-02T12 fast");
  });

  test("reports missing days, except those with recent hours only", async () => {
    const db = await open();
    await someDays(db);
    await db.sql`DELETE FROM usage_day`;
    const found = await subjects(db);
    expect(found.filter((subject) => subject.startsWith("key "))).toEqual([
      "key k1 2026-08-26 fast",
      "key k1 2026-08-27 fast",
      "key k1 2026-09-02 fast",
    ]);
    expect(found.filter((subject) => subject.startsWith("group "))).toHaveLength(3);
  });

  test("reports a sum of today that exceeds its hours", async () => {
    const db = await open();
    await someDays(db);
    await db.sql`UPDATE usage_day SET cost_nano = cost_nano * 1000`;
    expect(await subjects(db)).toContain("key k1 2026-09-03 fast");
  });

  test("usage since the last fold and marked days are not reported: they are yet to be folded", async () => {
    const db = await open();
    await someDays(db);
    await insertUsage(db, [usageRow({ atMs: NOW_MS + HOUR_MS }), usageRow({ atMs: NOW_MS - 2 * HOUR_MS })]);
    expect(await subjects(db)).toEqual([]);
    const late = usageRow({ atMs: NOW_MS - 8 * DAY_MS });
    await insertUsage(db, [late]);
    expect(await subjects(db)).not.toEqual([]);
    await transaction(db, (tx) => markDays(tx, [late]));
    expect(await subjects(db)).toEqual([]);
    await foldDays(db, NOW_MS, false);
    expect(await subjects(db)).toEqual([]);
  });

  test("a database that was never folded has no findings", async () => {
    const db = await open();
    await insertUsage(db, [usageRow({ atMs: NOW_MS - 8 * DAY_MS })]);
    expect(await subjects(db)).toEqual([]);
  });
});
