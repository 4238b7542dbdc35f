import { describe, expect, test } from "bun:test";
import { upstreamFailure } from "../accounts/failure.ts";
import { openTestPool, route } from "./pool.test-support.ts";

describe("an account parked by an administrator", () => {
  test("gets no requests until it is enabled again, whatever happens meanwhile", () => {
    const { clock, pool, take, reject } = openTestPool();
    const a = route("a");
    const inFlight = take([a]);
    pool.park(a.account);
    expect(pool.report(a.account)).toMatchObject({ condition: "parked", cause: "operator", freesInMs: null });
    pool.recordSuccess(a, 10, null);
    inFlight.lease.release();
    clock.pass(86_400_000);
    expect(reject([a]).mayFree).toBe(false);
    pool.recordFailure(a, upstreamFailure("server", "500"));
    expect(pool.report(a.account).cause).toBe("operator");
    pool.resetHealth("a");
    take([a]).lease.release();
  });

  test("may be one without traffic", () => {
    const { pool, reject } = openTestPool();
    const a = route("a");
    pool.park(a.account);
    expect(reject([a]).candidates()[0]?.reason).toBe("parked");
  });

  test("leaves the other accounts available", () => {
    const { pool, take } = openTestPool();
    const [a, b] = [route("a"), route("b")];
    pool.park(a.account);
    expect(take([a, b]).route).toBe(b);
  });
});

test("requests in flight of a disabled account are still counted", () => {
  const { pool, take } = openTestPool();
  const a = route("a");
  const inFlight = take([a]);
  pool.retain(new Map());
  expect(pool.countInFlight("a")).toBe(1);
  inFlight.lease.release();
  expect(pool.countInFlight("a")).toBe(0);
  pool.retain(new Map());
  expect(pool.countInFlight("a")).toBe(0);
});

test("the report contains the upstream's limits of its last response with limits", () => {
  const { clock, pool, take } = openTestPool();
  const a = route("a");
  const headers = new Headers({
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "59",
    "x-ratelimit-reset-requests": "1s",
    "x-ratelimit-limit-tokens": "150000",
    "x-ratelimit-remaining-tokens": "149984",
  });
  take([a]).lease.release();
  pool.recordSuccess(a, 10, headers);
  clock.pass(500);
  pool.recordSuccess(a, 10, new Headers());
  expect(pool.report(a.account).models[0]?.reportedLimits).toEqual({
    agoMs: 500,
    limits: [
      { unit: "requests", limit: 60, remaining: 59, resetMs: 1_000 },
      { unit: "tokens", limit: 150_000, remaining: 149_984, resetMs: null },
    ],
  });
});
