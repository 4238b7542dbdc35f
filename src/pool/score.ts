/** How good a choice an account is: how quick, how reliable and how much of its upstream's allowance is left. */

import type { Headroom } from "../accounts/rate-limit.ts";

/** What recent attempts at one account and model have shown. */
export interface Gauge {
  /** Time to the first byte, averaged; 0 until there was one. */
  latencyMs: number;
  /** Share of attempts that failed, averaged: 0 to 1. */
  errors: number;
  measuredAtMs: number;
  /** 1, or less when the upstream says that little is left. */
  room: number;
  roomUntilMs: number;
  /** The upstream says that nothing is left until then. */
  exhaustedUntilMs: number;
}

export function freshGauge(): Gauge {
  return { latencyMs: 0, errors: 0, measuredAtMs: 0, room: 1, roomUntilMs: 0, exhaustedUntilMs: 0 };
}

/** A new measurement counts for at least this much, and for more the older the last one is. */
const NEWEST_SHARE = 0.05;
const FRESH_MS = 60_000;
/** One failure after a long silence is not yet a habit. */
const FAILURE_SHARE_MAX = 0.5;
/** Without news an old impression loses half its strength in this time, so that a slow account is tried again. */
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

/** Below this share of its allowance an account is spared, the more the less is left. */
const LITTLE_LEFT = 0.1;
const ROOM_MIN = 0.02;
/** Some upstreams tell when all is free again, not when something is: a refusal then says more. */
const EXHAUSTED_MS_MAX = 60_000;

export function noteHeadroom(gauge: Gauge, { left, resetMs }: Headroom, nowMs: number): void {
  const untilMs = nowMs + Math.min(resetMs, EXHAUSTED_MS_MAX);
  if (left <= 0) gauge.exhaustedUntilMs = Math.max(gauge.exhaustedUntilMs, untilMs);
  gauge.room = Math.max(ROOM_MIN, Math.min(1, left / LITTLE_LEFT));
  gauge.roomUntilMs = untilMs;
}

const SLOWNESS_MIN = 1 / 16;
const SLOWNESS_MAX = 64;
/** Latency varies with what is asked: a difference below this factor is chance. */
const SLOWNESS_CLEAR = 1.5;

/** What a request costs here, by latency relative to what is typical, errors and allowance: 1 is usual. */
export function computeScoreCost(gauge: Gauge, typicalMs: number, nowMs: number): number {
  const strength = FORGET_MS / (FORGET_MS + nowMs - gauge.measuredAtMs);
  const slowness = 1 + (slownessOf(gauge.latencyMs, typicalMs) - 1) * strength;
  const room = nowMs < gauge.roomUntilMs ? gauge.room : 1;
  return (slowness * (1 + gauge.errors * strength)) / room;
}

function slownessOf(latencyMs: number, typicalMs: number): number {
  if (latencyMs === 0 || typicalMs === 0) return 1;
  const times = latencyMs / typicalMs;
  if (times < SLOWNESS_CLEAR && times * SLOWNESS_CLEAR > 1) return 1;
  return Math.min(SLOWNESS_MAX, Math.max(SLOWNESS_MIN, times));
}

/** For people: lower is better. */
export function computeScore(inFlight: number, weight: number, cost: number): number {
  return ((inFlight + 1) / weight) * cost;
}

export interface Load {
  readonly inFlight: number;
  readonly weight: number;
}

/**
 * True if the second of two accounts should be taken instead of the first. Both were drawn in proportion to weight
 * and cost, so only load decides: counting those again here would square them. The part of a request keeps accounts
 * of different weight at their shares when few requests are under way.
 */
export function isLighter(second: Load, first: Load): boolean {
  return (second.inFlight + 0.4) * first.weight <= first.inFlight * second.weight;
}
