/** Exports the spans of a request: one for the request, and one for each attempt with what the model used. */

import type { Clock } from "../../base/clock.ts";
import { NO_TOKENS } from "../../money/token-counts.ts";
import { hasFailed } from "../../observe/traffic.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { readSession } from "../../protocols/shared/conversation-name.ts";
import { NO_FACTS, type ResponseFacts } from "../../protocols/shared/response-facts.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { SpanContext } from "../../telemetry/span-context.ts";
import { stringAttribute, toBytes } from "../../telemetry/span-text.ts";
import type { SpanSource, SpanWriter } from "../../telemetry/span-writer.ts";
import type { Tracer } from "../../telemetry/tracer.ts";
import { type AttemptTrace, type Trace, waitedMs } from "../request/trace.ts";
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

interface TracedRequest {
  readonly row: RequestEnd;
  readonly describeResponse?: RequestEnding["describeResponse"];
}

/** Returns whether the spans are exported. */
export function exportSpans(
  tracer: Tracer,
  context: RequestContext,
  { row: end, describeResponse }: TracedRequest,
): boolean {
  const { spanContext, attempts } = context.trace;
  if (spanContext === null) return false;
  const isError = hasFailed(end);
  if (!tracer.isExported(spanContext, { durationMs: end.durationMs, isError })) return false;
  // Read now: the response must not be kept until the spans are sent.
  const facts = describeResponse?.() ?? NO_FACTS;
  const spans = new RequestSpans(tracer, context, { spanContext, end, facts, isError });
  tracer.exporter.add(spans, 1 + attempts.length);
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

interface TracedEnd {
  readonly spanContext: SpanContext;
  readonly end: RequestEnd;
  readonly facts: ResponseFacts;
  /** The gateway or an upstream failed, not the client. */
  readonly isError: boolean;
}

class RequestSpans implements SpanSource {
  readonly #tracer: Tracer;
  readonly #context: RequestContext;
  readonly #spanContext: SpanContext;
  readonly #end: RequestEnd;
  readonly #facts: ResponseFacts;
  readonly #isError: boolean;

  constructor(tracer: Tracer, context: RequestContext, { spanContext, end, facts, isError }: TracedEnd) {
    this.#tracer = tracer;
    this.#context = context;
    this.#spanContext = spanContext;
    this.#end = end;
    this.#facts = facts;
    this.#isError = isError;
  }

  writeSpans(writer: SpanWriter): void {
    this.#writeServerSpan(writer);
    const { attempts } = this.#context.trace;
    for (const [index, attempt] of attempts.entries()) {
      writer.comma();
      this.#writeClientSpan(writer, attempt, index);
    }
  }

  #writeServerSpan(writer: SpanWriter): void {
    const { call, caller, endpoint, model, trace } = this.#context;
    const { traceId, spanId, parentSpanId, isSampled } = this.#spanContext;
    const end = this.#end;
    const { head, ending } = endpointPieces(endpoint);
    const userAgent = call.request.headers.get("user-agent");
    writer.start({
      requestId: call.requestId,
      traceId,
      spanId,
      parentSpanId,
      head:
        isSampled && parentSpanId === null ? head.usual : head.withFlags(isSampled, parentSpanId !== null),
      startMs: end.atMs - end.durationMs,
      endMs: end.atMs,
    });
    writer.piece(ending.get(end.status, end.outcome, trace.attempts.length));
    if (caller !== null) writer.piece(callerAttributes(caller));
    // A name that is not published is text of the client, and would be one more value for each typing error.
    if (model !== null) writer.piece(modelAttribute(model));
    if (userAgent !== null) writer.piece(userAgentAttribute(userAgent));
    // The gateway does not terminate TLS. Only a proxy knows that the client used it.
    writer.piece(call.request.headers.get("x-forwarded-proto") === "https" ? HTTPS : HTTP);
    if (call.socketTurn !== null) writer.piece(WEBSOCKET);
    if (this.#tracer.hasClientAddress) writer.string("clientAddress", call.clientAddress());
    if (end.waitMs > 0) writer.int("waitMs", end.waitMs);
    if (end.costNano > 0n) writer.int("costNano", Number(end.costNano));
    if (end.errorCode !== null) writer.string("errorType", end.errorCode);
    writer.end(this.#isError);
  }

  #writeClientSpan(writer: SpanWriter, attempt: AttemptTrace, index: number): void {
    const { call, endpoint, request, routes, trace } = this.#context;
    const { traceId, spanId, isSampled } = this.#spanContext;
    const end = this.#end;
    const isLast = index === trace.attempts.length - 1;
    const pieces = routePieces(endpoint, attempt, isLast ? trace.route : findRoute(routes, attempt));
    const requestStartMs = end.atMs - end.durationMs;
    const isServing = isLast && attempt.failure === null;
    const hasFault = attempt.failure !== null || (isServing && this.#isError);
    writer.start({
      requestId: call.requestId,
      traceId,
      spanId: this.#spanContext.attemptSpanId(index),
      parentSpanId: spanId,
      head: isSampled ? pieces.head.usual : pieces.head.withFlags(false, false),
      startMs: requestStartMs + attempt.startedMs,
      endMs: requestStartMs + (attempt.endedMs ?? end.durationMs),
    });
    writer.piece(pieces.attempt.get(index + 1, attempt.status, request?.stream ?? false));
    writeRequest(writer, this.#context);
    if (attempt.firstByteMs !== null)
      writer.seconds("timeToFirstChunk", attempt.firstByteMs - attempt.startedMs);
    if (isServing) {
      writeFacts(writer, this.#facts, end);
      writeResult(writer, trace, end);
    }
    if (hasFault) writer.string("errorType", attempt.failure ?? end.errorCode ?? end.outcome);
    writer.end(hasFault);
  }
}

const HTTP = toBytes(stringAttribute("urlScheme", "http"));
const HTTPS = toBytes(stringAttribute("urlScheme", "https"));
const WEBSOCKET = toBytes(stringAttribute("protocolName", "websocket"));

function findRoute(routes: readonly AccountRoute[], attempt: AttemptTrace): AccountRoute | null {
  const isSame = ({ account, upstreamModel }: AccountRoute) =>
    account.id === attempt.accountId && upstreamModel === attempt.upstreamModel;
  return routes.find(isSame) ?? null;
}

function writeRequest(writer: SpanWriter, { call, request }: RequestContext): void {
  if (request === null) return;
  const conversation = readSession(call.request.headers) ?? request.previousResponseId;
  if (request.outputTokensMax !== null) writer.int("requestTokensMax", request.outputTokensMax);
  if (request.choices > 1) writer.int("requestChoices", request.choices);
  if (conversation !== null) writer.string("conversationId", conversation);
}

function writeFacts(
  writer: SpanWriter,
  { id, model, finishReasons }: ResponseFacts,
  { responseId }: RequestEnd,
): void {
  const anyId = responseId ?? id;
  if (anyId !== null) writer.string("responseId", anyId);
  if (model !== null) writer.string("responseModel", model);
  if (finishReasons.length > 0) writer.strings("finishReasons", finishReasons);
}

/** Input tokens include cached ones, and output tokens include reasoning, as the conventions define them. */
function writeResult(writer: SpanWriter, { upstreamRequestId }: Trace, end: RequestEnd): void {
  if (upstreamRequestId !== null) writer.string("upstreamRequestId", upstreamRequestId);
  if (end.usageSource === "none") return;
  writer.int("inputTokens", end.inputTokens);
  writer.int("outputTokens", end.outputTokens);
  if (end.cachedTokens > 0) writer.int("cacheReadTokens", end.cachedTokens);
  if (end.cacheWriteTokens > 0) writer.int("cacheCreationTokens", end.cacheWriteTokens);
  if (end.reasoningTokens > 0) writer.int("reasoningTokens", end.reasoningTokens);
}
