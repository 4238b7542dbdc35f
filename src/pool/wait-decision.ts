/** Whether a request without an account waits, and which error it gets otherwise. */

/** The states of the accounts that could serve a request and were not tried yet. Times are relative to now. */
export interface Obstacles {
  /** Some account is at its concurrency limit. It becomes free when one of its requests ends. */
  busy: boolean;
  /** The earliest reset of a rate limit, of the account or of its upstream. */
  limitedMs: number | null;
  /** Some account's limit is smaller than the request, or zero: waiting does not help. */
  neverFits: boolean;
  /** The earliest end of a cool-down after an upstream reported that it is overloaded. */
  overloadedMs: number | null;
  /** The earliest probe of an upstream that failed with an error, a timeout or no connection. */
  failingMs: number | null;
  /** The earliest probe among failing upstreams without a failed probe. */
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

type RejectionReason = "busy" | "limited" | "overloaded" | "failing" | "at_capacity" | "out_of_order";

export interface SelectionVerdict {
  /** Maximum wait; 0 if the request is rejected at once. */
  waitMs: number;
  /** The reason for the client if the request is rejected now. */
  reason: RejectionReason;
  /** Time until the account that the reason refers to may serve; null if unknown. */
  freesInMs: number | null;
}

/** Maximum wait for the first probe of a failing upstream, even if the group allows more. */
export const FIRST_PROBE_WAIT_MS_MAX = 10_000;
/**
 * A longer wait is not reported as a rate limit: the client should use another model or come back later. Limits per
 * minute must stay below it: with several nodes, a killed node's part of a minute is free after up to 73 seconds.
 */
const SOON_MS = 90_000;

/**
 * `leftMs` is how long the request may still wait. A request waits for an account that is only busy, limited or
 * overloaded. For a failing upstream it waits for the first probe after the fault, so that a short outage stays
 * invisible; after a failed probe, requests are rejected at once until a probe succeeds.
 */
export function decideWait(obstacles: Obstacles, leftMs: number): SelectionVerdict {
  return { waitMs: boundWait(obstacles, Math.max(0, leftMs)), ...nameReason(obstacles) };
}

function boundWait({ busy, limitedMs, overloadedMs, firstProbeMs }: Obstacles, leftMs: number): number {
  const clearsMs = soonest(limitedMs, overloadedMs);
  if (busy || (clearsMs !== null && clearsMs <= leftMs)) return leftMs;
  const probeWaitMs = Math.min(leftMs, FIRST_PROBE_WAIT_MS_MAX);
  return firstProbeMs !== null && firstProbeMs <= probeWaitMs ? probeWaitMs : 0;
}

/** Healthy before failing, and obstacles that end by themselves before those that need a person. */
function nameReason(obstacles: Obstacles): Pick<SelectionVerdict, "reason" | "freesInMs"> {
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
