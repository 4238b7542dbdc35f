/** The trace of one request: what dispatch did, recorded to explain it later. */

import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Candidate } from "../../pool/pool.ts";
import type { PolicyChange } from "../../protocols/request-policy/policy-body.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { SpanContext } from "../../telemetry/span-context.ts";
import { type AttemptRecord, type AttemptStart, AttemptTrace } from "./attempt-trace.ts";

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
  attempts: readonly AttemptRecord[];
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

const NO_CANDIDATES: readonly Candidate[] = [];

/** The trace of a request in flight. Times are on the monotonic clock. */
export class Trace {
  readonly startedMs: number;
  /** The place of the request in its distributed trace; null if spans are not exported. */
  readonly spanContext: SpanContext | null;
  candidates: readonly Candidate[] = NO_CANDIDATES;
  /** Completed waits. `waitedMs()` adds the current one. */
  endedWaitsMs = 0;
  /** When the first content of a stream arrived, since the request was received; null if there is none. */
  firstContentMs: number | null = null;
  /** The part of them that was for the caller's concurrency limit. */
  slotWaitMs = 0;
  waitingSinceMs: number | null = null;
  /**
   * The batches of the request, for each upstream model that was tried; null if it is sent whole. With fallback, those of
   * the step in progress.
   */
  batches: BatchedRequest[] | null = null;
  /** Null without fallback. */
  steps: readonly StepTrace[] | null = null;
  /** Null if no request policy changed the request. */
  policyChanges: readonly PolicyChange[] | null = null;
  readonly #attempts: AttemptTrace[] = [];

  constructor(startedMs: number, spanContext: SpanContext | null) {
    this.startedMs = startedMs;
    this.spanContext = spanContext;
  }

  get attempts(): readonly AttemptTrace[] {
    return this.#attempts;
  }

  get lastAttempt(): AttemptTrace | null {
    return this.#attempts.at(-1) ?? null;
  }

  /** The account of the last attempt. */
  get route(): AccountRoute | null {
    return this.lastAttempt?.route ?? null;
  }

  /** The id of the request at the account of the last attempt. */
  get upstreamRequestId(): string | null {
    return this.lastAttempt?.upstreamRequestId ?? null;
  }

  beginAttempt(start: AttemptStart): AttemptTrace {
    const attempt = new AttemptTrace(this.startedMs, start);
    this.#attempts.push(attempt);
    return attempt;
  }
}

export function openTrace(startedMs: number, spanContext: SpanContext | null = null): Trace {
  return new Trace(startedMs, spanContext);
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

/** The last account received the request in another dialect. */
export function isTranslated({ lastAttempt }: Trace): boolean {
  return lastAttempt?.isTranslated === true;
}

/** The fields that were dropped for the last account. */
export function droppedFields({ lastAttempt }: Trace): readonly string[] {
  return lastAttempt?.dropped ?? NONE_DROPPED;
}

const NONE_DROPPED: readonly string[] = [];

/** The header lines that continue the distributed trace at the upstream of the last attempt. */
export function traceLines({ spanContext, attempts }: Trace): string {
  return spanContext === null ? "" : spanContext.headerLines(attempts.length - 1);
}

/** An account has received the request and has not failed. */
export function hasOpenAttempt({ lastAttempt }: Trace): boolean {
  return lastAttempt !== null && lastAttempt.phase !== "failed";
}

/** An account has received the request, whatever came of it. */
export function hasReachedUpstream({ attempts }: Trace): boolean {
  return attempts.some(({ failure }) => failure !== "connect");
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
    !isTranslated(trace) &&
    attempts[0]?.phase !== "failed"
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
    attempts: trace.attempts.map((attempt) => attempt.toRecord()),
    ...(hasLeftStep(trace) ? { steps: trace.steps ?? [] } : {}),
    ...(trace.policyChanges === null ? {} : { policyChanges: trace.policyChanges }),
    ...(rejection === null ? {} : { rejection: rejection.slice(0, REJECTION_CHARS_MAX) }),
    ...(traceId === null ? {} : { traceId }),
  };
}
