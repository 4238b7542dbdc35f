/**
 * Finds an account that serves the request. Until content has been delivered a failure is invisible to the
 * client: the next account is tried, never the same one twice, and only the last failure is told.
 */

import type { ApiError } from "../errors.ts";
import { type Answer, readAnswer } from "../interfaces/answer.ts";
import type { Endpoint, ModelRequest } from "../interfaces/request.ts";
import type { StreamReader } from "../interfaces/stream.ts";
import type { Audience } from "../interfaces/upstream-error.ts";
import type { Log } from "../observe/log.ts";
import type { Route } from "../policy/snapshot.ts";
import { chooseRoute } from "../pool/choose.ts";
import {
  classifyError,
  clientError,
  failed,
  mayTryAnother,
  type UpstreamFailure,
} from "../upstreams/failure.ts";
import { upstreamRequestId } from "../upstreams/headers.ts";
import { type Client, clientGone, type Outbound, readWhole, send } from "./send.ts";
import { openUpstreamStream, type UpstreamStream } from "./upstream-stream.ts";

export interface Dispatcher extends Outbound {
  random(): number;
  monotonicMs(): number;
  log: Log;
  timing: {
    firstByteTimeoutMs: number;
    unaryTimeoutMs: number;
    /** Bound on holding life-cycle events back. */
    keepAliveMs: number;
  };
  attemptsMax: number;
  eventBytesMax: number;
  jsonDepthMax: number;
}

export interface Order {
  requestId: string;
  endpoint: Endpoint;
  request: ModelRequest;
  routes: readonly Route[];
  clientHeaders: Headers;
  client: Client;
  /** A fresh reader for each attempt: what a failed one read counts for nothing. */
  openReader(): StreamReader;
  /** Filled as it goes, for the record. */
  trace: Trace;
}

export interface Trace {
  attempts: number;
  route: Route | null;
  firstByteAtMs: number | null;
  upstreamRequestId: string | null;
}

export type WholeAnswer = Extract<Answer, { kind: "answer" }>;

export type Delivery =
  | { kind: "answer"; answer: WholeAnswer; upstreamHeaders: Headers }
  | { kind: "stream"; stream: UpstreamStream };

type Attempt = Delivery | { kind: "failed"; failure: UpstreamFailure };

/** Rejects with the `ApiError` for the client when no account could serve the request. */
export async function dispatch(dispatcher: Dispatcher, order: Order): Promise<Delivery> {
  const tried = new Set<Route>();
  let last: ApiError | null = null;
  while (tried.size < dispatcher.attemptsMax) {
    const route = chooseRoute(order.routes, tried, dispatcher.random);
    if (route === null) break;
    tried.add(route);
    order.trace.attempts = tried.size;
    order.trace.route = route;
    const attempt = await tryRoute(dispatcher, order, route);
    if (attempt.kind !== "failed") return attempt;
    if (order.client.signal.aborted) throw clientGone();
    note(dispatcher.log, order, route, attempt.failure);
    last = clientError(attempt.failure, audienceOf(order.request, route));
    if (!mayTryAnother(attempt.failure)) break;
  }
  throw last ?? clientError(failed("connect", "no account"), audienceOf(order.request, null));
}

export function audienceOf(request: ModelRequest, route: Route | null): Audience {
  return {
    publicModel: request.publicModel,
    upstreamModel: route?.upstreamModel ?? request.publicModel,
    mentions: request.body.mentions,
  };
}

async function tryRoute(dispatcher: Dispatcher, order: Order, route: Route): Promise<Attempt> {
  const { request, endpoint, trace } = order;
  const { timing } = dispatcher;
  const rendered = request.body.forUpstream(route.upstreamModel);
  const content = rendered instanceof Promise ? await rendered : rendered;
  const sent = await send(dispatcher, {
    account: route.account,
    method: "POST",
    path: endpoint.path,
    upstreamModel: route.upstreamModel,
    clientHeaders: order.clientHeaders,
    body: { contentType: request.body.contentType, content },
    wantsEvents: request.stream,
    deadlineMs: request.stream ? timing.firstByteTimeoutMs : timing.unaryTimeoutMs,
    client: order.client,
  });
  if (sent.kind === "failed") return sent;
  const { response, hangUp } = sent;
  trace.firstByteAtMs = dispatcher.monotonicMs();
  trace.upstreamRequestId = upstreamRequestId(response.headers);
  const wrongType = checkContentType(response, request.stream);
  if (wrongType !== null) {
    hangUp.abort();
    hangUp.settle();
    return { kind: "failed", failure: wrongType };
  }
  if (!request.stream) {
    const bytes = await readWhole(dispatcher, response, hangUp, order.client);
    return bytes instanceof Uint8Array
      ? digestWhole(bytes, order, route, response.headers, dispatcher.jsonDepthMax)
      : { kind: "failed", failure: bytes };
  }
  hangUp.stopDeadline();
  if (response.body === null)
    return { kind: "failed", failure: failed("bad_answer", "a stream without a body") };
  const opened = await openUpstreamStream({
    body: response.body,
    reader: order.openReader(),
    abort: hangUp.abort,
    eventBytesMax: dispatcher.eventBytesMax,
    holdMs: timing.keepAliveMs,
    monotonicMs: dispatcher.monotonicMs,
  });
  hangUp.settle();
  return opened.kind === "open" ? { kind: "stream", stream: opened.stream } : opened;
}

function digestWhole(
  bytes: Uint8Array,
  order: Order,
  route: Route,
  upstreamHeaders: Headers,
  depthMax: number,
): Attempt {
  const answer = readAnswer(bytes, order.endpoint.name, audienceOf(order.request, route), depthMax);
  switch (answer.kind) {
    case "answer":
      return { kind: "answer", answer, upstreamHeaders };
    case "error":
      return { kind: "failed", failure: classifyError(200, answer.error, null) };
    case "malformed":
      return { kind: "failed", failure: failed("bad_answer", "the answer is not a JSON object", 200) };
  }
}

/** A portal's HTML page or a stream nobody asked for must never pass as an answer. */
function checkContentType(response: Response, stream: boolean): UpstreamFailure | null {
  const type = response.headers.get("content-type") ?? "";
  const wanted = stream ? "text/event-stream" : "application/json";
  if (!type.toLowerCase().startsWith(wanted))
    return failed("bad_answer", "wrong content type", response.status);
  if (stream && (response.headers.get("content-encoding") ?? "identity") !== "identity") {
    return failed("bad_answer", "a packed stream", response.status);
  }
  return null;
}

function note(log: Log, order: Order, route: Route, failure: UpstreamFailure): void {
  log.warn("attempt_failed", {
    request_id: order.requestId,
    account_id: route.account.id,
    model: order.request.publicModel,
    attempt: order.trace.attempts,
    class: failure.class,
    status: failure.status,
    reason: failure.reason,
  });
}
