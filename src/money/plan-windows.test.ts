import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { COUNTED, PLAN_PERIODS } from "../records/plan.ts";
import { isTimeZone, monthsAfter, windowAt } from "./plan-windows.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const at = (text: string) => Date.parse(text);

const ZONES = [
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  "America/Sao_Paulo",
  "America/St_Johns",
  "Australia/Lord_Howe",
  "Asia/Kathmandu",
  "Pacific/Apia",
  "Pacific/Kiritimati",
  "Africa/Casablanca",
];
const moment = fc.integer({ min: at("1995-01-01T00:00:00Z"), max: at("2060-01-01T00:00:00Z") });
const window = fc.record({ per: fc.constantFrom(...PLAN_PERIODS), counted: fc.constantFrom(...COUNTED) });

function shown(span: { startsAtMs: number; endsAtMs: number }): string {
  const text = (ms: number) => new Date(ms).toISOString().replace(":00.000Z", "Z");
  return `${text(span.startsAtMs)} ${text(span.endsAtMs)}`;
}

describe("plan windows of any kind, time zone and start", () => {
  test("contain the requested time, and are the same for every time they contain", () => {
    fc.assert(
      fc.property(
        window,
        fc.constantFrom(...ZONES),
        moment,
        moment,
        fc.double({ min: 0, max: 1, noNaN: true }),
        (kind, zone, start, now, share) => {
          const span = windowAt(kind, zone, start, now);
          expect(span.startsAtMs).toBeLessThanOrEqual(now);
          expect(span.endsAtMs).toBeGreaterThan(now);
          const last = span.endsAtMs - 1;
          const inside = span.startsAtMs + Math.floor(share * (last - span.startsAtMs));
          for (const other of [span.startsAtMs, inside, last])
            expect(windowAt(kind, zone, start, other)).toEqual(span);
        },
      ),
      { numRuns: 500 },
    );
  });

  test("follow one another without gap or overlap", () => {
    fc.assert(
      fc.property(window, fc.constantFrom(...ZONES), moment, moment, (kind, zone, start, now) => {
        const span = windowAt(kind, zone, start, now);
        expect(windowAt(kind, zone, start, span.endsAtMs).startsAtMs).toBe(span.endsAtMs);
        expect(windowAt(kind, zone, start, span.startsAtMs - 1).endsAtMs).toBe(span.startsAtMs);
      }),
      { numRuns: 500 },
    );
  });

  test("begin at the subscription's start if they are rolling", () => {
    fc.assert(
      fc.property(fc.constantFrom(...PLAN_PERIODS), fc.constantFrom(...ZONES), moment, (per, zone, start) => {
        expect(windowAt({ per, counted: "rolling" }, zone, start, start).startsAtMs).toBe(start);
      }),
    );
  });

  test("begin on the right local day if they are calendar windows", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...PLAN_PERIODS),
        fc.constantFrom(...ZONES),
        moment,
        (per, timeZone, now) => {
          const { startsAtMs } = windowAt({ per, counted: "calendar" }, timeZone, 0, now);
          const wall = (ms: number, options: Intl.DateTimeFormatOptions) =>
            new Intl.DateTimeFormat("en-US", { timeZone, ...options }).format(ms);
          const date = { year: "numeric", month: "numeric", day: "numeric" } as const;
          expect(wall(startsAtMs, date)).not.toBe(wall(startsAtMs - 1, date));
          // A country that skipped a day began its week or month a day late.
          if (timeZone === "Pacific/Apia" || timeZone === "Pacific/Kiritimati") return;
          if (per === "week") expect(wall(startsAtMs, { weekday: "long" })).toBe("Monday");
          if (per === "month") expect(wall(startsAtMs, { day: "numeric" })).toBe("1");
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("calendar days in a zone with daylight saving time", () => {
  const day = { per: "day", counted: "calendar" } as const;
  const BERLIN = "Europe/Berlin";

  test("have 23 hours when the clocks go forward", () => {
    const span = windowAt(day, BERLIN, 0, at("2027-03-28T12:00:00Z"));
    expect(shown(span)).toBe("2027-03-27T23:00Z 2027-03-28T22:00Z");
    expect(span.endsAtMs - span.startsAtMs).toBe(23 * HOUR_MS);
  });

  test("have 25 hours when the clocks go back", () => {
    const span = windowAt(day, BERLIN, 0, at("2027-10-31T12:00:00Z"));
    expect(shown(span)).toBe("2027-10-30T22:00Z 2027-10-31T23:00Z");
    expect(span.endsAtMs - span.startsAtMs).toBe(25 * HOUR_MS);
  });

  test("begin at one o'clock if midnight is skipped", () => {
    const span = windowAt(day, "America/Sao_Paulo", 0, at("2018-11-04T12:00:00Z"));
    expect(shown(span)).toBe("2018-11-04T03:00Z 2018-11-05T02:00Z");
  });

  test("begin at the first midnight if midnight occurs twice", () => {
    const span = windowAt(day, "America/St_Johns", 0, at("2010-11-07T12:00:00Z"));
    expect(shown(span)).toBe("2010-11-07T02:30Z 2010-11-08T03:30Z");
  });

  test("do not exist if the country skipped them", () => {
    const before = windowAt(day, "Pacific/Apia", 0, at("2011-12-30T09:59:00Z"));
    const after = windowAt(day, "Pacific/Apia", 0, at("2011-12-30T10:00:00Z"));
    expect(shown(before)).toBe("2011-12-29T10:00Z 2011-12-30T10:00Z");
    expect(shown(after)).toBe("2011-12-30T10:00Z 2011-12-31T10:00Z");
  });

  test("do not affect rolling windows, which always have 24 hours", () => {
    const start = at("2027-03-27T12:00:00Z");
    const span = windowAt({ per: "day", counted: "rolling" }, BERLIN, start, start + 30 * HOUR_MS);
    expect(span).toEqual({ startsAtMs: start + DAY_MS, endsAtMs: start + 2 * DAY_MS });
  });
});

describe("weeks and months", () => {
  test("a calendar week begins on Monday", () => {
    const span = windowAt({ per: "week", counted: "calendar" }, "UTC", 0, at("2027-01-03T23:59:59.999Z"));
    expect(shown(span)).toBe("2026-12-28T00:00Z 2027-01-04T00:00Z");
  });

  test("a calendar month begins on the 1st in the plan's zone", () => {
    const span = windowAt({ per: "month", counted: "calendar" }, "Asia/Tokyo", 0, at("2027-01-31T15:00:00Z"));
    expect(shown(span)).toBe("2027-01-31T15:00Z 2027-02-28T15:00Z");
  });

  test("a rolling month from the 31st is clipped in short months and returns to the 31st", () => {
    const start = at("2027-01-31T08:00:00Z");
    const rolling = (now: string) => windowAt({ per: "month", counted: "rolling" }, "UTC", start, at(now));
    expect(shown(rolling("2027-02-01T00:00:00Z"))).toBe("2027-01-31T08:00Z 2027-02-28T08:00Z");
    expect(shown(rolling("2027-02-28T08:00:00Z"))).toBe("2027-02-28T08:00Z 2027-03-31T08:00Z");
    expect(shown(rolling("2028-02-29T07:00:00Z"))).toBe("2028-01-31T08:00Z 2028-02-29T08:00Z");
  });

  test("a year from 29 February ends on 28 February", () => {
    const end = monthsAfter(at("2028-02-29T00:00:00Z"), 12, "UTC");
    expect(new Date(end).toISOString()).toBe("2029-02-28T00:00:00.000Z");
  });

  test("a rolling month keeps its local hour across daylight saving time", () => {
    const end = monthsAfter(at("2027-03-15T11:00:00Z"), 1, "Europe/Berlin");
    expect(new Date(end).toISOString()).toBe("2027-04-15T10:00:00.000Z");
  });
});

test("accepts only time zones that the platform knows", () => {
  expect(["UTC", "Europe/Berlin", "Asia/Kolkata"].filter(isTimeZone)).toHaveLength(3);
  expect(["", "Mars/Olympus", "Berlin"].filter(isTimeZone)).toEqual([]);
});
