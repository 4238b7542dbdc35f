/** Simulated traffic of a pool: how many requests each account gets. */

import { describe, expect, test } from "bun:test";
import type { AccountRoute } from "../policy/snapshot.ts";
import { openTestPool, route, seeded } from "./pool.test-support.ts";

interface Upstream {
  weight?: number;
  latencyMs: number;
}

interface Day {
  upstreams: readonly Upstream[];
  /** Average number of requests in flight if every account were as fast as the first. */
  load: number;
  requests: number;
  /** From this request on the upstreams are different. */
  change?: { at: number; upstreams: readonly Upstream[] };
}

/** The share of each account in the requests from `since` on. Arrivals and durations are random. */
function computeShares({ upstreams, load, requests, change }: Day, since = 0): number[] {
  const rig = openTestPool(7);
  const random = seeded(11);
  const exponential = (mean: number) => -Math.log(1 - random()) * mean;
  const routes = upstreams.map(({ weight = 1 }, i) => route(`a${i}`, { weight }));
  const counts = routes.map(() => 0);
  let now = upstreams;
  let inFlight: { endMs: number; end(): void }[] = [];
  for (let i = 0; i < requests; i++) {
    if (i === change?.at) now = change.upstreams;
    rig.clock.pass(exponential((upstreams[0]?.latencyMs ?? 1) / load));
    const nowMs = rig.clock.monotonicMs();
    for (const { endMs, end } of inFlight) if (endMs <= nowMs) end();
    inFlight = inFlight.filter(({ endMs }) => endMs > nowMs);
    const { route: chosen, lease } = rig.take(routes);
    const at = routes.indexOf(chosen);
    if (i >= since) counts[at] = (counts[at] ?? 0) + 1;
    const ms = exponential(now[at]?.latencyMs ?? 1);
    inFlight.push({ endMs: nowMs + ms, end: () => served(chosen, ms, lease) });
  }
  return counts.map((count) => count / (requests - since));

  function served(chosen: AccountRoute, ms: number, lease: { release(): void }): void {
    rig.pool.recordSuccess(chosen, ms, null);
    lease.release();
  }
}

const alike = (weights: readonly number[]) => weights.map((weight) => ({ weight, latencyMs: 1_000 }));

function expectNear(shares: readonly number[], deserved: readonly number[], tolerance: number): void {
  const total = deserved.reduce((sum, one) => sum + one, 0);
  for (const [i, share] of shares.entries()) {
    const ratio = share / ((deserved[i] ?? 0) / total);
    expect(ratio).toBeGreaterThan(1 - tolerance);
    expect(ratio).toBeLessThan(1 + tolerance);
  }
}

describe("requests are distributed", () => {
  test.each([0.1, 1, 3, 5, 10, 100])("within 10 %% of the weights, with %d in flight", (load) => {
    for (const weights of [
      [1, 1, 1, 1],
      [1, 3],
      [1, 2, 3, 4],
    ]) {
      expectNear(computeShares({ upstreams: alike(weights), load, requests: 20_000 }), weights, 0.1);
    }
  });

  test.each([0.1, 1, 10, 100])(
    "so that a ten times slower account gets about a tenth, with %d in flight",
    (load) => {
      const upstreams = [1_000, 1_000, 1_000, 10_000].map((latencyMs) => ({ latencyMs }));
      const shares = computeShares({ upstreams, load, requests: 20_000 }, 2_000);
      const ratio = (shares[3] ?? 0) / (shares[0] ?? 1);
      expect(ratio).toBeGreaterThan(0.05);
      expect(ratio).toBeLessThan(0.2);
    },
  );

  test("so that an account that has become fast again gets its full share", () => {
    const slow = [1_000, 1_000, 20_000].map((latencyMs) => ({ latencyMs }));
    const quick = [1_000, 1_000, 1_000].map((latencyMs) => ({ latencyMs }));
    const day = { upstreams: slow, load: 3, requests: 12_000, change: { at: 4_000, upstreams: quick } };
    expectNear(computeShares(day, 6_000), [1, 1, 1], 0.15);
  });

  test("evenly over a thousand accounts", () => {
    const upstreams = alike(Array.from({ length: 1_000 }, () => 1));
    const shares = computeShares({ upstreams, load: 50, requests: 30_000 });
    expect(shares.every((share) => share > 0)).toBe(true);
    expect(Math.max(...shares)).toBeLessThan(0.003);
  });
});
