/** Computes the used and remaining limits of a subject, for headers and `GET /v1/usage`. */

import { mapKinds } from "../base/map-kinds.ts";
import { MINUTE_KINDS, MINUTE_LIMITS, MINUTE_MS, type MinuteKind, WINDOW_UNITS } from "../records/limits.ts";
import type { Allowance, LimitStanding, Subject } from "./limiter-types.ts";
import { advance, resetMs } from "./sliding-window.ts";
import { computeFill, listWindows, meterFor, type SubjectMeter, type SubjectState } from "./subject-state.ts";

/** With several nodes: as if the others had used as much of their part as this node. */
function estimateRemaining(meter: SubjectMeter, nowMs: number): number {
  const { cap, max, used } = meter;
  const fill = computeFill(meter, nowMs);
  if (fill >= max) return Math.max(0, max - used);
  const pastUsed = fill - cap;
  return cap <= 0 ? 0 : Math.max(0, Math.floor(((fill - used) * (max - pastUsed)) / cap));
}

/** `meter` is undefined if nothing was used since the process started. */
function toAllowance(meter: SubjectMeter | undefined, limit: number, nowMs: number): Allowance {
  if (!meter) return { limit, used: 0, remaining: limit, resetMs: 0 };
  advance(meter, nowMs);
  const remaining = estimateRemaining(meter, nowMs);
  const used = meter.cap < limit ? limit - remaining : meter.used;
  return { limit, used, remaining, resetMs: resetMs(meter, nowMs) };
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
