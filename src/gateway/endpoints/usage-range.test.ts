import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ApiError } from "../../errors.ts";
import { POINTS_MAX, parseUsageRange } from "./usage-range.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NOW_MS = Date.parse("2026-09-03T12:34:56Z");

const range = (query: string) => parseUsageRange(new URLSearchParams(query), NOW_MS);
const iso = (query: string) => {
  const { fromMs, toMs, granularity } = range(query);
  return [new Date(fromMs).toISOString(), new Date(toMs).toISOString(), granularity];
};

function rejection(query: string): ApiError {
  try {
    range(query);
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error(`${query} was taken.`);
}

describe("the range of a usage report", () => {
  test("defaults to the last 30 days, or to the last 48 hours with hourly granularity", () => {
    expect(iso("")).toEqual(["2026-08-05T00:00:00.000Z", "2026-09-04T00:00:00.000Z", "day"]);
    expect(iso("granularity=hour")).toEqual(["2026-09-01T13:00:00.000Z", "2026-09-03T13:00:00.000Z", "hour"]);
  });

  test("includes the whole day of a date at both ends", () => {
    expect(iso("from=2026-09-01&to=2026-09-01")).toEqual([
      "2026-09-01T00:00:00.000Z",
      "2026-09-02T00:00:00.000Z",
      "day",
    ]);
  });

  test("takes instants and Unix seconds, widened to whole units", () => {
    const from = Date.parse("2026-09-01T10:20:00Z") / 1000;
    const wide = ["2026-09-01T10:00:00.000Z", "2026-09-01T12:00:00.000Z", "hour"];
    expect(iso(`from=${from}&to=${from + 3600}&granularity=hour`)).toEqual(wide);
    expect(iso("from=2026-09-01T12:20:00%2B02:00&to=2026-09-01T11:00:01Z&granularity=hour")).toEqual(wide);
    expect(iso("from=2026-09-01T10:00:00Z&to=2026-09-01T12:00:00Z&granularity=hour")).toEqual(wide);
  });

  test.each([
    ["granularity=week", "granularity", "hour, day"],
    ["granularity=", "granularity", "hour, day"],
    ["from=yesterday", "from", "Unix seconds"],
    ["from=", "from", "ISO date"],
    ["from=-1", "from", "ISO date"],
    ["from=2026-02-31", "from", "ISO date"],
    ["from=2026-9-1", "from", "ISO date"],
    ["to=2026-09-01T10:00:00", "to", "2026-09-01T12:00:00Z"],
    ["to=999999999999", "to", "Unix seconds"],
    ["from=2026-09-02&to=2026-09-01", "from", "before"],
    ["from=2027-01-01", "from", "future"],
    ["to=0", "to", "before"],
    ["from=2024-01-01", "from", "at most 400"],
    ["from=2026-08-01&granularity=hour", "from", "granularity=day"],
  ])("rejects %s, names %s and lists what is allowed", (query, param, says) => {
    const error = rejection(query);
    expect([error.status, error.code, error.param]).toEqual([400, "invalid_value", param]);
    expect(error.message).toContain(says);
  });

  test("rejects a duplicate parameter", () => {
    expect(rejection("from=2026-09-01&from=2026-09-02")).toMatchObject({
      code: "duplicate_parameter",
      param: "from",
    });
  });

  test("consists of 1 to POINTS_MAX whole units, or is rejected", () => {
    const seconds = fc.integer({ min: 0, max: 4_000_000_000 });
    fc.assert(
      fc.property(seconds, seconds, fc.constantFrom("hour", "day"), (from, length, granularity) => {
        const query = `from=${from}&to=${from + (length % 50_000_000)}&granularity=${granularity}`;
        let found: ReturnType<typeof range>;
        try {
          found = range(query);
        } catch (error) {
          expect(error).toBeInstanceOf(ApiError);
          return;
        }
        const unitMs = granularity === "day" ? DAY_MS : HOUR_MS;
        const points = (found.toMs - found.fromMs) / unitMs;
        expect(Number.isInteger(points) && points >= 1 && points <= POINTS_MAX).toBe(true);
        expect(found.fromMs % unitMs).toBe(0);
        expect(found.fromMs).toBeLessThanOrEqual(from * 1000);
      }),
    );
  });
});
