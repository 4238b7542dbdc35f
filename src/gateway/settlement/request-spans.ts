/** Exports the spans of a request: one for the request, and one for each attempt with what the model used. */

import { NO_TOKENS } from "../../money/token-counts.ts";
import type { Clock } from "../../net/wire/clock.ts";
import { hasFailed } from "../../observe/traffic.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { readSession } from "../../protocols/shared/conversation.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { SpanContext } from "../../telemetry/span-context.ts";
import { doubleAttribute, intAttribute, spanText, stringAttribute } from "../../telemetry/span-text.ts";
import type { Tracer } from "../../telemetry/tracer.ts";
import { type AttemptTrace, waitedMs } from "../request/trace.ts";
import type { RequestContext } from "../request-context.ts";
import type { RequestEnding } from "./request-ending.ts";
import {
  callerAttributes,
  endpointPieces,
  modelAttribute,
  routePieces,
  userAgentAttribute,
} from "./span-pieces.ts";

/** The end of a request, as its usage row records it. */
export type RequestEnd = Pick<
  UsageRow,
  | "atMs"
  | "durationMs"
  | "status"
  | "outcome"
  | "errorCode"
  | "waitMs"
  | "costNano"
  | "inputTokens"
  | "cachedTokens"
  | "cacheWriteTokens"
  | "outputTokens"
  | "reasoningTokens"
  | "usageSource"
  | "responseId"
>;

/** Returns whether the spans are exported. */
export function exportSpans(tracer: Tracer, context: RequestContext, end: RequestEnd): boolean {
  const { spanContext, attempts } = context.trace;
  if (spanContext === null) return false;
  const isError = hasFailed(end);
  if (!tracer.isExported(spanContext, { durationMs: end.durationMs, isError })) return false;
  const ended: TracedRequest = { context, spanContext, end, isError };
  let text = serverSpan(tracer, ended);
  for (let i = 0; i < attempts.length; i++) text += clientSpan(ended, i);
  tracer.exporter.add(text, 1 + attempts.length);
  return true;
}

/** A request without a valid key has no usage row. It is exported if its trace is sampled. */
export function exportUnauthenticatedSpan(
  tracer: Tracer,
  context: RequestContext,
  { ending, clock }: { readonly ending: RequestEnding; readonly clock: Clock },
): void {
  const nowMs = clock.monotonicMs();
  exportSpans(tracer, context, {
    ...NO_TOKENS,
    atMs: clock.nowMs(),
    durationMs: Math.round(nowMs - context.call.startedMs),
    status: ending.status,
    outcome: ending.outcome,
    errorCode: ending.error?.code ?? null,
    waitMs: waitedMs(context.trace, nowMs),
    costNano: 0n,
    usageSource: "none",
    responseId: null,
  });
}

interface TracedRequest {
  readonly context: RequestContext;
  readonly spanContext: SpanContext;
  readonly end: RequestEnd;
  /** The gateway or an upstream failed, not the client. */
  readonly isError: boolean;
}

function serverSpan(tracer: Tracer, { context, spanContext, end, isError }: TracedRequest): string {
  const { call, caller, endpoint, model, trace } = context;
  const { parentSpanId, isSampled } = spanContext;
  const { head, ending } = endpointPieces(endpoint);
  const userAgent = call.request.headers.get("user-agent");
  let text = ending.get(end.status, end.outcome, trace.attempts.length);
  if (caller !== null) text += callerAttributes(caller);
  // A name that is not published is text of the client, and would be one more value for each typing error.
  if (model !== null) text += modelAttribute(model);
  if (userAgent !== null) text += userAgentAttribute(userAgent);
  if (call.conversation !== null) text += WEBSOCKET;
  if (tracer.hasClientAddress) text += stringAttribute("clientAddress", call.clientAddress());
  if (end.waitMs > 0) text += intAttribute("waitMs", end.waitMs);
  if (end.costNano > 0n) text += intAttribute("costNano", end.costNano);
  if (end.errorCode !== null) text += stringAttribute("errorType", end.errorCode);
  return spanText({
    requestId: call.requestId,
    traceId: spanContext.traceId,
    spanId: spanContext.spanId,
    parentSpanId,
    head: isSampled && parentSpanId === null ? head.usual : head.withFlags(isSampled, parentSpanId !== null),
    startMs: end.atMs - end.durationMs,
    endMs: end.atMs,
    attributes: text,
    isError,
  });
}

const WEBSOCKET = stringAttribute("protocolName", "websocket");

/** Begins with the comma that separates it from the span before it. */
function clientSpan({ context, spanContext, end, isError }: TracedRequest, index: number): string {
  const { call, request, trace } = context;
  const { attempts } = trace;
  const attempt = attempts[index];
  if (attempt === undefined) return "";
  const isLast = index === attempts.length - 1;
  const pieces = routePieces(
    context.endpoint,
    attempt,
    isLast ? trace.route : findRoute(context.routes, attempt),
  );
  const requestStartMs = end.atMs - end.durationMs;
  const isServing = isLast && attempt.failure === null;
  const hasFault = attempt.failure !== null || (isServing && isError);
  let text = pieces.attempt.get(index + 1, attempt.status, request?.stream ?? false);
  text += requestAttributes(context);
  if (attempt.firstByteMs !== null)
    text += doubleAttribute("timeToFirstChunk", (attempt.firstByteMs - attempt.startedMs) / 1_000);
  if (isServing) text += resultAttributes(context, end);
  if (hasFault) text += stringAttribute("errorType", attempt.failure ?? end.errorCode ?? end.outcome);
  const span = spanText({
    requestId: call.requestId,
    traceId: spanContext.traceId,
    spanId: spanContext.attemptSpanId(index),
    parentSpanId: spanContext.spanId,
    head: spanContext.isSampled ? pieces.head.usual : pieces.head.withFlags(false, false),
    startMs: requestStartMs + attempt.startedMs,
    endMs: requestStartMs + (attempt.endedMs ?? end.durationMs),
    attributes: text,
    isError: hasFault,
  });
  return `,${span}`;
}

function findRoute(routes: readonly AccountRoute[], attempt: AttemptTrace): AccountRoute | null {
  const isSame = ({ account, upstreamModel }: AccountRoute) =>
    account.id === attempt.accountId && upstreamModel === attempt.upstreamModel;
  return routes.find(isSame) ?? null;
}

function requestAttributes({ call, request }: RequestContext): string {
  if (request === null) return "";
  const conversation = readSession(call.request.headers) ?? request.previousResponseId;
  let text = "";
  if (request.outputTokensMax !== null) text += intAttribute("requestTokensMax", request.outputTokensMax);
  if (request.choices > 1) text += intAttribute("requestChoices", request.choices);
  if (conversation !== null) text += stringAttribute("conversationId", conversation);
  return text;
}

/** Input tokens include cached ones, and output tokens include reasoning, as the conventions define them. */
function resultAttributes({ trace }: RequestContext, end: RequestEnd): string {
  let text = "";
  if (end.responseId !== null) text += stringAttribute("responseId", end.responseId);
  if (trace.upstreamRequestId !== null) text += stringAttribute("upstreamRequestId", trace.upstreamRequestId);
  if (end.usageSource === "none") return text;
  text += intAttribute("inputTokens", end.inputTokens) + intAttribute("outputTokens", end.outputTokens);
  if (end.cachedTokens > 0) text += intAttribute("cacheReadTokens", end.cachedTokens);
  if (end.cacheWriteTokens > 0) text += intAttribute("cacheCreationTokens", end.cacheWriteTokens);
  if (end.reasoningTokens > 0) text += intAttribute("reasoningTokens", end.reasoningTokens);
  return text;
}
