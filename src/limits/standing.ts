/** Computes the used and remaining limits of a subject, for headers and `GET /v1/usage`. */

import type { Allowance, LimitStanding, Subject, Unit } from "./limiter-types.ts";
import { advance, resetMs } from "./sliding-window.ts";
import {
  computeFill,
  listWindows,
  MINUTE_MS,
  meterFor,
  type SubjectMeter,
  type SubjectState,
} from "./subject-state.ts";

/** With several nodes: as if the others had used as much of their part as this node. */
function estimateRemaining(meter: SubjectMeter, nowMs: number): number {
  const { cap, max, used } = meter;
  const fill = computeFill(meter, nowMs);
  if (fill >= max) return Math.max(0, max - used);
  const pastUsed = fill - cap;
  return cap <= 0 ? 0 : Math.max(0, Math.floor(((fill - used) * (max - pastUsed)) / cap));
}

export function computeStanding(
  { limits }: Subject,
  state: SubjectState | null,
  nowMs: number,
): LimitStanding {
  const allowance = (
    kind: SubjectMeter["kind"],
    unit: Unit,
    perMs: number,
    max: number | null,
  ): Allowance | null => {
    if (max === null) return null;
    const meter = state && meterFor(state.meters, kind, unit, perMs);
    if (!meter) return { limit: max, used: 0, remaining: max, resetMs: 0 };
    advance(meter, nowMs);
    const remaining = estimateRemaining(meter, nowMs);
    return {
      limit: max,
      used: meter.cap < max ? max - remaining : meter.used,
      remaining,
      resetMs: resetMs(meter, nowMs),
    };
  };
  return {
    requests: allowance("rpm", "requests", MINUTE_MS, limits.rpm),
    tokens: allowance("tpm", "tokens", MINUTE_MS, limits.tpm),
    concurrency: limits.concurrency === null ? null : { limit: limits.concurrency, inUse: state?.inUse ?? 0 },
    windows: listWindows(limits).map(({ perMs, requests, tokens, nano }) => ({
      perMs,
      requests: allowance("window", "requests", perMs, requests),
      tokens: allowance("window", "tokens", perMs, tokens),
      nano: allowance("window", "nano", perMs, nano),
    })),
  };
}
