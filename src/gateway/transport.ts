/**
 * The transport of a request: HTTP, or a turn on a WebSocket. Only receiving the request and sending the response
 * differ; the pipeline in between is the same.
 */

import { forwardedResponseHeaders } from "../accounts/headers.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import { type Part, wholePart } from "../base/parts.ts";
import type { ApiError } from "../errors.ts";
import type { ResponseHeaders } from "../net/http-client/contract.ts";
import {
  type HeaderLines,
  HeaderWriter,
  type HttpResponse,
  StreamedResponse,
  type StreamSink,
  type StreamSource,
  WholeResponse,
} from "../net/wire/http-message.ts";
import type { ModelRequest } from "../protocols/shared/request.ts";
import { authenticate, type Caller } from "./admission/authenticate.ts";
import { addRateHeaders } from "./admission/caller-limits.ts";
import { freeBody, isCostlyBody } from "./bodies/body.ts";
import type { Call, HttpCall } from "./call.ts";
import { openReader } from "./delivery/build-dispatch-request.ts";
import { type CostReport, costHeaderLines, readCostReport, withCostComment } from "./delivery/cost-report.ts";
import { buildErrorResponse, EVENT_STREAM_LINES, JSON_LINES } from "./endpoints/error-response.ts";
import type { Gateway } from "./gateway.ts";
import { claimRequest, type IdempotencyClaimResult } from "./idempotency/idempotent-requests.ts";
import { droppedFields, type Trace } from "./request/trace.ts";
import type {
  AdmittedRequest,
  AuthenticatedRequest,
  RequestContext,
  ReservedRequest,
} from "./request-context.ts";
import { formatChanges } from "./request-policy/apply-request-policy.ts";
import type { Relay } from "./stream/relay.ts";
import { WaitingStream } from "./stream/waiting-stream.ts";
import type { WholeUpstreamResult } from "./upstream/dispatch.ts";
import { waitWithin } from "./wait-within.ts";

export interface Transport<C extends Call, Out> {
  identify(gateway: Gateway, call: C): Caller;
  /** True if the caller's limits must be reserved before the body is read. */
  hasCostlyBody(call: C): boolean;
  /** Called when the request waits before its body is read. */
  deferBody(call: C): void;
  read(gateway: Gateway, context: AuthenticatedRequest<C>): MaybePromise<ModelRequest>;
  /** Null if the client sent no idempotency key. */
  claim(gateway: Gateway, context: ReservedRequest<C>): Promise<IdempotencyClaimResult<Out>> | null;
  /** How long a stream that has not begun can still be rejected instead of ended by an error event. */
  rejectableMs(gateway: Gateway): number;
  sendWhole(gateway: Gateway, context: ReservedRequest<C>, result: WholeDelivery): Out;
  sendStream(gateway: Gateway, context: ReservedRequest<C>, stream: ClientStream): Out;
  /** A stream whose request still waits for its limits: keep-alives, then its response. */
  keepWaiting(gateway: Gateway, context: AdmittedRequest<C>, wait: LimitWait<Out>): Promise<Out>;
  /** The rejection has the form of the endpoint's interface. */
  reject(context: RequestContext<C>, error: ApiError): Out;
}

/** A whole response on its way to the client. */
interface WholeDelivery extends WholeUpstreamResult {
  /** Null if the cost is not reported. */
  readonly cost: CostReport | null;
}

interface ClientStream {
  readonly relay: Relay;
  /** The headers of the account's response; null if the account has not responded yet. */
  readonly upstreamHeaders: ResponseHeaders | null;
}

interface LimitWait<Out> {
  readonly serving: Promise<Out>;
  /** Settles a request that fails after its response has begun. */
  close(cause: unknown): Promise<ApiError>;
}

export const HTTP: Transport<HttpCall, HttpResponse> = {
  identify: ({ policy, auth }, call) => authenticate(call.request.headers, policy.snapshot(), auth, call),
  hasCostlyBody: ({ request }) => isCostlyBody(request),
  deferBody: ({ request }) => request.body?.defer(),
  read({ requests }, { call, endpoint, caller, capture }) {
    const reader = capture === null ? requests : requests.observedBy((body) => capture.addBody(body));
    return reader.read(call.request, endpoint, caller.key);
  },
  claim: ({ idempotency }, context) => claimRequest(idempotency, context),
  rejectableMs: ({ timing }) => timing.keepAliveMs,
  sendWhole(gateway, context, { response, upstreamHeaders, cost }) {
    const headers = openHeaders(gateway, context, JSON_LINES);
    addStepHeaders(headers, context);
    headers.lines += buildForwardedHeaders(context, upstreamHeaders);
    if (cost !== null) headers.lines += costHeaderLines(cost);
    return new WholeResponse(200, headers.lines, response.body);
  },
  sendStream(gateway, context, { relay, upstreamHeaders }) {
    const headers = openHeaders(gateway, context, EVENT_STREAM_LINES);
    addStepHeaders(headers, context);
    if (upstreamHeaders !== null) headers.lines += buildForwardedHeaders(context, upstreamHeaders);
    return new StreamedResponse(headers.lines, endingAsSettled(gateway, relay, context));
  },
  keepWaiting,
  reject(context, error) {
    const { call, endpoint, trace, fallback, caller } = context;
    const { status, headers, body } = buildErrorResponse(error, call.requestId, endpoint.api);
    const lines = new HeaderWriter(headers);
    addPolicyHeader(lines, trace);
    // An error that ends all steps is that of the requested target, and names what became of each step.
    if (caller !== null && fallback !== null && fallback.step !== null)
      addStepHeaders(lines, { fallback, caller });
    return new WholeResponse(status, lines.lines, body);
  },
};

/** The headers that every response of an admitted request has. */
function openHeaders(
  { limiter }: Gateway,
  { call, endpoint, subjects, trace }: AdmittedRequest,
  contentLines: HeaderLines,
): HeaderWriter {
  const headers = new HeaderWriter(contentLines);
  headers.set("x-request-id", call.requestId);
  const dropped = droppedFields(trace);
  if (dropped.length > 0) headers.set("x-gateway-dropped", dropped.join(","));
  addPolicyHeader(headers, trace);
  const { requestIdHeader } = endpoint.api;
  if (requestIdHeader !== null) headers.set(requestIdHeader, call.requestId);
  addRateHeaders(headers, limiter, subjects);
  return headers;
}

function addPolicyHeader(headers: HeaderWriter, { policyChanges }: Pick<Trace, "policyChanges">): void {
  if (policyChanges !== null) headers.set("x-gateway-policy", formatChanges(policyChanges));
}

/** Which step of a request with fallback has served or rejected it: 0 for the requested model in the key's group. */
function addStepHeaders(
  headers: HeaderWriter,
  { fallback, caller }: Pick<AuthenticatedRequest, "fallback" | "caller">,
): void {
  if (fallback === null) return;
  headers.set("x-gateway-group", caller.group.name);
  headers.set("x-gateway-step", String(fallback.step?.number ?? 0));
  if (fallback.reason !== null) headers.set("x-gateway-fallback-reason", fallback.reason);
}

function buildForwardedHeaders(
  { request, trace }: ReservedRequest,
  upstreamHeaders: ResponseHeaders,
): HeaderLines {
  return forwardedResponseHeaders(upstreamHeaders, request.publicModel, trace.upstreamRequestId);
}

/** A request whose wait is short can still be rejected with an HTTP status. */
async function keepWaiting(
  gateway: Gateway,
  context: AdmittedRequest<HttpCall>,
  { serving, close }: LimitWait<HttpResponse>,
): Promise<HttpResponse> {
  const { clock, dispatcher, inFlight, keepAliveTimer } = gateway;
  const waitingSinceMs = clock.monotonicMs();
  const { keepAliveMs } = gateway.timing;
  const earlyResult = await waitWithin(serving, keepAliveMs, dispatcher.deadlines);
  if (earlyResult !== "waiting") return serving;
  // The request stays in flight until it is served, although this response has begun.
  inFlight.begin();
  const source = new WaitingStream({
    serving,
    close,
    describe: (error) => wholePart(openReader(gateway, context, null).failure(error, context.call.requestId)),
    onEnd: inFlight.end,
    keepAlive: context.endpoint.api.keepAlive,
    waitingSinceMs,
    keepAliveMs,
    keepAliveTimer,
  });
  return new StreamedResponse(openHeaders(gateway, context, EVENT_STREAM_LINES).lines, source);
}

/**
 * Adds the cost to the last event if the group reports it. Frees the request body when the response is written, unless
 * a background response still needs the body for token counting.
 */
function endingAsSettled(gateway: Gateway, relay: Relay, context: ReservedRequest): StreamSource {
  const reportsCost = context.caller.group.costHeaders;
  return {
    flowTo: (sink) =>
      relay.flowTo({
        data: (parts) => sink.data(parts),
        end(last) {
          if (reportsCost) void endWithCost(gateway, context, { sink, last });
          else sink.end(last);
          if (context.followUp === null) freeBody(context.request);
        },
        fail: (thrown) => sink.fail(thrown),
      }),
    pause: () => relay.pause(),
    resume: () => relay.resume(),
    abort: () => relay.abort(),
  };
}

async function endWithCost(
  gateway: Gateway,
  context: ReservedRequest,
  { sink, last }: { readonly sink: StreamSink; readonly last: readonly Part[] },
): Promise<void> {
  const cost = await readCostReport(gateway, context);
  sink.end(cost === null ? last : withCostComment(last, cost));
}
