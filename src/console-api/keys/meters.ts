/** The current limits of a key: one meter for each limit that applies to it, with the remaining amount. */

import { z } from "zod";
import { MINUTE_MS } from "../../base/time.ts";
import type { Caller } from "../../gateway/admission/authenticate.ts";
import { callerSubjects } from "../../gateway/admission/caller-limits.ts";
import type { Allowance, Limiter, LimitStatus, Subject } from "../../limits/limiter-types.ts";
import { roundedUsd } from "../../money/nano.ts";
import {
  COUNT_UNITS,
  MINUTE_KINDS,
  MINUTE_LIMITS,
  UNITS,
  type Unit,
  WINDOW_UNITS,
} from "../../records/limits.ts";

const scope = z.enum(["key", "user", "group"]);
const shared = {
  /** The limit of the key itself, of all keys of its user, or of all keys of its group. */
  scope,
  /** The length of the window; null for concurrency. */
  per_ms: z.number().nullable(),
  /** When the whole limit is available again; null for concurrency. */
  resets_at: z.number().nullable(),
};
const counted = { limit: z.number(), used: z.number(), remaining: z.number() };
const usdFields = { limit: z.string(), used: z.string(), remaining: z.string() };

export const meterResponse = z.discriminatedUnion("unit", [
  z.object({ unit: z.enum(["at_once", ...COUNT_UNITS]), ...shared, ...counted }),
  z.object({ unit: z.literal("usd"), ...shared, ...usdFields }),
]);
type LimitMeter = z.output<typeof meterResponse>;

/** If the key and its group have a limit of the same kind, returns the one with less remaining. */
export function buildMeters(limiter: Limiter, caller: Caller, nowMs: number): LimitMeter[] {
  const tightest = new Map<string, { meter: LimitMeter; left: number }>();
  for (const subject of callerSubjects(caller)) {
    for (const found of metersOfSubject(subject, limiter.readStatus(subject), nowMs)) {
      const name = `${found.meter.scope} ${found.meter.unit} ${found.meter.per_ms}`;
      const before = tightest.get(name);
      if (before === undefined || found.left < before.left) tightest.set(name, found);
    }
  }
  return [...tightest.values()].map(({ meter }) => meter);
}

function metersOfSubject({ scope: scopeName }: Subject, status: LimitStatus, nowMs: number) {
  const found: { meter: LimitMeter; left: number }[] = [];
  if (scopeName === "account") return found;
  const add = (unit: Unit, perMs: number, allowance: Allowance | null) => {
    if (allowance === null) return;
    const { limit, used, remaining, resetMs } = allowance;
    const meterFields = { scope: scopeName, per_ms: perMs, resets_at: Math.ceil(nowMs + resetMs) };
    const meter: LimitMeter =
      unit === "nano"
        ? {
            unit: "usd",
            ...meterFields,
            limit: roundedUsd(limit),
            used: roundedUsd(used),
            remaining: roundedUsd(remaining),
          }
        : { unit: UNITS[unit].field, ...meterFields, limit, used, remaining };
    found.push({ meter, left: remaining });
  };
  const { concurrency } = status;
  if (concurrency !== null) {
    const { limit, inUse: used } = concurrency;
    const remaining = Math.max(0, limit - used);
    const meter = {
      unit: "at_once",
      scope: scopeName,
      per_ms: null,
      resets_at: null,
      limit,
      used,
      remaining,
    } as const;
    found.push({ meter, left: remaining });
  }
  for (const kind of MINUTE_KINDS) add(MINUTE_LIMITS[kind].unit, MINUTE_MS, status[kind]);
  for (const { perMs, ...window } of status.windows) {
    for (const unit of WINDOW_UNITS) add(unit, perMs, window[unit]);
  }
  return found;
}
