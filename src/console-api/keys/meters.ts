/** What a key may use at this moment: one meter for each limit that concerns it, with what is left. */

import { z } from "zod";
import type { Caller } from "../../gateway/admission/authenticate.ts";
import { callerSubjects } from "../../gateway/admission/caller-limits.ts";
import type { Allowance, Limiter, LimitStanding, Subject } from "../../limits/limiter.ts";
import { usdText } from "../../money/nano.ts";

const scope = z.enum(["key", "user", "group"]);
const shared = {
  /** Of the key itself, of all keys of its user, or of all keys of its group. */
  scope,
  /** The length of the window; null for requests at the same time. */
  per_ms: z.number().nullable(),
  /** When all of it is free again; null for requests at the same time. */
  resets_at: z.number().nullable(),
};
const counted = { limit: z.number(), used: z.number(), remaining: z.number() };
const paid = { limit: z.string(), used: z.string(), remaining: z.string() };

export const meterAnswer = z.discriminatedUnion("unit", [
  z.object({ unit: z.literal("requests"), ...shared, ...counted }),
  z.object({ unit: z.literal("tokens"), ...shared, ...counted }),
  z.object({ unit: z.literal("at_once"), ...shared, ...counted }),
  z.object({ unit: z.literal("usd"), ...shared, ...paid }),
]);
export type LimitMeter = z.output<typeof meterAnswer>;

const MINUTE_MS = 60_000;

/** Where a key's own limit and its group's are of the same kind, the one that has less left. */
export function metersOf(limiter: Limiter, caller: Caller, nowMs: number): LimitMeter[] {
  const tightest = new Map<string, { meter: LimitMeter; left: number }>();
  for (const subject of callerSubjects(caller)) {
    for (const found of metersOfSubject(subject, limiter.standing(subject), nowMs)) {
      const name = `${found.meter.scope} ${found.meter.unit} ${found.meter.per_ms}`;
      const before = tightest.get(name);
      if (before === undefined || found.left < before.left) tightest.set(name, found);
    }
  }
  return [...tightest.values()].map(({ meter }) => meter);
}

function metersOfSubject({ scope: whose }: Subject, standing: LimitStanding, nowMs: number) {
  const found: { meter: LimitMeter; left: number }[] = [];
  if (whose === "account") return found;
  const add = (unit: "requests" | "tokens" | "usd", perMs: number, allowance: Allowance | null) => {
    if (allowance === null) return;
    const { limit, used, remaining, resetMs } = allowance;
    const when = { scope: whose, per_ms: perMs, resets_at: Math.ceil(nowMs + resetMs) };
    const meter: LimitMeter =
      unit === "usd"
        ? { unit, ...when, limit: usd(limit), used: usd(used), remaining: usd(remaining) }
        : { unit, ...when, limit, used, remaining };
    found.push({ meter, left: remaining });
  };
  const { concurrency } = standing;
  if (concurrency !== null) {
    const { limit, inUse: used } = concurrency;
    const remaining = Math.max(0, limit - used);
    const meter = {
      unit: "at_once",
      scope: whose,
      per_ms: null,
      resets_at: null,
      limit,
      used,
      remaining,
    } as const;
    found.push({ meter, left: remaining });
  }
  add("requests", MINUTE_MS, standing.requests);
  add("tokens", MINUTE_MS, standing.tokens);
  for (const { perMs, requests, tokens, nano } of standing.windows) {
    add("requests", perMs, requests);
    add("tokens", perMs, tokens);
    add("usd", perMs, nano);
  }
  return found;
}

function usd(nano: number): string {
  return usdText(BigInt(Math.round(nano)));
}
