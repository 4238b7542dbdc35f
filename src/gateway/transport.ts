/** How a call comes in and its answer goes out: by HTTP, or as a turn on a socket. What lies between is the same. */

import type { ApiError } from "../errors.ts";
import type { Endpoint, ModelRequest } from "../interfaces/request.ts";
import {
  type Answer,
  type HeaderLines,
  HeaderWriter,
  StreamAnswer,
  type StreamSource,
} from "../wire/http-message.ts";
import { EVENT_STREAM_LINES, errorAnswer } from "./answers.ts";
import { authenticate, type Caller } from "./authenticate.ts";
import { freeBody, isCostlyBody } from "./body.ts";
import { deliverAnswer, deliverStream, type Passage } from "./deliver.ts";
import type { Call, Gateway, HttpCall } from "./gateway.ts";
import { addRateHeaders } from "./own-limits.ts";
import type { Relay } from "./relay.ts";
import { type Claimed, claimRequest } from "./repeats.ts";

export interface Transport<C extends Call, Out> {
  identify(gateway: Gateway, call: C): Caller;
  /** True where the caller's limits are to be taken before the body is read. */
  hasCostlyBody(call: C): boolean;
  read(gateway: Gateway, call: C, endpoint: Endpoint, caller: Caller): Promise<ModelRequest> | ModelRequest;
  /** Null where the client asks for no protection against repeats. */
  claim(passage: Passage<C>): Promise<Claimed<Out>> | null;
  deliver(passage: Passage<C>): Promise<Out>;
  refuse(call: C, error: ApiError): Out;
}

export const HTTP: Transport<HttpCall, Answer> = {
  identify: ({ policy, auth }, call) => authenticate(call.request.headers, policy.snapshot(), auth, call),
  hasCostlyBody: ({ request }) => isCostlyBody(request),
  read: (gateway, call, endpoint, { key }) => gateway.requests.read(call.request, endpoint, key),
  claim: claimRequest,
  deliver: (passage) =>
    passage.request.stream
      ? deliverStream(passage, passage.gateway.timing.keepAliveMs, respond)
      : deliverAnswer(passage),
  refuse: (call, error) => errorAnswer(error, call.requestId),
};

function respond(
  { gateway, call, subjects, request }: Passage,
  relay: Relay,
  linesDown: HeaderLines,
): Answer {
  const headers = new HeaderWriter(EVENT_STREAM_LINES);
  headers.set("x-request-id", call.requestId);
  addRateHeaders(headers, gateway.limiter, subjects);
  headers.lines += linesDown;
  return new StreamAnswer(headers.lines, freeingAtEnd(relay, request));
}

/** Frees the request's body once the answer is written. If the client leaves first, the body may still be counted. */
function freeingAtEnd(relay: Relay, request: ModelRequest): StreamSource {
  return {
    flowTo: (sink) =>
      relay.flowTo({
        write: (parts) => sink.write(parts),
        end(last) {
          sink.end(last);
          freeBody(request);
        },
      }),
    leave: relay.leave,
  };
}
