/** Test support: a pool whose clock and random numbers the test controls. */

import { policyAccount } from "../accounts/account.test-support.ts";
import type { PolicyAccount } from "../accounts/account.ts";
import { openLimiter } from "../limits/limiter.ts";
import type { Limiter } from "../limits/limiter-types.ts";
import type { AccountRoute } from "../policy/snapshot.ts";
import { type Choice, openPool, type PickRequest, type Pool } from "./pool.ts";

export interface FakeClock {
  nowMs(): number;
  monotonicMs(): number;
  pass(ms: number): void;
}

const WALL_MS = Date.parse("2026-09-01T12:00:00Z");

function fakeClock(): FakeClock {
  let elapsedMs = 0;
  return {
    nowMs: () => WALL_MS + elapsedMs,
    monotonicMs: () => elapsedMs,
    pass(ms) {
      elapsedMs += ms;
    },
  };
}

/** Repeatable random numbers from 0 up to 1. */
export function seeded(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mix = Math.imul(state ^ (state >>> 15), state | 1);
    mix ^= mix + Math.imul(mix ^ (mix >>> 7), mix | 61);
    return ((mix ^ (mix >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function account(id: string, change: Partial<PolicyAccount> = {}): PolicyAccount {
  return policyAccount(id, { credential: `credential of ${id}`, ...change });
}

export function route(id: string, change: Partial<PolicyAccount> = {}, upstreamModel = "m"): AccountRoute {
  return { account: account(id, change), upstreamModel, translation: null };
}

export type Picked = Extract<Choice, { kind: "picked" }>;
export type None = Extract<Choice, { kind: "none" }>;

export interface TestPool {
  clock: FakeClock;
  pool: Pool;
  limiter: Limiter;
  pick(routes: readonly AccountRoute[], change?: Partial<PickRequest>): Choice;
  /** Fails the test if nothing can be picked. */
  take(routes: readonly AccountRoute[], change?: Partial<PickRequest>): Picked;
  /** Fails the test if something can be picked. */
  reject(routes: readonly AccountRoute[], change?: Partial<PickRequest>): None;
  reasons(routes: readonly AccountRoute[]): (string | null)[];
}

export function openTestPool(seed = 1): TestPool {
  const clock = fakeClock();
  const limiter = openLimiter(clock);
  const pool = openPool({ clock, random: seeded(seed), limiter });
  const pick: TestPool["pick"] = (routes, change) =>
    pool.pick({ routes, tried: new Set(), affinity: null, estimate: {}, ...change });
  return {
    clock,
    pool,
    limiter,
    pick,
    take(routes, change) {
      const result = pick(routes, change);
      if (result.kind === "picked") return result;
      const reason = result.kind === "none" ? JSON.stringify(result.candidates()) : result.kind;
      throw new Error(`nothing picked: ${reason}`);
    },
    reject(routes, change) {
      const result = pick(routes, change);
      if (result.kind === "none") return result;
      throw new Error(result.kind === "picked" ? `picked ${result.route.account.id}` : result.kind);
    },
    reasons: (routes) => routes.map((one) => pool.describe(one).reason),
  };
}
