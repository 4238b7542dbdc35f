/** The record of one request: filled at each step of the pipeline and closed once at the end, for every outcome. */

import type { IdempotencyClaim } from "../billing/idempotency/idempotency.ts";
import type { ApiError } from "../errors.ts";
import type { LimitLease } from "../limits/limiter.ts";
import type { Clock } from "../net/wire/clock.ts";
import type { PublishedModel } from "../policy/snapshot.ts";
import type { Endpoint, ModelRequest } from "../protocols/shared/request.ts";
import type { TokenUsage } from "../protocols/shared/usage.ts";
import type { UsageMoney, UsageRow } from "../store/usage/usage-row.ts";
import type { Caller } from "./admission/authenticate.ts";
import type { RequestCharge } from "./charging/charge.ts";
import type { WindowBudget } from "./charging/window-budget.ts";
import type { Call } from "./gateway.ts";
import type { CountedOutput } from "./metering/counted-output.ts";
import type { MeasuredUsage } from "./metering/meter.ts";
import { firstByteMs, isOrdinary, openTrace, type Trace, traceRecord, waitedMs } from "./request/trace.ts";
import type { AccountSlot } from "./upstream/account-slot.ts";

export interface RequestEnding {
  outcome: UsageRow["outcome"];
  status: number;
  error: ApiError | null;
  usage: TokenUsage | null;
  images: number;
  /** Size and quality of those images, as the upstream reports them (`image-kind.ts`). */
  imageKind: string | null;
  responseId: string | null;
  /** An account processed the request for the client, so the request is charged. */
  isServed: boolean;
  /**
   * The response was read to its end, whether or not the client was still connected. False if it broke off or was
   * cancelled.
   */
  isWhole: boolean;
  /** Counts the received text, for upstreams that report no usage; null for responses without text. */
  countOutput: (() => Promise<CountedOutput>) | null;
  /** Estimates the streamed text synchronously; null for responses that are not streamed as text. */
  estimateShown: (() => CountedOutput) | null;
  /**
   * The client disconnected before the end. Output that it did not receive is estimated and charged if the group
   * charges.
   */
  isAbandoned: boolean;
}

export interface RequestRecord {
  readonly call: Call;
  readonly endpoint: Endpoint;
  readonly trace: Trace;
  caller: Caller | null;
  request: ModelRequest | null;
  model: PublishedModel | null;
  charge: RequestCharge | null;
  /**
   * The limit reservation of the caller; that of the account is in `place`. Both are settled to the use in the usage
   * row.
   */
  lease: LimitLease | null;
  place: AccountSlot | null;
  /** The maximum cost against the caller's USD windows; null if the caller has none. */
  budget: WindowBudget | null;
  /** The maximum output tokens of each choice, if a USD window affords fewer than the client requested. */
  windowCap: number | null;
  claim: IdempotencyClaim | null;
  /** A stream can end in several ways at once: the first one counts. */
  isClosed: boolean;
  /**
   * For a response that continues upstream: resolves when the response is settled. The request body is needed until
   * then.
   */
  following: Promise<void> | null;
}

export function openRecord(call: Call, endpoint: Endpoint): RequestRecord {
  return {
    call,
    endpoint,
    trace: openTrace(call.startedMs),
    caller: null,
    request: null,
    model: null,
    charge: null,
    lease: null,
    place: null,
    budget: null,
    windowCap: null,
    claim: null,
    isClosed: false,
    following: null,
  };
}

/** Records by progress of their requests: authenticated, body read, hold taken. */
export type AuthenticatedRecord = RequestRecord & { caller: Caller };
export type ReadRecord = AuthenticatedRecord & { request: ModelRequest };
export type PaidRecord = ReadRecord & { charge: RequestCharge };

export function isAuthenticated(record: RequestRecord): record is AuthenticatedRecord {
  return record.caller !== null;
}

export function isRead(record: AuthenticatedRecord): record is ReadRecord {
  return record.request !== null;
}

export function isPaid(record: ReadRecord): record is PaidRecord {
  return record.charge !== null;
}

export function buildUsageRow(
  record: AuthenticatedRecord,
  ending: RequestEnding,
  { tokens, source }: MeasuredUsage,
  money: UsageMoney,
  clock: Clock,
): UsageRow {
  const { call, caller, endpoint, request, trace } = record;
  const nowMs = clock.monotonicMs();
  // Written field by field: object spread with this many fields takes several times as long, on every request.
  return {
    requestId: call.requestId,
    requestCount: 1,
    atMs: clock.nowMs(),
    keyId: caller.key.id,
    userId: caller.key.userId,
    groupId: caller.group.id,
    accountId: trace.route?.account.id ?? null,
    interface: endpoint.interface,
    endpoint: endpoint.name,
    publicModel: request?.publicModel ?? "",
    upstreamModel: trace.route?.upstreamModel ?? null,
    stream: request?.stream ?? false,
    status: ending.status,
    outcome: ending.outcome,
    errorCode: ending.error?.code ?? null,
    inputTokens: tokens.inputTokens,
    cachedTokens: tokens.cachedTokens,
    cacheWriteTokens: tokens.cacheWriteTokens,
    outputTokens: tokens.outputTokens,
    reasoningTokens: tokens.reasoningTokens,
    imageInputTokens: tokens.imageInputTokens,
    audioInputTokens: tokens.audioInputTokens,
    audioOutputTokens: tokens.audioOutputTokens,
    images: tokens.images,
    usageSource: source,
    attempts: trace.attempts.length,
    firstByteMs: firstByteMs(trace),
    waitMs: waitedMs(trace, nowMs),
    trace: traceText(trace, ending.error, nowMs),
    durationMs: Math.round(nowMs - call.startedMs),
    responseId: ending.responseId,
    upstreamRequestId: trace.upstreamRequestId,
    costNano: money.costNano,
    chargedNano: money.chargedNano,
    upstreamNano: money.upstreamNano,
    payer: money.payer,
    tariffId: money.tariffId,
    flags: money.flags,
  };
}

function traceText(trace: Trace, error: ApiError | null, nowMs: number): string | null {
  if (error === null && isOrdinary(trace, nowMs)) return null;
  return JSON.stringify(traceRecord(trace, nowMs, error?.message ?? null));
}
