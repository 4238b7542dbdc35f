import { expect, test } from "bun:test";
import fc from "fast-check";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { foldDays } from "../../billing/maintenance/fold-days.ts";
import type { Db } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import type { UsageRow } from "../usage/usage.ts";
import { startOfDay } from "../usage/usage-day.ts";
import { insertUsage, usageRow } from "../usage/usage-row.test-support.ts";
import {
  canSplit,
  readSplitUsage,
  readTotalUsage,
  SERIES_SPLITS,
  type SeriesRequest,
} from "./usage-series.ts";

const TODAY_MS = Date.parse("2026-09-03T00:00:00Z");
const NOW_MS = TODAY_MS + 12 * HOUR_MS;
const KEYS = { k1: "u1", k2: "u1", k3: "u2" } as const;
const BOUNDS = { ranked: 50, drawn: 7 };

async function seedKeys(db: Db): Promise<void> {
  const columns = ["id", "name", "user_id", "group_id", "digest", "public_id", "last4", "status"];
  await insertRows(
    db,
    "api_key",
    [...columns, "created_at_ms", "revision"],
    Object.entries(KEYS).map(([id, userId]) => [id, id, userId, nameGroup(id), id, id, "", "active", 1, 1]),
  );
}

const nameGroup = (keyId: string) => (keyId === "k2" ? "g2" : "g1");

/** Times days apart, and in the last hours, which are not folded yet. */
const instant = fc
  .tuple(fc.integer({ min: 0, max: 4 }), fc.integer({ min: 0, max: 23 }))
  .map(([days, hours]) => NOW_MS - days * DAY_MS - hours * HOUR_MS);

const anyRows = fc.array(
  fc
    .record({
      atMs: instant,
      keyId: fc.constantFrom("k1" as const, "k2" as const, "k3" as const),
      publicModel: fc.constantFrom("fast", "slow"),
      outcome: fc.constantFrom<UsageRow["outcome"][]>("completed", "failed", "refused"),
      costNano: fc.bigInt({ min: 0n, max: 9n }),
    })
    .map((drawn) => ({ ...drawn, userId: KEYS[drawn.keyId], groupId: nameGroup(drawn.keyId) })),
  { maxLength: 25 },
);

const anyRequest: fc.Arbitrary<SeriesRequest> = fc
  .record({
    scope: fc.record(
      {
        keyId: fc.constantFrom("k1", "k2"),
        userId: fc.constantFrom("u1", "u2"),
        groupId: fc.constantFrom("g1", "g2"),
      },
      { requiredKeys: [] },
    ),
    by: fc.constantFrom(...SERIES_SPLITS),
    granularity: fc.constantFrom("day" as const, "hour" as const),
    model: fc.constantFrom("fast", undefined),
    days: fc.integer({ min: 0, max: 5 }),
  })
  .map(({ days, model, ...asked }) => ({
    ...asked,
    ...(model === undefined ? {} : { model }),
    // Rankings over all callers cover whole days.
    fromMs: TODAY_MS - days * DAY_MS,
    toMs: TODAY_MS + DAY_MS,
  }));

function isAsked({ scope, model, fromMs, toMs }: SeriesRequest, row: UsageRow): boolean {
  return (
    (scope.keyId === undefined || row.keyId === scope.keyId) &&
    (scope.userId === undefined || row.userId === scope.userId) &&
    (scope.groupId === undefined || row.groupId === scope.groupId) &&
    (model === undefined || row.publicModel === model) &&
    row.atMs >= fromMs &&
    row.atMs < toMs
  );
}

const nameRow = { total: () => "", model: (r: UsageRow) => r.publicModel } as const;
function splitName(by: SeriesRequest["by"], row: UsageRow): string {
  if (by === "key") return row.keyId;
  if (by === "user") return row.userId ?? "";
  return by === "group" ? row.groupId : nameRow[by](row);
}

const counts = (rows: readonly UsageRow[]) => ({
  requests: rows.filter(({ outcome }) => outcome !== "refused").length,
  refused: rows.filter(({ outcome }) => outcome === "refused").length,
  costNano: rows.reduce((sum, { costNano }) => sum + costNano, 0n),
});

eachEngine(({ open }) => {
  test("every split of every scope matches the rows, folded or not", async () => {
    await fc.assert(
      fc.asyncProperty(anyRows, anyRows, anyRequest, async (before, after, asked) => {
        fc.pre(canSplit(asked));
        const db = await open();
        await seedKeys(db);
        // Rows inserted later are recent: older days are already folded for good.
        const recent = after.filter(({ atMs }) => atMs > NOW_MS - 2 * HOUR_MS);
        await insertUsage(db, before.map(usageRow));
        await foldDays(db, NOW_MS, true);
        await insertUsage(db, recent.map(usageRow));
        const rows = [...before, ...recent].map(usageRow).filter((row) => isAsked(asked, row));
        const split = await readSplitUsage(db, asked, BOUNDS);
        const unit = (ms: number) => (asked.granularity === "day" ? startOfDay(ms) : ms - (ms % HOUR_MS));
        expect(split.total).toMatchObject(counts(rows));
        expect(split.points.map(({ atMs }) => atMs)).toEqual(
          [...new Set(rows.map(({ atMs }) => unit(atMs)))].toSorted((a, b) => a - b),
        );
        const byName = Map.groupBy(asked.by === "total" ? [] : rows, (row) => splitName(asked.by, row));
        expect(Object.fromEntries(split.ranking.map(({ id, totals }) => [id, totals.requests]))).toEqual(
          Object.fromEntries([...byName].map(([name, some]) => [name, counts(some).requests])),
        );
        for (const { id, points } of split.series) {
          const sum = points.reduce((all, { costNano }) => all + costNano, 0n);
          expect(sum).toBe(counts(byName.get(id) ?? []).costNano);
        }
        expect(await readTotalUsage(db, asked)).toEqual(split.total);
        await db.close();
      }),
      { numRuns: 25 },
    );
  }, 60_000);

  test("series are ordered by cost, and the number of ranked and drawn ones is limited", async () => {
    const db = await open();
    await seedKeys(db);
    await insertUsage(
      db,
      ["a", "b", "c", "d"].map((publicModel, i) =>
        usageRow({ publicModel, atMs: NOW_MS, userId: "u1", costNano: BigInt(i) }),
      ),
    );
    const asked = { scope: { userId: "u1" }, by: "model", granularity: "day" } as const;
    const range = { fromMs: TODAY_MS, toMs: TODAY_MS + DAY_MS };
    const split = await readSplitUsage(db, { ...asked, ...range }, { ranked: 3, drawn: 2 });
    expect(split.ranking.map(({ id }) => id)).toEqual(["d", "c", "b"]);
    expect(split.series.map(({ id }) => id)).toEqual(["d", "c"]);
    expect(split.total.requests).toBe(4);
  });
});
