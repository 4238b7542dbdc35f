/** Computes the used and remaining limits of a subject, for headers and `GET /v1/usage`. */

import type { Allowance, LimitStanding, Subject, Unit } from "./limiter-types.ts";
import { advance, resetMs } from "./sliding-window.ts";
import { listWindows, MINUTE_MS, meterFor, type SubjectMeter, type SubjectState } from "./subject-state.ts";

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
    return {
      limit: max,
      used: meter.used,
      remaining: Math.max(0, max - meter.used),
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
