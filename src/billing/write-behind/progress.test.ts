import { expect, test } from "bun:test";
import fc from "fast-check";
import type { HoldProgress } from "../../store/money/holds.ts";
import { buildHoldRequest } from "../engine/direct-billing.test-support.ts";
import { groupByProgress } from "./progress.ts";
import { newReservation, type ReservedHold } from "./wallet-reservations.ts";

const progress: fc.Arbitrary<HoldProgress> = fc.record({
  state: fc.constantFrom("admitted" as const, "dispatched" as const),
  accountId: fc.constantFrom(null, "a1", "a2"),
  upstreamModel: fc.constantFrom("m1", "m2"),
  outputTokens: fc.constantFrom(0, 0, 0, 7),
});

test("each hold is recorded once, grouped with the holds of equal progress", () => {
  fc.assert(
    fc.property(fc.array(progress, { maxLength: 300, size: "max" }), (all) => {
      const reservation = newReservation("u1", 1n);
      const holds = all.map(
        (one, index): ReservedHold => ({
          request: buildHoldRequest(`r${index}`),
          atMs: 0,
          reservation,
          segment: 1,
          sinceMs: 0,
          progress: one,
          isChanged: false,
          isOpen: true,
          storing: null,
        }),
      );
      const lines = groupByProgress(holds);
      const entries = new Map(
        lines.flatMap((line) => line.requestIds.map((id) => [id, line.progress] as const)),
      );
      expect(lines.reduce((sum, { requestIds }) => sum + requestIds.length, 0)).toBe(all.length);
      all.forEach((one, index) => {
        expect(entries.get(`r${index}`)).toEqual(one);
      });
      for (const { requestIds } of lines) expect(requestIds.length).toBeLessThanOrEqual(64);
    }),
  );
});
