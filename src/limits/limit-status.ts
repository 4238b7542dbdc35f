/** Describes the used and remaining limits of a subject, for headers and `GET /v1/usage`. */

import { mapKinds } from "../base/map-kinds.ts";
import { MINUTE_MS } from "../base/time.ts";
import { MINUTE_KINDS, MINUTE_LIMITS, type MinuteKind, type Unit, WINDOW_UNITS } from "../records/limits.ts";
import type { Allowance, LimitStatus, Subject } from "./limiter-types.ts";
import { listWindows } from "./subject-state.ts";

/** One limit over time. */
interface TimeLimit {
  readonly kind: MinuteKind | "window";
  readonly unit: Unit;
  readonly perMs: number;
  readonly limit: number;
}

export type AllowanceReader = (limit: TimeLimit) => Allowance;

export function readMinute({ limits }: Subject, kind: MinuteKind, read: AllowanceReader): Allowance | null {
  const limit = limits[kind];
  return limit === null ? null : read({ kind, unit: MINUTE_LIMITS[kind].unit, perMs: MINUTE_MS, limit });
}

export function readLimitStatus(
  subject: Subject,
  read: AllowanceReader,
  countInUse: (limit: number) => number,
): LimitStatus {
  const { concurrency: slots } = subject.limits;
  return {
    ...mapKinds(MINUTE_KINDS, (kind) => readMinute(subject, kind, read)),
    concurrency: slots === null ? null : { limit: slots, inUse: countInUse(slots) },
    windows: listWindows(subject.limits).map(({ perMs, ...window }) => ({
      perMs,
      ...mapKinds(WINDOW_UNITS, (unit) => {
        const limit = window[unit];
        return limit === null ? null : read({ kind: "window", unit, perMs, limit });
      }),
    })),
  };
}

export function describeAllowance(limit: number, used: number, resetMs: number): Allowance {
  return { limit, used, remaining: Math.max(0, limit - used), resetMs };
}
