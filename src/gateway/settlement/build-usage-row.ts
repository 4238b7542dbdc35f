/** Builds the usage row of a request: its one lasting record. */

import type { Clock } from "../../base/clock.ts";
import type { ApiError } from "../../errors.ts";
import { NO_FALLBACK, type UsageMoney, type UsageRow } from "../../store/usage/usage-row.ts";
import type { Caller } from "../admission/authenticate.ts";
import type { MeasuredUsage } from "../metering/meter.ts";
import { isOrdinary, type Trace, traceRecord, waitedMs } from "../request/trace.ts";
import type { AuthenticatedRequest } from "../request-context.ts";
import type { RequestEnding } from "./request-ending.ts";

/** What a settled request used and cost. */
interface SettledUse {
  readonly ending: RequestEnding;
  readonly use: Pick<MeasuredUsage, "tokens" | "source">;
  readonly money: UsageMoney;
}

export function buildUsageRow(
  context: AuthenticatedRequest,
  { ending, use, money }: SettledUse,
  clock: Clock,
): UsageRow {
  const { tokens, source } = use;
  const { call, caller, endpoint, request, trace } = context;
  const { requestedGroup, requestedModel, fallbackStep, fallbackReason } =
    context.fallback?.describeServing() ?? NO_FALLBACK;
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
    cacheWrite1hTokens: tokens.cacheWrite1hTokens,
    outputTokens: tokens.outputTokens,
    reasoningTokens: tokens.reasoningTokens,
    imageInputTokens: tokens.imageInputTokens,
    audioInputTokens: tokens.audioInputTokens,
    audioOutputTokens: tokens.audioOutputTokens,
    images: tokens.images,
    webSearches: tokens.webSearches,
    usageSource: source,
    attempts: trace.attempts.length,
    firstByteMs: trace.lastAttempt?.firstByteMs ?? null,
    waitMs: waitedMs(trace, nowMs),
    trace: traceText(trace, explainError(ending.error, caller), nowMs),
    durationMs: Math.round(nowMs - call.startedMs),
    responseId: ending.responseId,
    upstreamRequestId: trace.upstreamRequestId,
    costNano: money.costNano,
    chargedNano: money.chargedNano,
    upstreamNano: money.upstreamNano,
    payer: money.payer,
    tariffId: money.tariffId,
    flags: money.flags,
    requestedGroup,
    requestedModel,
    fallbackStep,
    fallbackReason,
  };
}

function traceText(trace: Trace, rejection: string | null, nowMs: number): string | null {
  if (rejection === null && isOrdinary(trace, nowMs)) return null;
  return JSON.stringify(traceRecord(trace, nowMs, rejection));
}

/** The client gets the error as from the vendor. The operator also sees that a request policy is the reason. */
function explainError(error: ApiError | null, { group }: Pick<Caller, "group">): string | null {
  if (error === null) return null;
  const isForced = group.requestPolicy?.body?.forced.includes("store") === true;
  return error.code === "previous_response_not_found" && isForced
    ? `${error.message} The request policy of this key sets \`store\` to false, so its responses are not stored.`
    : error.message;
}
