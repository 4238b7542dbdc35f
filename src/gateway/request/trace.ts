/** What dispatch did with one request, kept so that it can be explained afterwards. */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Candidate } from "../../pool/pool.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";

export interface AttemptTrace {
  accountId: string;
  accountName: string;
  upstreamModel: string;
  /** Since the request came in. */
  startedMs: number;
  firstByteMs: number | null;
  endedMs: number | null;
  status: number | null;
  /** Null for the attempt that served the request. */
  failure: string | null;
  reason: string | null;
  /** What a failed attempt reported as used: its account will bill that. */
  usage?: TokenUsage;
}

/** As stored: plain data. */
export interface DispatchTrace {
  waitedMs: number;
  /** The part of it that the request waited for a slot of its key's, user's or group's concurrency. */
  slotWaitMs?: number;
  /** The accounts that were weighed at the last choice, with reasons and scores. */
  candidates: readonly Candidate[];
  attempts: readonly AttemptTrace[];
  /** What the client was told, if it was refused or failed. */
  refusal?: string;
}

/** The trace of a request under way. Times are of the monotonic clock. */
export interface Trace {
  readonly startedMs: number;
  /** The account of the last attempt, and what it calls the request. */
  route: AccountRoute | null;
  upstreamRequestId: string | null;
  candidates: readonly Candidate[];
  readonly attempts: AttemptTrace[];
  /** Waits that are over; `waitedMs()` adds one that is still going on. */
  endedWaitsMs: number;
  /** The part of them that was spent waiting for a slot of the caller's own concurrency. */
  slotWaitMs: number;
  waitingSinceMs: number | null;
}

const NO_CANDIDATES: readonly Candidate[] = [];

export function openTrace(startedMs: number): Trace {
  return {
    startedMs,
    route: null,
    upstreamRequestId: null,
    candidates: NO_CANDIDATES,
    attempts: [],
    endedWaitsMs: 0,
    slotWaitMs: 0,
    waitingSinceMs: null,
  };
}

/** A client may leave while it waits: what it has waited until then counts. */
export function waitedMs(trace: Trace, nowMs: number): number {
  const { endedWaitsMs, waitingSinceMs } = trace;
  return waitingSinceMs === null ? endedWaitsMs : endedWaitsMs + Math.round(nowMs - waitingSinceMs);
}

export function endWait(trace: Trace, nowMs: number): void {
  trace.endedWaitsMs = waitedMs(trace, nowMs);
  trace.waitingSinceMs = null;
}

export function beginAttempt(trace: Trace, route: AccountRoute, nowMs: number): void {
  trace.route = route;
  trace.upstreamRequestId = null;
  trace.attempts.push({
    accountId: route.account.id,
    accountName: route.account.name,
    upstreamModel: route.upstreamModel,
    startedMs: Math.round(nowMs - trace.startedMs),
    firstByteMs: null,
    endedMs: null,
    status: null,
    failure: null,
    reason: null,
  });
}

/** The account has begun to answer. */
export function noteFirstByte(trace: Trace, upstreamRequestId: string | null, nowMs: number): void {
  trace.upstreamRequestId = upstreamRequestId;
  const last = trace.attempts.at(-1);
  if (!last) return;
  last.firstByteMs = Math.round(nowMs - trace.startedMs);
  last.status = 200;
}

export function failAttempt(trace: Trace, failure: UpstreamFailure, nowMs: number): void {
  const last = trace.attempts.at(-1);
  if (!last) return;
  last.endedMs = Math.round(nowMs - trace.startedMs);
  last.status = failure.status;
  last.failure = failure.class;
  last.reason = failure.reason;
}

/** The attempt fails, but reported what it used. */
export function noteWastedUsage({ attempts }: Trace, usage: TokenUsage | null): void {
  const last = attempts.at(-1);
  if (last !== undefined && usage !== null) last.usage = usage;
}

/** An account has the request, and has not failed it. */
export function hasOpenAttempt({ attempts }: Trace): boolean {
  const last = attempts.at(-1);
  return last !== undefined && last.failure === null;
}

/** Since the request came in. */
export function firstByteMs({ attempts }: Trace): number | null {
  return attempts.at(-1)?.firstByteMs ?? null;
}

/** How long the account of the last attempt took to its first byte, without any waiting before that. */
export function latencyMs({ attempts }: Trace): number {
  const last = attempts.at(-1);
  return last === undefined || last.firstByteMs === null ? 0 : last.firstByteMs - last.startedMs;
}

/** One account, one attempt, no wait: the usage row says it all. */
export function isOrdinary(trace: Trace, nowMs: number): boolean {
  const { candidates, attempts } = trace;
  return (
    candidates.length === 0 &&
    waitedMs(trace, nowMs) === 0 &&
    attempts.length <= 1 &&
    attempts[0]?.failure == null
  );
}

/** Enough to say which limit it was; a text that an upstream made long is cut. */
const REFUSAL_CHARS_MAX = 500;

export function traceRecord(trace: Trace, nowMs: number, refusal: string | null = null): DispatchTrace {
  return {
    waitedMs: waitedMs(trace, nowMs),
    ...(trace.slotWaitMs === 0 ? {} : { slotWaitMs: trace.slotWaitMs }),
    candidates: trace.candidates,
    attempts: trace.attempts,
    ...(refusal === null ? {} : { refusal: refusal.slice(0, REFUSAL_CHARS_MAX) }),
  };
}
