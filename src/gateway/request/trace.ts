/** The trace of one request: what dispatch did, recorded to explain it later. */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Candidate } from "../../pool/pool.ts";
import type { PolicyChange } from "../../protocols/request-policy/policy-body.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { Dialect } from "../../records/interfaces.ts";
import type { SpanContext } from "../../telemetry/span-context.ts";

export interface AttemptTrace {
  accountId: string;
  accountName: string;
  upstreamModel: string;
  /** Since the request was received. */
  startedMs: number;
  firstByteMs: number | null;
  endedMs: number | null;
  status: number | null;
  /** Null for the attempt that served the request. */
  failure: string | null;
  reason: string | null;
  /** The number and the group of its fallback step. */
  step?: { readonly number: number; readonly group: string };
  /** The dialect that the request was translated into. */
  translation?: Dialect;
  /** The fields that were dropped for the account, and what was dropped from its response. */
  dropped?: readonly string[];
  /** The conversation carried opaque state that the account cannot use. */
  stateDropped?: true;
  /** The usage that a failed attempt reported: its account will bill it. */
  usage?: TokenUsage;
}

export interface StepTrace {
  /** 0: the requested model in the key's group. */
  readonly number: number;
  readonly group: string;
  readonly model: string;
  /** When the step ended or was skipped, or began to serve: since the request was received. */
  readonly atMs: number;
  readonly result: "served" | "failed" | "skipped";
  /** Why it failed or was skipped; of a step that served, why it was entered. */
  readonly reason: string | null;
  /** Its expected cost in USD; null if that was not computed. */
  readonly forecast: string | null;
}

/** The stored form: plain data. */
export interface DispatchTrace {
  waitedMs: number;
  /** The part of the wait that was for the concurrency limit of the key, user or group. */
  slotWaitMs?: number;
  /** The candidate accounts at the last pick, with reasons and scores. */
  candidates: readonly Candidate[];
  attempts: readonly AttemptTrace[];
  /** The steps of a request with fallback, if it has left the first one. */
  steps?: readonly StepTrace[];
  /** What the request policy of the caller changed. */
  policyChanges?: readonly PolicyChange[];
  /** The error message for the client, if the request was rejected or failed. */
  rejection?: string;
  /** The id of the distributed trace, if the client started it. Otherwise the id follows from the request id. */
  traceId?: string;
}

/** What upstreams have worked on for a request that was sent in batches and failed. They bill it. */
export interface BatchedWork {
  /** Reported by upstreams; null if none was. */
  readonly usage: TokenUsage | null;
  /** The tokens of batches whose upstream reported none. */
  readonly countedTokens: number;
}

/** A request that is sent in batches. */
export interface BatchedRequest {
  /** An upstream has worked on at least one batch. */
  readonly hasWorked: boolean;
  /** Null if no batch was worked on. */
  measureWork(): Promise<BatchedWork | null>;
}

/** The trace of a request in flight. Times are on the monotonic clock. */
export interface Trace {
  readonly startedMs: number;
  /** The place of the request in its distributed trace; null if spans are not exported. */
  readonly spanContext: SpanContext | null;
  /** The account of the last attempt, and its id for the request. */
  route: AccountRoute | null;
  upstreamRequestId: string | null;
  candidates: readonly Candidate[];
  readonly attempts: AttemptTrace[];
  /** Completed waits. `waitedMs()` adds the current one. */
  endedWaitsMs: number;
  /** When the first content of a stream arrived, since the request was received; null if there is none. */
  firstContentMs: number | null;
  /** The part of them that was for the caller's concurrency limit. */
  slotWaitMs: number;
  waitingSinceMs: number | null;
  /**
   * The batches of the request, for each upstream model that was tried; null if it is sent whole. With fallback, those of
   * the step in progress.
   */
  batches: BatchedRequest[] | null;
  /** Null without fallback. */
  steps: readonly StepTrace[] | null;
  /** Null if no request policy changed the request. */
  policyChanges: readonly PolicyChange[] | null;
}

const NO_CANDIDATES: readonly Candidate[] = [];

export function openTrace(startedMs: number, spanContext: SpanContext | null = null): Trace {
  return {
    startedMs,
    spanContext,
    route: null,
    upstreamRequestId: null,
    candidates: NO_CANDIDATES,
    attempts: [],
    endedWaitsMs: 0,
    firstContentMs: null,
    slotWaitMs: 0,
    waitingSinceMs: null,
    batches: null,
    steps: null,
    policyChanges: null,
  };
}

/** The request is sent in batches to the accounts of one upstream model. */
export function noteBatches(trace: Pick<Trace, "batches">, batches: BatchedRequest): void {
  trace.batches = [...(trace.batches ?? []), batches];
}

/** Includes the current wait: a client may disconnect while it waits. */
export function waitedMs(trace: Trace, nowMs: number): number {
  const { endedWaitsMs, waitingSinceMs } = trace;
  return waitingSinceMs === null ? endedWaitsMs : endedWaitsMs + Math.round(nowMs - waitingSinceMs);
}

export function endWait(trace: Trace, nowMs: number): void {
  trace.endedWaitsMs = waitedMs(trace, nowMs);
  trace.waitingSinceMs = null;
}

/** How the request for an account differs from the client's. */
export interface RequestChanges {
  /** The dialect that it was translated into; null if it passes through. */
  readonly dialect: Dialect | null;
  readonly dropped: readonly string[];
  /** The conversation carries opaque state that the account cannot use. */
  readonly isStateDropped: boolean;
}

const NONE_DROPPED: readonly string[] = [];
export const UNCHANGED: RequestChanges = { dialect: null, dropped: NONE_DROPPED, isStateDropped: false };

interface AttemptStart {
  /** Absent or null if the request has no fallback. */
  readonly step?: { readonly number: number; readonly group: string } | null;
  readonly route: AccountRoute;
  readonly changes: RequestChanges;
  readonly nowMs: number;
}

export function beginAttempt(trace: Trace, { route, changes, nowMs, step }: AttemptStart): void {
  trace.route = route;
  trace.upstreamRequestId = null;
  const attempt: AttemptTrace = {
    accountId: route.account.id,
    accountName: route.account.name,
    upstreamModel: route.upstreamModel,
    startedMs: Math.round(nowMs - trace.startedMs),
    firstByteMs: null,
    endedMs: null,
    status: null,
    failure: null,
    reason: null,
  };
  if (step != null) attempt.step = { number: step.number, group: step.group };
  if (changes.dialect !== null) attempt.translation = changes.dialect;
  if (changes.dropped.length > 0) attempt.dropped = changes.dropped;
  if (changes.isStateDropped) attempt.stateDropped = true;
  trace.attempts.push(attempt);
}

/** What the account of the attempt, or the client, cannot express was left out. */
export function noteDropped({ attempts }: Trace, dropped: readonly string[]): void {
  const last = attempts.at(-1);
  if (last) last.dropped = [...(last.dropped ?? NONE_DROPPED), ...dropped];
}

/** The last account received the request in another dialect. */
export function isTranslated({ attempts }: Trace): boolean {
  return attempts.at(-1)?.translation !== undefined;
}

/** The fields that were dropped for the last account. */
export function droppedFields({ attempts }: Trace): readonly string[] {
  return attempts.at(-1)?.dropped ?? NONE_DROPPED;
}

/** The header lines that continue the distributed trace at the upstream of the last attempt. */
export function traceLines({ spanContext, attempts }: Trace): string {
  return spanContext === null ? "" : spanContext.headerLines(attempts.length - 1);
}

/** The account has begun to respond. */
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
  if (failure.usage !== undefined) last.usage = failure.usage;
}

/** An account has received the request and has not failed. */
export function hasOpenAttempt({ attempts }: Trace): boolean {
  const last = attempts.at(-1);
  return last !== undefined && last.failure === null;
}

/** An account has received the request, whatever came of it. */
export function hasReachedUpstream({ attempts }: Trace): boolean {
  return attempts.some(({ failure }) => failure !== "connect");
}

/** Since the request was received. */
export function firstByteMs({ attempts }: Trace): number | null {
  return attempts.at(-1)?.firstByteMs ?? null;
}

/** The time to first byte of the last attempt, without the waits before it. */
export function latencyMs({ attempts }: Trace): number {
  const last = attempts.at(-1);
  return last === undefined || last.firstByteMs === null ? 0 : last.firstByteMs - last.startedMs;
}

/** One account, one attempt, no wait, no trace of the client: the usage row contains everything. */
export function isOrdinary(trace: Trace, nowMs: number): boolean {
  const { candidates, attempts } = trace;
  return (
    candidates.length === 0 &&
    trace.policyChanges === null &&
    !hasLeftStep(trace) &&
    clientTraceId(trace) === null &&
    waitedMs(trace, nowMs) === 0 &&
    attempts.length <= 1 &&
    attempts[0]?.translation === undefined &&
    attempts[0]?.failure == null
  );
}

function hasLeftStep({ steps }: Trace): boolean {
  return steps?.some(({ number, result }) => number > 0 || result !== "served") ?? false;
}

function clientTraceId({ spanContext }: Trace): string | null {
  return spanContext === null || spanContext.parentSpanId === null ? null : spanContext.traceId;
}

/** Enough to identify the limit. A long message of an upstream is truncated. */
const REJECTION_CHARS_MAX = 500;

export function traceRecord(trace: Trace, nowMs: number, rejection: string | null = null): DispatchTrace {
  const traceId = clientTraceId(trace);
  return {
    waitedMs: waitedMs(trace, nowMs),
    ...(trace.slotWaitMs === 0 ? {} : { slotWaitMs: trace.slotWaitMs }),
    candidates: trace.candidates,
    attempts: trace.attempts,
    ...(hasLeftStep(trace) ? { steps: trace.steps ?? [] } : {}),
    ...(trace.policyChanges === null ? {} : { policyChanges: trace.policyChanges }),
    ...(rejection === null ? {} : { rejection: rejection.slice(0, REJECTION_CHARS_MAX) }),
    ...(traceId === null ? {} : { traceId }),
  };
}
