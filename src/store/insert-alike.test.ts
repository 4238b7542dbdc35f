import { expect, test } from "bun:test";
import fc from "fast-check";
import { eachEngine } from "../../test/postgres.ts";
import { isUniqueViolation, type Row, transaction } from "./db.ts";
import { insertAlike } from "./insert-alike.ts";

const TABLE = "CREATE TABLE wide (kind TEXT, size BIGINT, id BIGINT PRIMARY KEY, word TEXT)";
const COLUMNS = ["kind", "size", "id", "word"] as const;

/** From hardly any kinds to more than ever wait for their like. */
const rowsOf = fc.integer({ min: 1, max: 12 }).chain((kinds) =>
  fc.array(
    fc.record({
      kind: fc.integer({ min: 1, max: kinds }).map((kind) => `kind ${kind}`),
      size: fc.constantFrom(1, null),
      word: fc.constantFrom("one", "two", null),
    }),
    { maxLength: 120, size: "max" },
  ),
);

eachEngine(({ open }) => {
  test("rows of any kinds are written whole, each once", async () => {
    const db = await open();
    await db.sql.script(TABLE);
    await fc.assert(
      fc.asyncProperty(rowsOf, async (drawn) => {
        await db.sql`DELETE FROM wide`;
        const rows = drawn.map(({ kind, size, word }, id): Row => ({ kind, size, id, word }));
        const values = drawn.map(({ kind, size, word }, id) => [kind, size, id, word]);
        await transaction(db, (tx) => insertAlike(tx, "wide", COLUMNS, 2, values));
        expect(await db.sql`SELECT kind, size, id, word FROM wide ORDER BY id`).toEqual(rows);
      }),
      { numRuns: 40 },
    );
  });

  test("one row that is there already fails all of them", async () => {
    const db = await open();
    await db.sql.script(TABLE);
    const values = Array.from({ length: 40 }, (_, i) => ["kind", 1, i % 39, "one"]);
    const failed = await transaction(db, (tx) => insertAlike(tx, "wide", COLUMNS, 2, values)).catch((e) => e);
    expect(isUniqueViolation(failed)).toBe(true);
    expect(await db.sql`SELECT COUNT(*) AS many FROM wide`).toEqual([{ many: 0 }]);
  });
});
