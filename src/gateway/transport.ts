/** How a call comes in and its answer goes out: by HTTP, or as a turn on a socket. What lies between is the same. */

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
import { EVENT_STREAM_LINES, errorAnswer } from "./endpoints/responses.ts";
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
  /** True where the caller's limits are to be taken before the body is read. */
  hasCostlyBody(call: C): boolean;
  /** The request waits before its body is read. */
  deferBody(call: C): void;
  read(gateway: Gateway, call: C, endpoint: Endpoint, caller: Caller): Promise<ModelRequest> | ModelRequest;
  /** Null where the client asks for no protection against repeats. */
  claim(passage: RequestContext<C>): Promise<IdempotencyClaimResult<Out>> | null;
  deliver(passage: RequestContext<C>): Promise<Out>;
  /**
   * The answer to a stream whose request still waits for its limits: what `serving` brings, and meanwhile whatever keeps
   * its client. `close` ends the record of a request that fails after its answer has begun.
   */
  keepWaiting(
    waiting: WaitingPassage<C>,
    serving: Promise<Out>,
    close: (thrown: unknown) => Promise<ApiError>,
  ): Promise<Out>;
  refuse(call: C, error: ApiError): Out;
}

export type WaitingPassage<C extends Call> = Omit<RequestContext<C>, "lease">;

export const HTTP: Transport<HttpCall, HttpResponse> = {
  identify: ({ policy, auth }, call) => authenticate(call.request.headers, policy.snapshot(), auth, call),
  hasCostlyBody: ({ request }) => isCostlyBody(request),
  deferBody: ({ request }) => request.body?.defer(),
  read: (gateway, call, endpoint, { key }) => gateway.requests.read(call.request, endpoint, key),
  claim: claimRequest,
  deliver: (passage) =>
    passage.request.stream
      ? deliverStream(passage, passage.gateway.timing.keepAliveMs, respond)
      : deliverWholeResponse(passage),
  keepWaiting,
  refuse: (call, error) => errorAnswer(error, call.requestId),
};

/** A wait that ends soon can still be rejected with a plain status. */
async function keepWaiting(
  { gateway, call, endpoint, request, subjects }: WaitingPassage<HttpCall>,
  serving: Promise<HttpResponse>,
  close: (thrown: unknown) => Promise<ApiError>,
): Promise<HttpResponse> {
  const waitingSinceMs = gateway.clock.monotonicMs();
  const { keepAliveMs } = gateway.timing;
  const early = await waitWithin(serving, keepAliveMs, gateway.dispatcher.alarms);
  if (early !== "waiting") return serving;
  // The request is under way until then, although this answer has begun.
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

/** Frees the request's body once the answer is written, unless it may still be counted. */
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
