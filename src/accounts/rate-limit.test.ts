import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readExhaustedReset, readHeadroom } from "./rate-limit.ts";
import { durationMs, parseRetryHint, retryAfterMs } from "./retry-hint.ts";

describe("the Retry-After hint", () => {
  const NOW_MS = Date.parse("2026-09-01T12:00:00Z");
  const hint = (headers: Record<string, string>) => retryAfterMs(new Headers(headers), NOW_MS);

  test("may be in seconds", () => {
    expect(hint({ "retry-after": "20" })).toBe(20_000);
    expect(hint({ "retry-after": "0.5" })).toBe(500);
    expect(hint({ "retry-after": "0" })).toBe(0);
  });

  test("may be a date, also in the past", () => {
    expect(hint({ "retry-after": "Tue, 01 Sep 2026 12:00:30 GMT" })).toBe(30_000);
    expect(hint({ "retry-after": "Tue, 01 Sep 2026 11:00:00 GMT" })).toBe(0);
  });

  test("in milliseconds takes precedence", () => {
    expect(hint({ "retry-after-ms": "1500", "retry-after": "9" })).toBe(1_500);
    expect(hint({ "retry-after-ms": "soon", "retry-after": "9" })).toBe(9_000);
  });

  test("is null without a header or with an invalid one", () => {
    expect(hint({})).toBeNull();
    expect(hint({ "retry-after": "later" })).toBeNull();
    expect(hint({ "retry-after": "Infinity" })).toBeNull();
  });

  test("is the reset of an exhausted limit, the later of two", () => {
    const reset = (headers: Record<string, string>) => readExhaustedReset(new Headers(headers));
    const used = (unit: string, remaining: number, reset: string) => ({
      [`x-ratelimit-limit-${unit}`]: "100",
      [`x-ratelimit-remaining-${unit}`]: String(remaining),
      [`x-ratelimit-reset-${unit}`]: reset,
    });
    expect(reset(used("requests", 0, "12ms"))).toBe(12);
    expect(reset(used("tokens", 0, "6m0s"))).toBe(360_000);
    expect(reset({ ...used("requests", 0, "1s"), ...used("tokens", 0, "3s") })).toBe(3_000);
    expect(reset({ ...used("requests", 5, "9s"), ...used("tokens", 0, "3s") })).toBe(3_000);
    expect(reset(used("requests", 5, "9s"))).toBeNull();
  });

  test("is never negative, for any header", () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[\x21-\x7e]{0,12}$/), (value) => {
        expect(hint({ "retry-after": value, "retry-after-ms": value }) ?? 0).toBeGreaterThanOrEqual(0);
      }),
    );
    expect(hint({ "retry-after": "-5" }) ?? 0).toBeGreaterThanOrEqual(0);
  });
});

describe("a duration", () => {
  test.each([
    ["1s", 1_000],
    ["6m0s", 360_000],
    ["12ms", 12],
    ["2m59.56s", 179_560],
    ["1h2m3s", 3_723_000],
    ["500µs", 0.5],
    ["1d", 86_400_000],
    ["20 seconds", 20_000],
    ["1 hour, 5 minutes and 2 seconds", 3_902_000],
    ["7", 7_000],
    ["0s", 0],
  ])("%s is %d ms", (text, ms) => {
    expect(durationMs(text)).toBeCloseTo(ms, 6);
  });

  test.each([[""], ["soon"], ["-5s"], ["5 parsecs"], ["s"]])("is not found in %p", (text) => {
    expect(durationMs(text)).toBeNull();
  });

  test("is parsed consistently, for any text", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const ms = durationMs(text);
        expect(durationMs(text)).toBe(ms);
        expect(ms === null || ms >= 0).toBe(true);
      }),
    );
  });
});

describe("the retry hint in a message", () => {
  test.each([
    [
      "Rate limit reached for gpt-6 on tokens per min. Please try again in 1.5s. Visit https://x.example.",
      1_500,
    ],
    ["Please try again in 6m0s.", 360_000],
    ["Please try again in 120ms.", 120],
    ["Please retry after 20 seconds.", 20_000],
    ["Please retry after 20 seconds 3 times.", 20_000],
    ["Try again in 1 second", 1_000],
    ["try again in 30", 30_000],
    ["Retrying in 2 minutes", 120_000],
  ])("%s", (text, ms) => {
    expect(parseRetryHint(text)).toBe(ms);
  });

  test.each([["Try again later."], ["Please try again in a moment."], ["try again in 0s"], ["5s"], [""]])(
    "is not found in %p",
    (text) => {
      expect(parseRetryHint(text)).toBeNull();
    },
  );
});

describe("the headroom of an upstream", () => {
  const headroom = (values: Record<string, string>) =>
    readHeadroom(
      new Headers(
        Object.entries(values).map(([name, value]): [string, string] => [`x-ratelimit-${name}`, value]),
      ),
    );

  test("is the smaller of requests and tokens, with its reset", () => {
    const both = {
      "limit-requests": "100",
      "remaining-requests": "40",
      "reset-requests": "6s",
      "limit-tokens": "1000",
      "remaining-tokens": "50",
      "reset-tokens": "2s",
    };
    expect(headroom(both)).toEqual({ remaining: 0.05, resetMs: 2_000 });
    expect(headroom({ ...both, "remaining-tokens": "900" })).toEqual({ remaining: 0.4, resetMs: 6_000 });
  });

  test("has no reset while there is plenty", () => {
    expect(headroom({ "limit-requests": "100", "remaining-requests": "99", "reset-requests": "6s" })).toEqual(
      { remaining: 0.99, resetMs: 0 },
    );
  });

  test("is zero, for a second, if only that is reported", () => {
    expect(headroom({ "remaining-requests": "0" })).toEqual({ remaining: 0, resetMs: 1_000 });
    expect(headroom({ "remaining-requests": "-3" })).toEqual({ remaining: 0, resetMs: 1_000 });
  });

  test("is null without valid headers, and full if only a remainder is reported", () => {
    expect(headroom({})).toBeNull();
    expect(headroom({ "remaining-requests": "many" })).toBeNull();
    expect(headroom({ "remaining-requests": "7" })).toEqual({ remaining: 1, resetMs: 0 });
  });
});
