import { expect, test } from "bun:test";
import fc from "fast-check";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { type Db, isUniqueViolation, openDb, transaction } from "../engine/db.ts";
import { migrate } from "../engine/migrate.ts";
import { groupByKind, insertFull, insertRest, ReadyRows, type SameKindRows } from "./insert-usage.ts";
import { findUsage, type UsageRow } from "./usage.ts";
import { Numbering, UsageNumbers } from "./usage-numbers.ts";
import { usageRow } from "./usage-row.test-support.ts";

/** From very few kinds to more than can wait for a full statement. */
const anyRows = fc.integer({ min: 1, max: 60 }).chain((kinds) =>
  fc.array(
    fc.record({
      publicModel: fc.integer({ min: 1, max: kinds }).map((kind) => `model ${kind}`),
      stream: fc.boolean(),
      images: fc.constantFrom(0, 1),
      userId: fc.constantFrom("u1", null),
      flags: fc.constantFrom([], ["estimated" as const]),
      trace: fc.constantFrom('{"a":1}', null),
      costNano: fc.constantFrom(0n, 7n, 10n ** 14n),
      chargedWith: fc.constantFrom("r1", null),
    }),
    { maxLength: 150, size: "max" },
  ),
);

/** A row, and the request whose ledger entry it shares. */
type ChargedRow = readonly [row: UsageRow, chargedWith: string | null];

/** Inserts in two steps, as billing does. */
async function insert(db: Db, rows: readonly ChargedRow[]): Promise<number> {
  let pauses = 0;
  await transaction(db, async (tx) => {
    const numbering = new Numbering(new UsageNumbers());
    const ready = new ReadyRows();
    for (const step of [rows.slice(0, 70), rows.slice(70)]) {
      const kinds: SameKindRows[] = [];
      for (const [row, chargedWith] of step) groupByKind(kinds, row).add(row, chargedWith);
      for (const sameKindRows of kinds) ready.add(sameKindRows);
      await insertFull(tx, numbering, ready.full.splice(0));
    }
    await insertRest(tx, numbering, ready.rest(), async () => {
      pauses++;
    });
  });
  return pauses;
}

eachEngine(({ open }) => {
  test("rows of any kinds are inserted completely, each once", async () => {
    const db = await open();
    await fc.assert(
      fc.asyncProperty(anyRows, async (drawn) => {
        await db.sql`DELETE FROM usage_row`;
        const rows = drawn.map(({ chargedWith, ...row }): ChargedRow => [usageRow(row), chargedWith]);
        await insert(db, rows);
        for (const [row] of rows) expect(await findUsage(db, row.requestId)).toEqual(row);
        expect(await db.sql`SELECT request_id, charged_with FROM usage ORDER BY request_id`).toEqual(
          rows.map(([row, chargedWith]) => ({ request_id: row.requestId, charged_with: chargedWith })),
        );
      }),
      { numRuns: 30 },
    );
  });

  test("one duplicate row fails the whole batch", async () => {
    const db = await open();
    const rows = Array.from(
      { length: 40 },
      (_, i): ChargedRow => [usageRow({ requestId: `r${i % 39}` }), null],
    );
    const failed = await insert(db, rows).catch((error) => error);
    expect(isUniqueViolation(failed)).toBe(true);
    expect(await db.sql`SELECT COUNT(*) AS many FROM usage`).toEqual([{ many: 0 }]);
  });
});

test("on SQLite, the insert yields after every few leftover rows", async () => {
  const db = await openDb("sqlite::memory:");
  await migrate(db);
  const rows = Array.from(
    { length: 100 },
    (_, i): ChargedRow => [usageRow({ publicModel: `m${i % 10}` }), null],
  );
  expect(await insert(db, rows)).toBe(2);
  await db.close();
});

test("rows that wait to be written can be read back", () => {
  fc.assert(
    fc.property(anyRows, (drawn) => {
      const rows = drawn.map(({ chargedWith: _, ...row }) => usageRow(row));
      const kinds: SameKindRows[] = [];
      for (const row of rows) groupByKind(kinds, row).add(row, null);
      const byId = (one: UsageRow, other: UsageRow) => (one.requestId < other.requestId ? -1 : 1);
      expect(kinds.flatMap((alike) => alike.rows()).sort(byId)).toEqual(rows.toSorted(byId));
      expect(kinds.flatMap((alike) => alike.ids()).sort()).toEqual(rows.map((row) => row.requestId).sort());
    }),
    { numRuns: 30 },
  );
});
