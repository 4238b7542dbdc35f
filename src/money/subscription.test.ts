import { expect, test } from "bun:test";
import fc from "fast-check";
import { comparePayingOrder, computeCurrentEnd, computeSubscriptionState } from "./subscription.ts";

const at = (text: string) => Date.parse(text);
const date = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString().slice(0, 10));

test("without renewal, the end is fixed or open", () => {
  const term = { startsAtMs: 0, renews: "none" } as const;
  expect(computeCurrentEnd({ ...term, endsAtMs: 5 }, "UTC", 100)).toBe(5);
  expect(computeCurrentEnd({ ...term, endsAtMs: null }, "UTC", 100)).toBeNull();
});

test("a monthly renewal from the 31st ends on the last day of short months", () => {
  const term = { startsAtMs: 0, endsAtMs: at("2027-01-31T00:00:00Z"), renews: "month" } as const;
  const endAt = (now: string) => date(computeCurrentEnd(term, "UTC", at(now)));
  expect(endAt("2027-01-30T00:00:00Z")).toBe("2027-01-31");
  expect(endAt("2027-01-31T00:00:00Z")).toBe("2027-02-28");
  expect(endAt("2027-02-28T00:00:00Z")).toBe("2027-03-31");
  expect(endAt("2031-06-15T00:00:00Z")).toBe("2031-06-30");
});

test("the terms of a renewing subscription without an end are counted from its start", () => {
  const term = { startsAtMs: at("2028-02-29T00:00:00Z"), endsAtMs: null, renews: "year" } as const;
  expect(date(computeCurrentEnd(term, "UTC", at("2028-03-01T00:00:00Z")))).toBe("2029-02-28");
  expect(date(computeCurrentEnd(term, "UTC", at("2032-02-28T00:00:00Z")))).toBe("2032-02-29");
});

const moment = fc.integer({ min: at("2000-01-01T00:00:00Z"), max: at("2050-01-01T00:00:00Z") });

test("a renewing term ends in the future, at most one period ahead or at its first end", () => {
  fc.assert(
    fc.property(
      moment,
      fc.option(moment, { nil: null }),
      fc.constantFrom("month" as const, "year" as const),
      fc.constantFrom("UTC", "Europe/Berlin", "Pacific/Kiritimati", "America/New_York"),
      moment,
      (startsAtMs, endsAtMs, renews, zone, now) => {
        const term = { startsAtMs, endsAtMs, renews };
        const end = computeCurrentEnd(term, zone, now) ?? 0;
        expect(end).toBeGreaterThan(now);
        // One millisecond before the end, the result is the same.
        expect(computeCurrentEnd(term, zone, end - 1)).toBe(end);
        if (now > (endsAtMs ?? startsAtMs))
          expect(end - now).toBeLessThanOrEqual((renews === "month" ? 32 : 367) * 86_400_000);
      },
    ),
    { numRuns: 500 },
  );
});

test("a subscription is upcoming, running, ended or cancelled", () => {
  const active = { startsAtMs: 10, endsAtMs: 20, renews: "none", status: "active" } as const;
  expect([5, 10, 19, 20].map((now) => computeSubscriptionState(active, now))).toEqual([
    "upcoming",
    "running",
    "running",
    "ended",
  ]);
  expect(computeSubscriptionState({ ...active, renews: "month" }, 20)).toBe("running");
  expect(computeSubscriptionState({ ...active, status: "cancelled" }, 15)).toBe("cancelled");
});

test("the lowest priority pays first, then the earlier end, then the older subscription", () => {
  const turn = (id: string, priority: number, endsAtMs: number | null, createdAtMs: number) => {
    return { id, priority, endsAtMs, createdAtMs };
  };
  const turns = [
    turn("open", 1, null, 1),
    turn("young", 1, 50, 2),
    turn("old", 1, 50, 1),
    turn("soon", 1, 40, 9),
    turn("first", 0, null, 9),
  ];
  expect(turns.sort(comparePayingOrder).map(({ id }) => id)).toEqual([
    "first",
    "soon",
    "old",
    "young",
    "open",
  ]);
});
