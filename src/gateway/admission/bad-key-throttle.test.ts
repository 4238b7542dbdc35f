import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { openBadKeyThrottle } from "./bad-key-throttle.ts";

function throttle(tries: number) {
  const clock = { nowMs: 1_000 };
  return { clock, ...openBadKeyThrottle({ triesPerMinute: tries, monotonicMs: () => clock.nowMs }) };
}

describe("invalid keys from one address", () => {
  test("are accepted up to the limit, then throttled until the minute ends", () => {
    const { clock, count } = throttle(3);
    expect([count("a"), count("a"), count("a")]).toEqual([null, null, null]);
    expect(count("a")).toBe(60);
    clock.nowMs += 30_500;
    expect(count("a")).toBe(30);
    clock.nowMs += 29_400;
    expect(count("a")).toBe(1);
  });

  test("are accepted again after one minute", () => {
    const { clock, count } = throttle(1);
    count("a");
    expect(count("a")).toBe(60);
    clock.nowMs += 60_000;
    expect(count("a")).toBeNull();
    expect(count("a")).toBe(60);
  });

  test("do not throttle another address", () => {
    const { count } = throttle(1);
    count("a");
    expect(count("a")).not.toBeNull();
    expect(count("b")).toBeNull();
  });

  test("are forgotten, oldest address first, above 10,000 addresses", () => {
    const { count } = throttle(1);
    count("first");
    count("second");
    for (let i = 0; i < 9_999; i++) count(`other ${i}`);
    expect(count("second")).not.toBeNull();
    expect(count("first")).toBeNull();
  });

  test("never exceed the limit within one minute of the first", () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(20_000), { maxLength: 60 }),
        fc.integer({ min: 1, max: 5 }),
        (gaps, tries) => {
          const { clock, count } = throttle(tries);
          const allowedAtMs: number[] = [];
          for (const gap of gaps) {
            clock.nowMs += gap;
            const wait = count("a");
            if (wait === null) allowedAtMs.push(clock.nowMs);
            else expect(wait >= 1 && wait <= 60 && Number.isInteger(wait)).toBe(true);
          }
          // The windows are fixed, not sliding: a minute can overlap two of them, but not three.
          for (const from of allowedAtMs) {
            const within = allowedAtMs.filter((at) => at >= from && at < from + 60_000);
            expect(within.length).toBeLessThanOrEqual(2 * tries);
          }
        },
      ),
    );
  });
});
