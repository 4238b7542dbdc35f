/** Exports the spans of a request: one for the request, and one for each attempt with what the model used. */

import { KINDS } from "../../accounts/kinds/table.ts";
import type { Clock } from "../../base/clock.ts";
import { NO_TOKENS } from "../../money/token-counts.ts";
import { hasFailed } from "../../observe/traffic.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { readSession } from "../../protocols/shared/conversation-name.ts";
import { NO_FACTS, type ResponseFacts } from "../../protocols/shared/response-facts.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import { findProvider, OPERATION_BY_INTERFACE } from "../../telemetry/attribute-names.ts";
import {
  AttributeList,
  ERROR_STATUS,
  SPAN_KIND,
  type Span,
  type SpanAttribute,
  spanFlags,
  toNanoseconds,
} from "../../telemetry/span.ts";
import type { SpanContext } from "../../telemetry/span-context.ts";
import type { Tracer } from "../../telemetry/tracer.ts";
import type { AttemptRecord } from "../request/attempt-trace.ts";
import { waitedMs } from "../request/trace.ts";
import type { RequestContext } from "../request-context.ts";
import type { RequestEnding } from "./request-ending.ts";

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

interface EndedRequest {
  readonly row: RequestEnd;
  readonly describeResponse?: RequestEnding["describeResponse"];
}

/** A request with all that its spans are built from. */
interface TracedRequest {
  readonly context: RequestContext;
  readonly spanContext: SpanContext;
  readonly end: RequestEnd;
  readonly facts: ResponseFacts;
  /** The gateway or an upstream failed, not the client. */
  readonly isError: boolean;
  readonly hasClientAddress: boolean;
}

/** Returns whether the spans are exported. */
export function exportSpans(
  tracer: Tracer,
  context: RequestContext,
  { row: end, describeResponse }: EndedRequest,
): boolean {
  const { spanContext, attempts } = context.trace;
  if (spanContext === null) return false;
  const isError = hasFailed(end);
  if (!tracer.isExported(spanContext, { durationMs: end.durationMs, isError })) return false;
  const { hasClientAddress } = tracer;
  const facts = describeResponse?.() ?? NO_FACTS;
  const request = { context, spanContext, end, facts, isError, hasClientAddress };
  const spans = [buildServerSpan(request)];
  for (const [index, attempt] of attempts.entries())
    spans.push(buildClientSpan(request, attempt.toRecord(), index));
  tracer.exporter.add(spans);
  return true;
}

/** A request without a valid key has no usage row. It is exported if its trace is sampled. */
export function exportUnauthenticatedSpan(
  tracer: Tracer,
  context: RequestContext,
  { ending, clock }: { readonly ending: RequestEnding; readonly clock: Clock },
): void {
  const nowMs = clock.monotonicMs();
  const row: RequestEnd = {
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
  };
  exportSpans(tracer, context, { row });
}

function buildServerSpan({ context, spanContext, end, isError, hasClientAddress }: TracedRequest): Span {
  const { call, caller, endpoint, model, trace } = context;
  const { traceId, spanId, parentSpanId, isSampled } = spanContext;
  const { headers } = call.request;
  const route = `/v1${endpoint.path}`;
  const attributes = new AttributeList();
  attributes.text("requestId", call.requestId);
  attributes.text("httpMethod", "POST");
  attributes.text("httpRoute", route);
  attributes.text("urlPath", route);
  attributes.int("httpStatus", end.status);
  attributes.text("outcome", end.outcome);
  attributes.int("attempts", trace.attempts.length);
  if (context.fallback !== null) {
    attributes.int("fallbackStep", context.fallback.step?.number ?? 0);
    attributes.text("fallbackReason", context.fallback.reason);
  }
  if (caller !== null) {
    attributes.text("keyId", caller.key.publicId);
    attributes.text("userId", caller.key.userId);
    attributes.text("group", caller.group.name);
  }
  // A name that is not published is text of the client, and would be one more value for each typing error.
  if (model !== null) attributes.text("publicModel", model.id);
  attributes.text("userAgent", headers.get("user-agent"));
  // The gateway does not terminate TLS. Only a proxy knows that the client used it.
  attributes.text("urlScheme", headers.get("x-forwarded-proto") === "https" ? "https" : "http");
  if (call.socketTurn !== null) attributes.text("protocolName", "websocket");
  if (hasClientAddress) attributes.text("clientAddress", call.clientAddress());
  attributes.count("waitMs", end.waitMs);
  attributes.count("costNano", Number(end.costNano));
  attributes.text("errorType", end.errorCode);
  return {
    traceId,
    spanId,
    parentSpanId: parentSpanId ?? undefined,
    flags: spanFlags(isSampled, parentSpanId === null ? "local" : "remote"),
    name: `POST ${route}`,
    kind: SPAN_KIND.server,
    startTimeUnixNano: toNanoseconds(end.atMs - end.durationMs),
    endTimeUnixNano: toNanoseconds(end.atMs),
    attributes: attributes.items,
    status: isError ? ERROR_STATUS : undefined,
  };
}

function buildClientSpan(request: TracedRequest, attempt: AttemptRecord, index: number): Span {
  const { context, spanContext, end, isError } = request;
  const { endpoint, routes, trace } = context;
  const isLast = index === trace.attempts.length - 1;
  const isServing = isLast && attempt.failure === null;
  const hasFault = attempt.failure !== null || (isServing && isError);
  const operation = OPERATION_BY_INTERFACE[endpoint.interface];
  const requestStartMs = end.atMs - end.durationMs;
  const attributes = new AttributeList();
  attributes.text("requestId", context.call.requestId);
  attributes.text("operation", operation.name);
  attributes.text("requestModel", attempt.upstreamModel);
  attributes.text("account", attempt.accountName);
  attributes.text("outputType", operation.outputType);
  addAddress(attributes, isLast ? trace.route : findRoute(routes, attempt));
  attributes.int("attempt", index + 1);
  if (attempt.step !== undefined) {
    attributes.text("group", attempt.step.group);
    attributes.int("fallbackStep", attempt.step.number);
  }
  attributes.int("httpStatus", attempt.status);
  addRequest(attributes, context);
  if (attempt.firstByteMs !== null)
    attributes.seconds("timeToFirstChunk", attempt.firstByteMs - attempt.startedMs);
  if (isServing) addResponse(attributes, request);
  if (hasFault) attributes.text("errorType", attempt.failure ?? end.errorCode ?? end.outcome);
  return {
    traceId: spanContext.traceId,
    spanId: spanContext.attemptSpanId(index),
    parentSpanId: spanContext.spanId,
    flags: spanFlags(spanContext.isSampled, "local"),
    name: `${operation.name} ${attempt.upstreamModel}`,
    kind: SPAN_KIND.client,
    startTimeUnixNano: toNanoseconds(requestStartMs + attempt.startedMs),
    endTimeUnixNano: toNanoseconds(requestStartMs + (attempt.endedMs ?? end.durationMs)),
    attributes: attributes.items,
    status: hasFault ? ERROR_STATUS : undefined,
  };
}

function findRoute(routes: readonly AccountRoute[], attempt: AttemptRecord): AccountRoute | null {
  const isSame = ({ account, upstreamModel }: AccountRoute) =>
    account.id === attempt.accountId && upstreamModel === attempt.upstreamModel;
  return routes.find(isSame) ?? null;
}

/** The same routes serve nearly all requests, and parsing a URL takes as long as the rest of a span. */
const addresses = new WeakMap<AccountRoute, readonly SpanAttribute[]>();

/** `route` is null if the policy has changed since the attempt. */
function addAddress(attributes: AttributeList, route: AccountRoute | null): void {
  if (route === null) return;
  let address = addresses.get(route);
  if (address === undefined) {
    address = describeAddress(route);
    addresses.set(route, address);
  }
  for (const item of address) attributes.items.push(item);
}

function describeAddress({ account }: AccountRoute): readonly SpanAttribute[] {
  const { hostname, port, protocol } = new URL(account.baseUrl);
  const usualPort = protocol === "https:" ? 443 : 80;
  const attributes = new AttributeList();
  attributes.text("provider", KINDS[account.kind].provider ?? findProvider(account.kind, hostname));
  attributes.text("serverAddress", hostname);
  attributes.int("serverPort", port === "" ? usualPort : Number(port));
  return attributes.items;
}

function addRequest(attributes: AttributeList, { call, request }: RequestContext): void {
  attributes.flag("requestStream", request?.stream ?? false);
  if (request === null) return;
  attributes.int("requestTokensMax", request.outputTokensMax);
  if (request.choices > 1) attributes.int("requestChoices", request.choices);
  attributes.text("conversationId", readSession(call.request.headers) ?? request.previousResponseId);
}

/** Input tokens include cached ones, and output tokens include reasoning, as the conventions define them. */
function addResponse(attributes: AttributeList, { context, end, facts }: TracedRequest): void {
  attributes.text("responseId", end.responseId ?? facts.id);
  attributes.text("responseModel", facts.model);
  if (facts.finishReasons.length > 0) attributes.texts("finishReasons", facts.finishReasons);
  attributes.text("upstreamRequestId", context.trace.upstreamRequestId);
  if (end.usageSource === "none") return;
  attributes.int("inputTokens", end.inputTokens);
  attributes.int("outputTokens", end.outputTokens);
  attributes.count("cacheReadTokens", end.cachedTokens);
  attributes.count("cacheCreationTokens", end.cacheWriteTokens);
  attributes.count("reasoningTokens", end.reasoningTokens);
}
