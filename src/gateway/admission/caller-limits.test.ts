import { describe, expect, test } from "bun:test";
import { retryAfter } from "../../accounts/failure.ts";
import { type ApiError, errorObject } from "../../errors.ts";
import { openLimiter } from "../../limits/limiter.ts";
import type { LimitLease, Subject } from "../../limits/limiter-types.ts";
import { compileSnapshot } from "../../policy/snapshot.ts";
import { type CallerLimits, NO_LIMITS } from "../../records/limits.ts";
import { groupRecord } from "../../records/records.test-support.ts";
import type { Caller } from "./authenticate.ts";
import { addRateHeaders, callerSubjects, formatGoDuration, limitError } from "./caller-limits.ts";

const rpm = (max: number): CallerLimits => ({ ...NO_LIMITS, rpm: max });

const STARTED_MS = Date.parse("2026-09-30T12:00:00.300Z");

interface Who {
  key?: CallerLimits;
  user?: CallerLimits | null;
  eachKey?: CallerLimits;
  allKeys?: CallerLimits;
}

function caller({ key = NO_LIMITS, user = null, eachKey = NO_LIMITS, allKeys = NO_LIMITS }: Who): Caller {
  const record = groupRecord("g1", { limits: eachKey, groupLimits: allKeys });
  const { groups } = compileSnapshot(
    { models: [], accounts: [], groups: [record] },
    { simulatorUrl: null, unseal: () => null },
  );
  const group = groups.get("g1");
  if (!group) throw new Error("the group is not in the snapshot");
  return {
    key: {
      id: "k1",
      name: "laptop",
      publicId: "AbCd1234",
      userId: user === null ? null : "u1",
      groupId: "g1",
      expiresAtMs: null,
      createdAtMs: 1,
      limits: key,
      userLimits: user ?? NO_LIMITS,
      requestPolicy: null,
      fallback: null,
      capture: null,
      isTool: false,
    },
    group,
  };
}

function setUp(who: Who) {
  const clock = { atMs: 0, monotonicMs: () => clock.atMs, nowMs: () => STARTED_MS + clock.atMs };
  const limiter = openLimiter(clock);
  const subjects = callerSubjects(caller(who));
  return {
    clock,
    headers() {
      const headers = new Map<string, string>();
      addRateHeaders(headers, limiter, subjects);
      return Object.fromEntries(headers);
    },
    take(tokens = 0, nano = 0n): LimitLease {
      const admission = limiter.admit(subjects, { tokens, nano: Number(nano) });
      if (!admission.ok) throw limitError({ limiter, clock }, subjects, admission.shortage);
      return admission.lease;
    },
    reject(tokens = 0, nano = 0n): ApiError {
      const admission = limiter.admit(subjects, { tokens, nano: Number(nano) });
      if (admission.ok) throw new Error("admitted");
      return limitError({ limiter, clock }, subjects, admission.shortage);
    },
  };
}

describe("limit subjects of a caller", () => {
  const named = (subjects: readonly Subject[]) => subjects.map(({ scope, id }) => `${scope} ${id}`);

  test("are the key, the key within its group, and the group", () => {
    expect(named(callerSubjects(caller({})))).toEqual(["key k1", "key k1 in g1", "group g1"]);
  });

  test("include the user if the key belongs to a user", () => {
    expect(named(callerSubjects(caller({ user: rpm(1) })))).toContain("user u1");
  });

  test("count the limits of a key and its limits within the group separately", () => {
    const { take, reject } = setUp({ key: rpm(2), eachKey: rpm(3) });
    take();
    take();
    expect(reject().message).toContain("2 requests per minute");
  });
});

describe("a rate limit error", () => {
  test.each<[string, Who, string]>([
    ["key", { key: rpm(1) }, "this API key: 1 requests per minute"],
    ["group's limit per key", { eachKey: rpm(1) }, "this API key: 1 requests per minute"],
    ["user", { user: rpm(1) }, "your user: 1 requests per minute"],
    ["group", { allKeys: rpm(1) }, "this key's group: 1 requests per minute"],
    ["concurrency of one", { key: { ...NO_LIMITS, concurrency: 1 } }, "this API key: 1 concurrent request"],
    ["concurrency of zero", { key: { ...NO_LIMITS, concurrency: 0 } }, "this API key: 0 concurrent requests"],
  ])("names the subject and the limit (%s)", (_, who, words) => {
    const { take, reject } = setUp(who);
    if (!words.includes("0 concurrent")) take();
    const { message, code, status } = reject();
    expect(message).toStartWith(`Rate limit reached for ${words}. `);
    expect([status, code]).toEqual([429, "rate_limit_exceeded"]);
  });

  test("states the time of reset in the message and in Retry-After", () => {
    const { take, reject, clock } = setUp({ key: rpm(1) });
    take();
    clock.atMs = 17_500;
    const { message, headers } = reject();
    expect(message).toEndWith("Please try again in 43s.");
    expect(headers["retry-after"]).toBe("43");
  });

  test("of a long window states the full wait in the message and caps Retry-After at 60 s", () => {
    const windows = [{ perMs: 86_400_000, requests: 1, tokens: null, nano: null }];
    const { take, reject } = setUp({ key: { ...NO_LIMITS, windows } });
    take();
    const { message, headers } = reject();
    expect(message).toMatch(/1 requests per day\. Please try again in 86\d{3}s\.$/);
    expect(headers["retry-after"]).toBe("60");
  });

  test("does not count against any limit", () => {
    const { take, reject, headers } = setUp({ key: rpm(5), allKeys: rpm(1) });
    take();
    reject();
    reject();
    expect(headers()["x-ratelimit-remaining-requests"]).toBe("4");
  });
});

describe("an exhausted USD window", () => {
  const usd = (nano: number, hours = 5): CallerLimits => ({
    ...NO_LIMITS,
    windows: [{ perMs: hours * 3_600_000, requests: null, tokens: null, nano }],
  });

  test("is reported with its subject, amount and reset time, in the message and in resets_at", () => {
    const { take, reject, clock } = setUp({ key: usd(5_000_000_000) });
    take(0, 1n).settle({ tokens: 0, nano: 5_000_000_000 });
    clock.atMs = 3_600_000;
    const error = reject(0, 1n);
    expect([error.status, error.code, error.type]).toEqual([
      429,
      "usage_limit_reached",
      "usage_limit_reached",
    ]);
    expect(error.message).toBe(
      "Usage limit reached for this API key: $5.00 per 5 hours is exhausted. Try again at 2026-09-30T17:00:01Z.",
    );
    expect(errorObject(error, "req_1").resets_at).toBe(Date.parse("2026-09-30T17:00:01Z") / 1000);
    expect(error.headers).toEqual({ "retry-after": "60", "x-should-retry": "false" });
  });

  test.each<[string, Who, string]>([
    ["user", { user: usd(2_500_000_000, 24) }, "your user: $2.50 per day is exhausted."],
    ["group", { allKeys: usd(1_000, 168) }, "this key's group: $0.000001 per 7 days is exhausted."],
    ["group's limit per key", { eachKey: usd(1_000) }, "this API key: $0.000001 per 5 hours is exhausted."],
  ])("is reported for the %s", (_, who, words) => {
    const { take, reject } = setUp(who);
    take(0, 1n).settle({ tokens: 0, nano: 9_000_000_000 });
    expect(reject(0, 1n).message).toStartWith(`Usage limit reached for ${words}`);
  });

  test("is reported with the remaining amount if the request would cost more", () => {
    const { take, reject } = setUp({ key: usd(5_000_000_000) });
    take(0, 4_750_000_000n).settle({ tokens: 0, nano: 4_750_000_000 });
    expect(reject(0, 250_000_001n).message).toContain("only $0.25 of $5.00 per 5 hours is left.");
  });

  test("allows a retry if it resets within a minute", () => {
    const { take, reject, clock } = setUp({ key: usd(5) });
    take(0, 5n).settle({ tokens: 0, nano: 5 });
    clock.atMs = 5 * 3_600_000 - 30_000;
    expect(reject(0, 1n).headers).toEqual({ "retry-after": "30" });
  });

  test("allows a retry soon if requests in flight have reserved the rest", () => {
    const { take, reject } = setUp({ key: usd(5_000_000_000) });
    take(0, 1_000_000_000n).settle({ tokens: 0, nano: 1_000_000_000 });
    const inFlight = take(0, 4_000_000_000n);
    const error = reject(0, 1_000_000n);
    expect([error.code, error.headers]).toEqual(["rate_limit_exceeded", { "retry-after": "1" }]);
    expect(error.message).toContain(
      "the remaining quota of $5.00 per 5 hours is reserved for requests in flight",
    );
    inFlight.settle({ tokens: 0, nano: 4_000_000_000 });
    expect(reject(0, 1_000_000n).code).toBe("usage_limit_reached");
  });

  test("does not count against any limit", () => {
    const { take, reject, headers } = setUp({ key: rpm(5), user: usd(5) });
    take(0, 5n);
    reject(0, 1n);
    expect(headers()["x-ratelimit-remaining-requests"]).toBe("4");
  });
});

describe("x-ratelimit headers", () => {
  test("report the tighter limit of a key", () => {
    const { take, headers } = setUp({ key: rpm(10), eachKey: rpm(4) });
    take();
    expect(headers()).toEqual({
      "x-ratelimit-limit-requests": "4",
      "x-ratelimit-remaining-requests": "3",
      "x-ratelimit-reset-requests": "1m0s",
    });
  });

  test("do not reveal the usage of other keys", () => {
    const { take, headers } = setUp({ user: rpm(5), allKeys: { ...NO_LIMITS, tpm: 100 } });
    take();
    expect(headers()).toEqual({});
  });

  test("never report a negative remainder", () => {
    const { take, headers } = setUp({ key: { ...NO_LIMITS, tpm: 100 } });
    take(10).settle({ tokens: 500, nano: 0 });
    expect(headers()["x-ratelimit-remaining-tokens"]).toBe("0");
  });
});

describe("time formats", () => {
  test.each([
    [null, "1"],
    [0, "1"],
    [1, "1"],
    [1_001, "2"],
    [60_000, "60"],
    [9e9, "60"],
  ])("Retry-After of %p ms is %s", (ms, seconds) => {
    expect(retryAfter(ms)).toBe(seconds);
  });

  test.each([
    [0, "0ms"],
    [-5, "0ms"],
    [11.2, "12ms"],
    [1_000, "1s"],
    [1_450, "1.5s"],
    [59_900, "59.9s"],
    [59_950, "1m0s"],
    [60_000, "1m0s"],
    [119_600, "2m0s"],
    [360_001, "6m1s"],
  ])("a reset after %p ms is written as %s", (ms, text) => {
    expect(formatGoDuration(ms)).toBe(text);
  });
});
