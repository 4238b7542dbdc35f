/** What a request without an account is told, and whether it waits: decided from the states of its candidates. */

/** The states of the accounts that could serve a request and were not tried yet. Times are from now. */
export interface Obstacles {
  /** Some account serves as many requests as it may. It frees when one of them ends. */
  busy: boolean;
  /** The soonest reset of a rate limit, be it the account's own or its upstream's. */
  limitedMs: number | null;
  /** Some account's limit is smaller than the request, or zero: time does not help. */
  neverFits: boolean;
  /** The soonest end of a cool-down after an upstream reported that it is overloaded. */
  overloadedMs: number | null;
  /** The soonest probe of an upstream that failed: by an error, a time-out, or no connection. */
  failingMs: number | null;
  /** The soonest probe among failing upstreams of which no probe has failed yet. */
  firstProbeMs: number | null;
  /** Some account's credential, quota or model name needs an administrator. */
  outOfOrder: boolean;
}

export const NO_OBSTACLES: Obstacles = {
  busy: false,
  limitedMs: null,
  neverFits: false,
  overloadedMs: null,
  failingMs: null,
  firstProbeMs: null,
  outOfOrder: false,
};

export type Reason = "busy" | "limited" | "overloaded" | "failing" | "at_capacity" | "out_of_order";

export interface Verdict {
  /** How long the request waits at most; 0 if it is rejected at once. */
  waitMs: number;
  /** What the client is told if the request is rejected now. */
  reason: Reason;
  /** Until the account that the reason is about may serve; null if unknown. */
  freesInMs: number | null;
}

/** A request does not wait longer than this for the first probe of a failing upstream, whatever its group allows. */
export const FIRST_PROBE_WAIT_MS_MAX = 10_000;
/** A longer wait is no rate limit to a client: another model, or another time, is better. */
const SOON_MS = 60_000;

/**
 * `leftMs` is how long the request may still wait. A request waits for an account that is only busy, limited or
 * overloaded. For a failing upstream it waits for the first probe after the fault, so that a short outage stays
 * invisible; once a probe has failed, requests are rejected at once until one succeeds.
 */
export function decide(obstacles: Obstacles, leftMs: number): Verdict {
  return { waitMs: boundWait(obstacles, Math.max(0, leftMs)), ...nameReason(obstacles) };
}

function boundWait({ busy, limitedMs, overloadedMs, firstProbeMs }: Obstacles, leftMs: number): number {
  const clearsMs = soonest(limitedMs, overloadedMs);
  if (busy || (clearsMs !== null && clearsMs <= leftMs)) return leftMs;
  const probeWaitMs = Math.min(leftMs, FIRST_PROBE_WAIT_MS_MAX);
  return firstProbeMs !== null && firstProbeMs <= probeWaitMs ? probeWaitMs : 0;
}

/** Healthy accounts come before failing ones, and what passes by itself before what needs an administrator. */
function nameReason(obstacles: Obstacles): Pick<Verdict, "reason" | "freesInMs"> {
  const { busy, limitedMs, overloadedMs, failingMs, neverFits } = obstacles;
  if (busy) return { reason: "busy", freesInMs: soonest(limitedMs, overloadedMs) };
  if (limitedMs !== null && limitedMs <= SOON_MS) return { reason: "limited", freesInMs: limitedMs };
  if (overloadedMs !== null) return { reason: "overloaded", freesInMs: overloadedMs };
  if (failingMs !== null) return { reason: "failing", freesInMs: failingMs };
  if (limitedMs !== null) return { reason: "at_capacity", freesInMs: limitedMs };
  if (neverFits) return { reason: "at_capacity", freesInMs: null };
  return { reason: "out_of_order", freesInMs: null };
}

export function soonest(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b);
}
