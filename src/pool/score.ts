/** Scores an account as a choice: latency, error rate and remaining upstream limits. */

import type { Headroom } from "../accounts/rate-limit.ts";

/** Measurements of recent attempts at one account and model. */
export interface Gauge {
  /** Average time to the first byte; 0 before the first one. */
  latencyMs: number;
  /** Average share of failed attempts: 0 to 1. */
  errors: number;
  measuredAtMs: number;
  /** 1, or less if the upstream reports that little of its limit is left. */
  headroomFactor: number;
  headroomUntilMs: number;
  /** The upstream reports that its limit is exhausted until then. */
  exhaustedUntilMs: number;
}

export function newGauge(): Gauge {
  return {
    latencyMs: 0,
    errors: 0,
    measuredAtMs: 0,
    headroomFactor: 1,
    headroomUntilMs: 0,
    exhaustedUntilMs: 0,
  };
}

/** Minimum weight of a new measurement. The weight grows with the age of the last one. */
const NEWEST_SHARE = 0.05;
const FRESH_MS = 60_000;
/** A single failure after a long pause must not dominate the average. */
const FAILURE_SHARE_MAX = 0.5;
/** Without new measurements, an old one loses half its weight in this time, so that a slow account is tried again. */
const FORGET_MS = 300_000;

export function noteSuccess(gauge: Gauge, firstByteMs: number, nowMs: number): void {
  const share = newestShare(gauge, nowMs);
  const ms = Math.max(1, firstByteMs);
  gauge.latencyMs = gauge.latencyMs === 0 ? ms : gauge.latencyMs + share * (ms - gauge.latencyMs);
  gauge.errors -= share * gauge.errors;
  gauge.measuredAtMs = nowMs;
}

export function noteFailure(gauge: Gauge, nowMs: number): void {
  gauge.errors += Math.min(FAILURE_SHARE_MAX, newestShare(gauge, nowMs)) * (1 - gauge.errors);
  gauge.measuredAtMs = nowMs;
}

function newestShare(gauge: Gauge, nowMs: number): number {
  const ageMs = nowMs - gauge.measuredAtMs;
  return Math.max(NEWEST_SHARE, ageMs / (ageMs + FRESH_MS));
}

/** Below this share of its limit an account is used less, in proportion to the remaining limit. */
const LOW_HEADROOM = 0.1;
const HEADROOM_FACTOR_MIN = 0.02;
/** Some upstreams report when the whole limit resets, not when a part does. A rejection is then more precise. */
const EXHAUSTED_MS_MAX = 60_000;

export function noteHeadroom(gauge: Gauge, { remaining, resetMs }: Headroom, nowMs: number): void {
  const untilMs = nowMs + Math.min(resetMs, EXHAUSTED_MS_MAX);
  if (remaining <= 0) gauge.exhaustedUntilMs = Math.max(gauge.exhaustedUntilMs, untilMs);
  gauge.headroomFactor = Math.max(HEADROOM_FACTOR_MIN, Math.min(1, remaining / LOW_HEADROOM));
  gauge.headroomUntilMs = untilMs;
}

const SLOWNESS_MIN = 1 / 16;
const SLOWNESS_MAX = 64;
/** Latency varies with the request: a difference below this factor is treated as noise. */
const SLOWNESS_CLEAR = 1.5;

/** A request's relative cost, from latency, errors and remaining limits: 1 is normal. */
export function computeScoreCost(gauge: Gauge, typicalMs: number, nowMs: number): number {
  const strength = FORGET_MS / (FORGET_MS + nowMs - gauge.measuredAtMs);
  const slowness = 1 + (computeSlowness(gauge.latencyMs, typicalMs) - 1) * strength;
  const headroomFactor = nowMs < gauge.headroomUntilMs ? gauge.headroomFactor : 1;
  return (slowness * (1 + gauge.errors * strength)) / headroomFactor;
}

function computeSlowness(latencyMs: number, typicalMs: number): number {
  if (latencyMs === 0 || typicalMs === 0) return 1;
  const times = latencyMs / typicalMs;
  if (times < SLOWNESS_CLEAR && times * SLOWNESS_CLEAR > 1) return 1;
  return Math.min(SLOWNESS_MAX, Math.max(SLOWNESS_MIN, times));
}

/** For display: lower is better. */
export function computeScore(inFlight: number, weight: number, cost: number): number {
  return ((inFlight + 1) / weight) * cost;
}

interface Load {
  readonly inFlight: number;
  readonly weight: number;
}

/**
 * True if the second of two accounts should be taken. Both were drawn in proportion to weight and cost, so only load
 * decides: using these again would square them. The fraction of a request keeps accounts of different weight at their
 * shares when few requests are in flight.
 */
export function isLighter(second: Load, first: Load): boolean {
  return (second.inFlight + 0.4) * first.weight <= first.inFlight * second.weight;
}
