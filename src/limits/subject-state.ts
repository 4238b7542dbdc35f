/** The state of one subject: requests in flight, and one meter for each limit over time. */

import { MINUTE_MS } from "../base/time.ts";
import {
  type CallerLimits,
  MINUTE_KINDS,
  MINUTE_LIMITS,
  NO_LIMITS,
  RATE_KINDS,
  type RateLimits,
  type Unit,
  WINDOW_UNITS,
  type WindowLimit,
} from "../records/limits.ts";
import type { Amounts, LimitKind, Scope, Shortage, Subject } from "./limiter-types.ts";
import { advance, openWindow, type SlidingWindow, waitMs } from "./sliding-window.ts";

/** A long window is counted in this many steps: a use is held too long by at most this fraction of the window. */
const GRAINS_PER_WINDOW = 480;

/** A window and its limit in one object: an admission reads many of them, and memory access dominates its cost. */
export interface SubjectMeter extends SlidingWindow {
  readonly kind: Exclude<LimitKind, "concurrency">;
  readonly unit: Unit;
  max: number;
  /** The part of `used` that requests in flight have reserved. It is settled to the true use when they end. */
  reserved: number;
}

export interface SubjectState {
  readonly scope: Scope;
  readonly id: string;
  limits: CallerLimits | RateLimits;
  meters: readonly SubjectMeter[];
  longestMs: number;
  /** Leases held, counted even without a concurrency limit, so that a limit added later finds the true number. */
  inUse: number;
  /** Wakes the requests that wait for a slot of this subject; null, the usual case, if none waits. */
  onRelease: (() => void) | null;
  /** When every window will be empty, if nothing more is used. */
  idleAtMs: number;
}

export function openState({ scope, id, limits }: Subject): SubjectState {
  const meters = metersFor(limits, []);
  return {
    scope,
    id,
    limits,
    meters,
    longestMs: longestWindowMs(meters),
    inUse: 0,
    onRelease: null,
    idleAtMs: 0,
  };
}

/** Changed limits apply at once. A limit that stays keeps its history, even with a new maximum. */
export function applyLimits(state: SubjectState, limits: CallerLimits | RateLimits): void {
  state.limits = limits;
  state.meters = metersFor(limits, state.meters);
  state.longestMs = longestWindowMs(state.meters);
}

export function isUnlimited(limits: CallerLimits | RateLimits): boolean {
  // Most subjects share this object, and each admission checks each subject.
  if (limits === NO_LIMITS) return true;
  for (const kind of RATE_KINDS) if (limits[kind] !== null) return false;
  for (const window of listWindows(limits)) {
    for (const unit of WINDOW_UNITS) if (window[unit] !== null) return false;
  }
  return true;
}

/** A maximum of 0 rejects even a subject without state. */
export function isClosed(limits: CallerLimits | RateLimits): boolean {
  return (
    RATE_KINDS.some((kind) => limits[kind] === 0) ||
    listWindows(limits).some((window) => WINDOW_UNITS.some((unit) => window[unit] === 0))
  );
}

/** Whether some limit of these counts the unit. */
export function countsUnit(limits: CallerLimits | RateLimits, unit: Unit): boolean {
  return (
    MINUTE_KINDS.some((kind) => MINUTE_LIMITS[kind].unit === unit && limits[kind] !== null) ||
    listWindows(limits).some((window) => WINDOW_UNITS.some((one) => one === unit && window[one] !== null))
  );
}

const NO_WINDOWS: readonly WindowLimit[] = [];

export function listWindows(limits: CallerLimits | RateLimits): readonly WindowLimit[] {
  return "windows" in limits ? limits.windows : NO_WINDOWS;
}

export function touch(state: SubjectState, nowMs: number): void {
  state.idleAtMs = nowMs + state.longestMs;
}

export function isIdle(state: SubjectState, nowMs: number): boolean {
  return state.inUse === 0 && nowMs >= state.idleAtMs && state.onRelease === null;
}

/**
 * The shortage that ends last, or null. A known wait goes before concurrency, which may become free at any time:
 * "retry at once" would be wrong while a window is full.
 */
export function findShortage(state: SubjectState, amounts: Amounts, nowMs: number): Shortage | null {
  return windowShortageIn(state, amounts, nowMs) ?? concurrencyShortageIn(state);
}

/** Only limits over time: for a request that already has its concurrency slot. */
export function windowShortageIn(
  { scope, id, meters }: SubjectState,
  amounts: Amounts,
  nowMs: number,
): Shortage | null {
  let longestMs = 0;
  let short: SubjectMeter | null = null;
  let missing = 0;
  for (const meter of meters) {
    advance(meter, nowMs);
    const amount = amounts[meter.unit];
    const wait = amount === 0 && meter.unit === "requests" ? 0 : waitMs(meter, amount, meter.max, nowMs);
    if (wait > longestMs) {
      longestMs = wait;
      short = meter;
      missing = amount;
    }
  }
  if (short === null) return null;
  const { kind, unit, max, used, perMs } = short;
  const freesInMs = Number.isFinite(longestMs) ? longestMs : null;
  const shortage: Shortage = { scope, id, kind, max, used, freesInMs, perMs, unit };
  // An amount that has left the window is no longer in `used`, but may still be reserved.
  if (unit === "nano" && short.reserved > 0 && Math.max(0, used - short.reserved) + missing <= max) {
    shortage.isReserved = true;
  }
  return shortage;
}

/** A maximum of 0 never becomes free, so no request waits for it. */
export function hasNoSlot({ limits: { concurrency }, inUse }: SubjectState): boolean {
  return concurrency !== null && concurrency !== 0 && inUse >= concurrency;
}

function concurrencyShortageIn(state: SubjectState): Shortage | null {
  const { scope, id, inUse } = state;
  const { concurrency } = state.limits;
  if (concurrency === null || inUse < concurrency) return null;
  return {
    scope,
    id,
    kind: "concurrency",
    max: concurrency,
    used: inUse,
    freesInMs: null,
    perMs: null,
    unit: "requests",
  };
}

/** Of two shortages the one that ends later. One that never ends sorts last, one that a release ends sorts first. */
export function laterShortage(a: Shortage | null, b: Shortage | null): Shortage | null {
  if (a === null || b === null) return a ?? b;
  return computeWait(b) > computeWait(a) ? b : a;
}

function computeWait({ kind, freesInMs }: Shortage): number {
  return kind === "concurrency" ? 0 : (freesInMs ?? Number.POSITIVE_INFINITY);
}

function metersFor(limits: CallerLimits | RateLimits, old: readonly SubjectMeter[]): SubjectMeter[] {
  const meters: SubjectMeter[] = [];
  const add = (kind: SubjectMeter["kind"], unit: Unit, perMs: number, max: number | null) => {
    if (max === null) return;
    const duplicate = meterFor(meters, kind, unit, perMs);
    if (duplicate) {
      duplicate.max = Math.min(duplicate.max, max);
      return;
    }
    const grainMs = kind === "window" ? perMs / GRAINS_PER_WINDOW : 0;
    const meter = meterFor(old, kind, unit, perMs) ?? {
      ...openWindow(perMs, grainMs),
      kind,
      unit,
      max,
      reserved: 0,
    };
    meter.max = max;
    meters.push(meter);
  };
  for (const kind of MINUTE_KINDS) add(kind, MINUTE_LIMITS[kind].unit, MINUTE_MS, limits[kind]);
  for (const window of listWindows(limits)) {
    for (const unit of WINDOW_UNITS) add("window", unit, window.perMs, window[unit]);
  }
  return meters;
}

export function meterFor(
  meters: readonly SubjectMeter[],
  kind: SubjectMeter["kind"],
  unit: Unit,
  perMs: number,
): SubjectMeter | undefined {
  return meters.find((meter) => meter.kind === kind && meter.unit === unit && meter.perMs === perMs);
}

function longestWindowMs(meters: readonly SubjectMeter[]): number {
  return meters.reduce((longest, { perMs }) => Math.max(longest, perMs), 0);
}
