/** How a call comes in and its answer goes out: by HTTP, or as a turn on a socket. What lies between is the same. */

import type { IdempotencyClaim } from "../billing/idempotency.ts";
import { type ApiError, errorResponse } from "../errors.ts";
import type { Endpoint, ModelRequest } from "../interfaces/request.ts";
import { authenticate, type Caller } from "./authenticate.ts";
import { freeBody } from "./body.ts";
import { deliverAnswer, deliverStream, type Passage } from "./deliver.ts";
import type { Call, Gateway, HttpCall } from "./gateway.ts";
import { addRateHeaders } from "./own-limits.ts";
import { bodyOf, type Relay } from "./relay.ts";
import { claimRequest } from "./repeats.ts";

export interface Transport<C extends Call, Out> {
  identify(gateway: Gateway, call: C): Caller;
  read(gateway: Gateway, call: C, endpoint: Endpoint): Promise<ModelRequest> | ModelRequest;
  /** Null where the client asks for no protection against repeats. */
  claim(
    gateway: Gateway,
    call: C,
    caller: Caller,
    endpoint: Endpoint,
    request: ModelRequest,
  ): Promise<Claimed<Out>> | null;
  deliver(passage: Passage<C>): Promise<Out>;
  refuse(call: C, error: ApiError): Out;
}

export type Claimed<Out> =
  | { kind: "first"; claim: IdempotencyClaim | null }
  | { kind: "repeat"; answer: Out };

export const HTTP: Transport<HttpCall, Response> = {
  identify: ({ policy, auth }, call) => authenticate(call.request.headers, policy.snapshot(), auth, call),
  read: (gateway, call, endpoint) => gateway.requests.read(call.request, endpoint),
  claim: (gateway, call, caller, endpoint, request) =>
    call.request.headers.has("idempotency-key")
      ? claimByHttp(gateway, call, caller, endpoint, request)
      : null,
  deliver: (passage) =>
    passage.request.stream
      ? deliverStream(passage, passage.gateway.timing.keepAliveMs, respond)
      : deliverAnswer(passage),
  refuse: (call, error) => errorResponse(error, call.requestId),
};

async function claimByHttp(
  gateway: Gateway,
  call: HttpCall,
  caller: Caller,
  endpoint: Endpoint,
  request: ModelRequest,
): Promise<Claimed<Response>> {
  const claimed = await claimRequest(gateway, call, caller, endpoint, request);
  return claimed instanceof Response
    ? { kind: "repeat", answer: claimed }
    : { kind: "first", claim: claimed };
}

function respond({ gateway, call, subjects, request }: Passage, relay: Relay): Response {
  const response = eventStream(
    bodyOf(relay, () => freeBody(request)),
    call.requestId,
  );
  addRateHeaders(response.headers, gateway.limiter, subjects);
  return response;
}

/** Copied with every answer, at half the cost of headers that are made for it. */
const EVENT_STREAM_HEADERS = new Headers({
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
});

export function eventStream(body: ReadableStream<Uint8Array>, requestId: string): Response {
  const response = new Response(body, { headers: EVENT_STREAM_HEADERS });
  response.headers.set("x-request-id", requestId);
  return response;
}
