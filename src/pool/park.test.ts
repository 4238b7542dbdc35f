import { describe, expect, test } from "bun:test";
import { upstreamFailure } from "../accounts/failure.ts";
import { openRig, route } from "./pool.test-support.ts";

describe("an account that an administrator parks", () => {
  test("is not asked until it is forgiven, whatever happens meanwhile", () => {
    const { clock, pool, take, refuse } = openRig();
    const a = route("a");
    const underWay = take([a]);
    pool.park(a.account);
    expect(pool.report(a.account)).toMatchObject({ condition: "parked", cause: "operator", freesInMs: null });
    pool.succeeded(a, 10, null);
    underWay.lease.release();
    clock.pass(86_400_000);
    expect(refuse([a]).mayFree).toBe(false);
    pool.failed(a, upstreamFailure("server", "500"));
    expect(pool.report(a.account).cause).toBe("operator");
    pool.forgive("a");
    take([a]).lease.release();
  });

  test("may be one that was never asked", () => {
    const { pool, refuse } = openRig();
    const a = route("a");
    pool.park(a.account);
    expect(refuse([a]).candidates()[0]?.reason).toBe("parked");
  });

  test("leaves the others to serve", () => {
    const { pool, take } = openRig();
    const [a, b] = [route("a"), route("b")];
    pool.park(a.account);
    expect(take([a, b]).route).toBe(b);
  });
});

test("what an account still does is counted after it was disabled", () => {
  const { pool, take } = openRig();
  const a = route("a");
  const underWay = take([a]);
  pool.retain(new Map());
  expect(pool.inFlightOf("a")).toBe(1);
  underWay.lease.release();
  expect(pool.inFlightOf("a")).toBe(0);
  pool.retain(new Map());
  expect(pool.inFlightOf("a")).toBe(0);
});

test("an upstream's limits are told as its last answer had them", () => {
  const { clock, pool, take } = openRig();
  const a = route("a");
  const told = new Headers({
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "59",
    "x-ratelimit-reset-requests": "1s",
    "x-ratelimit-limit-tokens": "150000",
    "x-ratelimit-remaining-tokens": "149984",
  });
  take([a]).lease.release();
  pool.succeeded(a, 10, told);
  clock.pass(500);
  pool.succeeded(a, 10, new Headers());
  expect(pool.report(a.account).models[0]?.told).toEqual({
    agoMs: 500,
    limits: [
      { unit: "requests", limit: 60, remaining: 59, resetMs: 1_000 },
      { unit: "tokens", limit: 150_000, remaining: 149_984, resetMs: null },
    ],
  });
});
