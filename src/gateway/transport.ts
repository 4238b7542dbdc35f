/**
 * The transport of a request: HTTP, or a turn on a WebSocket. Only receiving the request and sending the response
 * differ; the pipeline in between is the same.
 */

import type { ApiError } from "../errors.ts";
import {
  type HeaderLines,
  HeaderWriter,
  type HttpResponse,
  StreamedResponse,
  type StreamSource,
} from "../net/wire/http-message.ts";
import { wholePart } from "../net/wire/parts.ts";
import { openStreamReader } from "../protocols/open-stream-reader.ts";
import type { Endpoint, ModelRequest } from "../protocols/shared/request.ts";
import { authenticate, type Caller } from "./admission/authenticate.ts";
import { addRateHeaders } from "./admission/caller-limits.ts";
import { deliverStream, deliverWholeResponse } from "./deliver.ts";
import { buildErrorResponse, EVENT_STREAM_LINES } from "./endpoints/responses.ts";
import type { Call, Gateway, HttpCall } from "./gateway.ts";
import { claimRequest, type IdempotencyClaimResult } from "./idempotency/idempotent-requests.ts";
import { freeBody, isCostlyBody } from "./request/body.ts";
import type { RequestContext } from "./request-context.ts";
import type { RequestRecord } from "./request-record.ts";
import type { Relay } from "./stream/relay.ts";
import { WaitingStream } from "./stream/waiting-stream.ts";
import { waitWithin } from "./upstream/wait-within.ts";

export interface Transport<C extends Call, Out> {
  identify(gateway: Gateway, call: C): Caller;
  /** True if the caller's limits must be reserved before the body is read. */
  hasCostlyBody(call: C): boolean;
  /** Called when the request waits before its body is read. */
  deferBody(call: C): void;
  read(gateway: Gateway, call: C, endpoint: Endpoint, caller: Caller): Promise<ModelRequest> | ModelRequest;
  /** Null if the client sent no idempotency key. */
  claim(context: RequestContext<C>): Promise<IdempotencyClaimResult<Out>> | null;
  deliver(context: RequestContext<C>): Promise<Out>;
  /**
   * Returns the response to a stream whose request still waits for its limits: keep-alives until `serving` resolves,
   * then its response. `close` closes the record of a request that fails after its response has begun.
   */
  keepWaiting(
    waiting: WaitingRequest<C>,
    serving: Promise<Out>,
    close: (cause: unknown) => Promise<ApiError>,
  ): Promise<Out>;
  refuse(call: C, error: ApiError): Out;
}

export type WaitingRequest<C extends Call> = Omit<RequestContext<C>, "lease">;

export const HTTP: Transport<HttpCall, HttpResponse> = {
  identify: ({ policy, auth }, call) => authenticate(call.request.headers, policy.snapshot(), auth, call),
  hasCostlyBody: ({ request }) => isCostlyBody(request),
  deferBody: ({ request }) => request.body?.defer(),
  read: (gateway, call, endpoint, { key }) => gateway.requests.read(call.request, endpoint, key),
  claim: claimRequest,
  deliver: (context) =>
    context.request.stream
      ? deliverStream(context, context.gateway.timing.keepAliveMs, respond)
      : deliverWholeResponse(context),
  keepWaiting,
  refuse: (call, error) => buildErrorResponse(error, call.requestId),
};

/** A request whose wait is short can still be rejected with an HTTP status. */
async function keepWaiting(
  { gateway, call, endpoint, request, subjects }: WaitingRequest<HttpCall>,
  serving: Promise<HttpResponse>,
  close: (cause: unknown) => Promise<ApiError>,
): Promise<HttpResponse> {
  const waitingSinceMs = gateway.clock.monotonicMs();
  const { keepAliveMs } = gateway.timing;
  const earlyResult = await waitWithin(serving, keepAliveMs, gateway.dispatcher.alarms);
  if (earlyResult !== "waiting") return serving;
  // The request stays in flight until it is served, although this response has begun.
  gateway.underWay.begin();
  const source = new WaitingStream({
    serving,
    close,
    describe: (error) => {
      const reader = openStreamReader(endpoint, request, {
        nowMs: gateway.clock.nowMs,
        depthMax: gateway.dispatcher.jsonDepthMax,
        sink: null,
        previousResponseId: null,
      });
      return wholePart(reader.failure(error, call.requestId));
    },
    ended: gateway.underWay.end,
    waitingSinceMs,
    keepAliveMs,
    pulse: gateway.pulse,
  });
  const headers = new HeaderWriter(EVENT_STREAM_LINES);
  headers.set("x-request-id", call.requestId);
  addRateHeaders(headers, gateway.limiter, subjects);
  return new StreamedResponse(headers.lines, source);
}

function respond(
  { gateway, call, subjects, request, record }: RequestContext,
  relay: Relay,
  linesDown: HeaderLines,
): HttpResponse {
  const headers = new HeaderWriter(EVENT_STREAM_LINES);
  headers.set("x-request-id", call.requestId);
  addRateHeaders(headers, gateway.limiter, subjects);
  headers.lines += linesDown;
  return new StreamedResponse(headers.lines, freeingAtEnd(relay, request, record));
}

/**
 * Frees the request body when the response is written, unless a background response still needs the body for token
 * counting.
 */
function freeingAtEnd(relay: Relay, request: ModelRequest, record: RequestRecord): StreamSource {
  return {
    flowTo: (sink) =>
      relay.flowTo({
        write: (parts) => sink.write(parts),
        end(last) {
          sink.end(last);
          if (record.following === null) freeBody(request);
        },
      }),
    leave: relay.leave,
  };
}
