import { expect, test } from "bun:test";
import fc from "fast-check";
import { addToLines, RollUp, type RollUpEntry } from "./usage-hour.ts";
import { usageRow } from "./usage-row.test-support.ts";

const row = fc
  .record({
    keyId: fc.constantFrom("k1", "k2"),
    groupId: fc.constantFrom("g1", "g2"),
    publicModel: fc.constantFrom("fast", "slow"),
    atMs: fc.constantFrom(0, 1, 3_600_000),
    outcome: fc.constantFrom("completed" as const, "refused" as const, "failed" as const),
    inputTokens: fc.nat({ max: 100 }),
    firstByteMs: fc.constantFrom(null, 5),
    costNano: fc.constantFrom(0n, 10n ** 17n),
  })
  .map(usageRow);

/** A roll-up does not distinguish times within one hour. */
const listLines = (sums: RollUp) =>
  sums
    .entries()
    .map(({ dimensions: of, totals }) => ({ ...of, atMs: Math.floor(of.atMs / 3_600_000), totals }));

test("the merged roll-ups of any batches equal the roll-up of all rows", () => {
  fc.assert(
    fc.property(fc.array(fc.array(row)), (batches) => {
      const whole = new RollUp();
      const merged = new RollUp();
      for (const batch of batches) {
        const own: RollUpEntry[] = [];
        for (const one of batch) {
          whole.add(one);
          addToLines(own, one);
        }
        merged.merge(own);
      }
      expect(listLines(merged)).toEqual(listLines(whole));
    }),
  );
});
