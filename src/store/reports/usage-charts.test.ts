import { expect, test } from "bun:test";
import fc from "fast-check";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { foldDays } from "../../billing/maintenance/fold-days.ts";
import { type Db, openDb } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { migrate } from "../engine/migrate.ts";
import { settlePending, type UsageRow } from "../usage/usage.ts";
import { markLate, readFoldState, startOfDay } from "../usage/usage-day.ts";
import { insertUsage, usageRow } from "../usage/usage-row.test-support.ts";
import { type ChartScope, readTopUsage, readUsageSeries } from "./usage-charts.ts";

const TODAY_MS = Date.parse("2026-09-03T00:00:00Z");
const NOW_MS = TODAY_MS + 12 * HOUR_MS;

const row = (change: Partial<UsageRow> = {}): UsageRow =>
  usageRow({
    atMs: NOW_MS,
    userId: "u1",
    firstByteMs: 20,
    costNano: 7n,
    chargedNano: 3n,
    ...change,
  });

const KEYS = { k1: "u1", k2: "u1", k3: "u2", k4: null } as const;

async function seedKeys(db: Db): Promise<void> {
  const columns = [
    "id",
    "name",
    "user_id",
    "group_id",
    "digest",
    "public_id",
    "last4",
    "status",
    "created_at_ms",
  ];
  await insertRows(
    db,
    "api_key",
    [...columns, "revision"],
    Object.entries(KEYS).map(([id, userId]) => [id, id, userId, "g1", id, id, "", "active", 1, 1]),
  );
}

const RANGE = { fromMs: TODAY_MS - 20 * DAY_MS, toMs: TODAY_MS + DAY_MS };

async function requests(db: Db, scope: ChartScope, granularity: "day" | "hour" = "day") {
  const points = await readUsageSeries(db, { scope, ...RANGE, granularity, by: "total" });
  return points.map(({ atMs, requests }) => [atMs, requests]);
}

eachEngine(({ open, emptyUrl }) => {
  test("a fold sums the hours of a day for all callers, each group, each user and each key", async () => {
    const db = await open();
    await seedKeys(db);
    await insertUsage(db, [
      row({ atMs: TODAY_MS - 1 }),
      row({ atMs: TODAY_MS }),
      row({ keyId: "k2", publicModel: "slow" }),
      row({ keyId: "k3", groupId: "g2", firstByteMs: null, durationMs: 400 }),
      row({ keyId: "k4", outcome: "refused", firstByteMs: null, durationMs: 0, costNano: 0n }),
    ]);
    await foldDays(db, NOW_MS, true);
    const yesterday = TODAY_MS - DAY_MS;
    expect(await requests(db, { kind: "all" })).toEqual([
      [yesterday, 1],
      [TODAY_MS, 3],
    ]);
    expect(await requests(db, { kind: "group", id: "g2" })).toEqual([[TODAY_MS, 1]]);
    expect(await requests(db, { kind: "user", id: "u1" })).toEqual([
      [yesterday, 1],
      [TODAY_MS, 2],
    ]);
    expect(await requests(db, { kind: "key", id: "k4" })).toEqual([[TODAY_MS, 0]]);
    const byModel = await readUsageSeries(db, {
      scope: { kind: "all" },
      fromMs: TODAY_MS,
      toMs: NOW_MS,
      granularity: "day",
      by: "model",
    });
    expect(byModel.map(({ model }) => model)).toEqual(["fast", "slow"]);
    expect(byModel[0]).toEqual({
      atMs: TODAY_MS,
      model: "fast",
      requests: 2,
      refused: 1,
      failed: 0,
      inputTokens: 30,
      cachedTokens: 12,
      cacheWriteTokens: 3,
      outputTokens: 15,
      reasoningTokens: 6,
      images: 0,
      costNano: 14n,
      chargedNano: 9n,
      upstreamNano: 0n,
      // Only of the request with a first byte: the means of both times are over the same requests.
      durationMs: 100,
      firstByteMs: 20,
      firstBytes: 1,
      durationMsMean: 100,
      firstByteMsMean: 20,
    });
  });

  test("hourly usage is available for every scope", async () => {
    const db = await open();
    await seedKeys(db);
    await insertUsage(db, [row({ atMs: NOW_MS }), row({ atMs: NOW_MS + HOUR_MS, keyId: "k2" })]);
    await foldDays(db, NOW_MS, false);
    const both = [
      [NOW_MS, 1],
      [NOW_MS + HOUR_MS, 1],
    ];
    expect(await requests(db, { kind: "all" }, "hour")).toEqual(both);
    expect(await requests(db, { kind: "group", id: "g1" }, "hour")).toEqual(both);
    expect(await requests(db, { kind: "user", id: "u1" }, "hour")).toEqual(both);
    expect(await requests(db, { kind: "key", id: "k2" }, "hour")).toEqual([[NOW_MS + HOUR_MS, 1]]);
  });

  test("for any order of rows and folds, the days equal their hours", async () => {
    const moment = fc.record({
      hours: fc.integer({ min: 0, max: 60 }),
      key: fc.constantFrom("k1", "k2", "k3", "k4"),
      group: fc.constantFrom("g1", "g2"),
      model: fc.constantFrom("fast", "slow"),
      foldsAfter: fc.boolean(),
      whole: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(moment, { minLength: 1, maxLength: 12 }), async (moments) => {
        const db = await open();
        await seedKeys(db);
        const ordered = moments.toSorted((a, b) => a.hours - b.hours);
        let nowMs = TODAY_MS;
        for (const { hours, key, group, model, foldsAfter, whole } of ordered) {
          nowMs = TODAY_MS + hours * HOUR_MS;
          await insertUsage(db, [row({ atMs: nowMs, keyId: key, groupId: group, publicModel: model })]);
          if (foldsAfter) await foldDays(db, nowMs, whole);
        }
        await foldDays(db, nowMs, false);
        const folded = await db.sql`
          SELECT scope_id, day_ms, public_model, requests, CAST(cost_nano AS TEXT) AS cost FROM usage_day
          WHERE scope = 'key' ORDER BY scope_id, day_ms, public_model`;
        const expected = await db.sql`
          SELECT key_id AS scope_id, hour_ms - hour_ms % 86400000 AS day_ms, public_model,
            CAST(SUM(requests) AS BIGINT) AS requests, CAST(SUM(cost_nano) AS TEXT) AS cost
          FROM usage_hour GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`;
        expect([...folded]).toEqual([...expected]);
        const sums = await db.sql`
          SELECT scope, CAST(SUM(requests) AS BIGINT) AS requests FROM usage_day
          WHERE scope NOT LIKE 'user%' GROUP BY scope ORDER BY scope`;
        const scopes = ["all", "all_hour", "group", "group_sum", "group_week", "key", "key_sum", "key_week"];
        expect([...sums]).toEqual(scopes.map((scope) => ({ scope, requests: moments.length })));
        await db.close().catch(() => {});
      }),
      { numRuns: 15 },
    );
  }, 60_000);

  test("a repeated or concurrent fold changes nothing", async () => {
    const url = await emptyUrl();
    const [one, other] = [await openDb(url), await openDb(url)];
    try {
      await migrate(one);
      await seedKeys(one);
      await insertUsage(one, [row(), row({ keyId: "k2" }), row({ atMs: TODAY_MS - DAY_MS })]);
      await Promise.all([foldDays(one, NOW_MS, true), foldDays(other, NOW_MS, true)]);
      const before = await requests(one, { kind: "all" });
      await Promise.all([foldDays(one, NOW_MS, true), foldDays(other, NOW_MS, false)]);
      expect(await requests(one, { kind: "all" })).toEqual(before);
      expect(before).toEqual([
        [TODAY_MS - DAY_MS, 1],
        [TODAY_MS, 2],
      ]);
    } finally {
      await one.close();
      await other.close();
    }
  });

  test("the first fold covers all earlier days", async () => {
    const db = await open();
    await insertUsage(db, [row({ atMs: TODAY_MS - 15 * DAY_MS })]);
    expect(await foldDays(db, NOW_MS, false)).toEqual([TODAY_MS - 15 * DAY_MS]);
    expect((await readFoldState(db)).foldedAtMs).toBe(NOW_MS);
  });

  test("a day with a late settlement is marked and folded again, and the mark is removed", async () => {
    const db = await open();
    const pending = row({
      atMs: TODAY_MS - 10 * DAY_MS,
      outcome: "pending",
      inputTokens: 0,
      outputTokens: 0,
    });
    await insertUsage(db, [pending]);
    await foldDays(db, NOW_MS, true);
    const tokens = { ...pending, outputTokens: 50 };
    await settlePending(db, pending.requestId, { tokens, costNano: 7n, listNano: 5n }, "completed");
    expect((await readFoldState(db)).marks).toEqual([
      { requestId: pending.requestId, dayMs: startOfDay(pending.atMs) },
    ]);
    await foldDays(db, NOW_MS + 60_000, false);
    const [point] = await readUsageSeries(db, {
      scope: { kind: "all" },
      ...RANGE,
      granularity: "day",
      by: "total",
    });
    expect(point?.outputTokens).toBe(50);
    expect((await readFoldState(db)).marks).toEqual([]);
  });

  test("only rows that are hours late are marked, and a repeat changes nothing", async () => {
    const db = await open();
    const late = row({ atMs: NOW_MS - 10 * DAY_MS });
    const rows = [late, row({ atMs: NOW_MS - HOUR_MS }), row()];
    await markLate(db, rows, NOW_MS);
    await markLate(db, rows, NOW_MS);
    expect((await readFoldState(db)).marks).toEqual([
      { requestId: late.requestId, dayMs: startOfDay(late.atMs) },
    ]);
  });

  test("rankings sum whole weeks and the days at both ends", async () => {
    const db = await open();
    await seedKeys(db);
    const rows = Array.from({ length: 40 }, (_, i) => [
      row({ atMs: TODAY_MS - i * DAY_MS, costNano: 1n }),
      row({ atMs: TODAY_MS - i * DAY_MS, keyId: "k3", publicModel: "slow", costNano: BigInt(i) }),
    ]).flat();
    await insertUsage(db, rows);
    await foldDays(db, NOW_MS, true);
    for (let days = 1; days <= 40; days += 3) {
      const range = { fromMs: TODAY_MS - (days - 1) * DAY_MS, toMs: NOW_MS, limit: 5 };
      const slow = {
        requests: days,
        refused: 0,
        costNano: BigInt((days * (days - 1)) / 2),
        chargedNano: 3n * BigInt(days),
      };
      const fast = { requests: days, refused: 0, costNano: BigInt(days), chargedNano: 3n * BigInt(days) };
      const inOrder = (dear: string, cheap: string) => {
        const both = [
          { id: dear, ...slow },
          { id: cheap, ...fast },
        ];
        return slow.costNano > fast.costNano ? both : both.toReversed();
      };
      const top = (of: "key" | "user" | "model") =>
        readTopUsage(db, { rankBy: of, within: { kind: "all" }, ...range });
      expect(await top("key")).toEqual(inOrder("k3", "k1"));
      expect(await top("user")).toEqual(inOrder("u2", "u1"));
      expect(await top("model")).toEqual(inOrder("slow", "fast"));
      expect(await readTopUsage(db, { rankBy: "key", within: { kind: "user", id: "u1" }, ...range })).toEqual(
        [{ id: "k1", ...fast }],
      );
    }
  });

  test("a ranking by parts that the scope does not have is rejected", async () => {
    const db = await open();
    const asked = {
      rankBy: "user",
      within: { kind: "key", id: "k1" },
      fromMs: 0,
      toMs: 1,
      limit: 1,
    } as const;
    expect(readTopUsage(db, asked)).rejects.toThrow("is not supported");
  });
});
