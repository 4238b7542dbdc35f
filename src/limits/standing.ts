/** Computes the used and remaining limits of a subject, for headers and `GET /v1/usage`. */

import { mapKinds } from "../base/map-kinds.ts";
import { MINUTE_KINDS, MINUTE_LIMITS, MINUTE_MS, type MinuteKind, WINDOW_UNITS } from "../records/limits.ts";
import type { Allowance, LimitStanding, Subject } from "./limiter-types.ts";
import { advance, resetMs } from "./sliding-window.ts";
import { listWindows, meterFor, type SubjectMeter, type SubjectState } from "./subject-state.ts";

/** `meter` is undefined if nothing was used since the process started. */
function toAllowance(meter: SubjectMeter | undefined, limit: number, nowMs: number): Allowance {
  if (!meter) return { limit, used: 0, remaining: limit, resetMs: 0 };
  advance(meter, nowMs);
  const { used } = meter;
  return { limit, used, remaining: Math.max(0, limit - used), resetMs: resetMs(meter, nowMs) };
}

export function computeAllowance(
  { limits }: Subject,
  state: SubjectState | null,
  kind: MinuteKind,
  nowMs: number,
): Allowance | null {
  const limit = limits[kind];
  if (limit === null) return null;
  const meter = meterFor(state?.meters ?? [], kind, MINUTE_LIMITS[kind].unit, MINUTE_MS);
  return toAllowance(meter, limit, nowMs);
}

export function computeStanding(subject: Subject, state: SubjectState | null, nowMs: number): LimitStanding {
  const { limits } = subject;
  return {
    ...mapKinds(MINUTE_KINDS, (kind) => computeAllowance(subject, state, kind, nowMs)),
    concurrency: limits.concurrency === null ? null : { limit: limits.concurrency, inUse: state?.inUse ?? 0 },
    windows: listWindows(limits).map(({ perMs, ...window }) => ({
      perMs,
      ...mapKinds(WINDOW_UNITS, (unit) => {
        const limit = window[unit];
        if (limit === null) return null;
        return toAllowance(meterFor(state?.meters ?? [], "window", unit, perMs), limit, nowMs);
      }),
    })),
  };
}
