import { beforeEach, describe, expect, test } from "bun:test";
import { NO_RATE_LIMITS } from "../records/limits.ts";
import { openTestPool, route, type TestPool } from "./pool.test-support.ts";

let rig: TestPool;
beforeEach(() => {
  rig = openTestPool();
});

describe("the configured limits of an account", () => {
  const limits = (change: object) => ({ limits: { ...NO_RATE_LIMITS, ...change } });

  test("concurrency is freed by a release", () => {
    const only = route("a", limits({ concurrency: 2 }));
    const leases = [rig.take([only]).lease, rig.take([only]).lease];
    expect(rig.reject([only])).toMatchObject({ mayFree: true, freesInMs: null });
    expect(rig.reasons([only])).toEqual(["at_capacity"]);
    leases[0]?.release();
    leases[0]?.release();
    expect(rig.take([only]).route).toBe(only);
    expect(rig.reject([only]).mayFree).toBe(true);
  });

  test("requests per minute are freed by time, with a known time", () => {
    const only = route("a", limits({ rpm: 2 }));
    rig.take([only]).lease.release();
    rig.clock.pass(10_000);
    rig.take([only]).lease.release();
    expect(rig.reject([only])).toMatchObject({ mayFree: true, freesInMs: 50_000 });
    expect(rig.reasons([only])).toEqual(["rate_limited"]);
    rig.clock.pass(50_000);
    expect(rig.take([only]).route).toBe(only);
  });

  test("tokens per minute reject a request that is too large and accept one that fits", () => {
    const only = route("a", limits({ tpm: 1_000 }));
    rig.take([only], { estimate: { tokens: 700 } }).lease.release();
    expect(rig.reject([only], { estimate: { tokens: 500 } })).toMatchObject({
      mayFree: true,
      freesInMs: 60_000,
    });
    expect(rig.take([only], { estimate: { tokens: 300 } }).route).toBe(only);
  });

  test("are freed early by an attempt that used fewer tokens or was cancelled", () => {
    const only = route("a", limits({ rpm: 1, tpm: 1_000 }));
    const first = rig.take([only], { estimate: { tokens: 900 } });
    rig.reject([only], { estimate: { tokens: 500 } });
    first.lease.cancel();
    const second = rig.take([only], { estimate: { tokens: 500 } });
    expect(second.route).toBe(only);
    const tokens = route("b", limits({ tpm: 1_000 }));
    const third = rig.take([tokens], { estimate: { tokens: 900 } });
    rig.reject([tokens], { estimate: { tokens: 500 } });
    third.lease.settle({ tokens: 100, nano: 0 });
    expect(rig.take([tokens], { estimate: { tokens: 500 } }).route).toBe(tokens);
  });

  test("move the request to the next account, and then to the next priority", () => {
    const routes = [
      route("a", limits({ rpm: 1 })),
      route("b", limits({ concurrency: 1 })),
      route("c", { priority: 2 }),
    ];
    const taken = [1, 2, 3, 4].map(() => rig.take(routes).route.account.id);
    expect(taken.slice(0, 2).toSorted()).toEqual(["a", "b"]);
    expect(taken.slice(2)).toEqual(["c", "c"]);
  });
});

describe("the limits that the upstream reports", () => {
  const headers = (remaining: number) =>
    new Headers({
      "x-ratelimit-limit-requests": "100",
      "x-ratelimit-remaining-requests": String(remaining),
      "x-ratelimit-reset-requests": "8s",
    });

  test("exclude an exhausted account until the reset", () => {
    const only = route("a");
    rig.pool.recordSuccess(only, 10, headers(0));
    expect(rig.reject([only])).toMatchObject({ mayFree: true, freesInMs: 8_000 });
    expect(rig.reasons([only])).toEqual(["rate_limited"]);
    rig.clock.pass(8_000);
    expect(rig.take([only]).probe).toBe(false);
  });

  test("lower the share of a nearly exhausted account", () => {
    const [scarce, ample] = [route("a"), route("b")];
    rig.pool.recordSuccess(scarce, 10, headers(1));
    rig.pool.recordSuccess(ample, 10, headers(90));
    let taken = 0;
    for (let i = 0; i < 1_000; i++) {
      const { route: chosen, lease } = rig.take([scarce, ample]);
      if (chosen === scarce) taken++;
      lease.release();
    }
    expect(taken).toBeGreaterThan(40);
    expect(taken).toBeLessThan(140);
  });
});
