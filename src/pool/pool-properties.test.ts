import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { FAILURE_CLASSES, upstreamFailure } from "../accounts/failure.ts";
import { mapKinds } from "../base/map-kinds.ts";
import { RATE_KINDS } from "../records/limits.ts";
import { openTestPool, route } from "./pool.test-support.ts";

describe("any sequence of events", () => {
  const shape = fc.record({
    priority: fc.integer({ min: 1, max: 3 }),
    weight: fc.integer({ min: 1, max: 9 }),
    limits: fc.record({
      ...mapKinds(RATE_KINDS, () => fc.constant(null)),
      concurrency: fc.option(fc.integer({ min: 1, max: 3 })),
      rpm: fc.option(fc.integer({ min: 1, max: 5 })),
      tpm: fc.option(fc.integer({ min: 100, max: 500 })),
    }),
  });
  const step = fc.record({
    affinity: fc.option(fc.constantFrom("x", "y", "z")),
    tokensEstimate: fc.nat({ max: 200 }),
    tried: fc.nat({ max: 3 }),
    outcome: fc.oneof(fc.constant("served" as const), fc.constantFrom(...FAILURE_CLASSES)),
    hintMs: fc.option(fc.nat({ max: 100_000 })),
    passMs: fc.nat({ max: 20_000 }),
    holds: fc.boolean(),
    forgives: fc.boolean(),
  });

  test("selects only eligible accounts, misses none, and leaves nothing in flight", () => {
    fc.assert(
      fc.property(
        fc.array(shape, { minLength: 1, maxLength: 6 }),
        fc.array(step, { maxLength: 60 }),
        fc.integer(),
        (shapes, steps, seed) => {
          const { pool, pick, clock, limiter } = openTestPool(seed);
          const routes = shapes.map((change, i) => route(`a${i}`, change));
          const held: { release(): void }[] = [];
          for (const { tokensEstimate, affinity, ...next } of steps) {
            const tried = new Set(routes.slice(0, next.tried));
            const open = routes.filter((one) => {
              if (tried.has(one) || pool.describe(one).reason !== null) return false;
              const subject = { scope: "account", id: one.account.id, limits: one.account.limits } as const;
              return limiter.checkShortage(subject, { tokens: tokensEstimate }) === null;
            });
            const result = pick(routes, { tried, affinity, estimate: { tokens: tokensEstimate } });
            if (result.kind === "none") {
              expect(open.map(({ account: { id } }) => id)).toEqual([]);
              expect(result.freesInMs === null || result.freesInMs > 0).toBe(true);
              if (result.freesInMs !== null) expect(result.mayFree).toBe(true);
            } else if (result.kind === "lacking") throw new Error("one node lacks nothing");
            else {
              const best = Math.min(...open.map(({ account: { priority } }) => priority));
              expect(open).toContain(result.route);
              expect(result.route.account.priority).toBe(best);
              if (next.outcome === "served") pool.recordSuccess(result.route, 50, null);
              else
                pool.recordFailure(result.route, {
                  ...upstreamFailure(next.outcome, "r"),
                  retryAfterMs: next.hintMs,
                });
              if (next.holds) held.push(result.lease);
              else result.lease.release();
            }
            if (next.forgives) pool.resetHealth("a0");
            clock.pass(next.passMs);
            if (held.length > 4) held.shift()?.release();
          }
          for (const lease of held) lease.release();
          for (const one of routes) {
            pool.resetHealth(one.account.id);
            clock.pass(60_001);
            expect(pool.describe(one).score).toBe(1 / one.account.weight);
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});
