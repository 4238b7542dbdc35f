/** The last stops: an account is found, and what it says reaches the client, recorded before it is final. */

import { ApiError } from "../errors.ts";
import { openStreamReader } from "../interfaces/open-stream-reader.ts";
import type { Endpoint, ModelRequest } from "../interfaces/request.ts";
import type { Route } from "../policy/snapshot.ts";
import type { UsageRow } from "../store/usage.ts";
import { brokenOffError } from "../upstreams/failure.ts";
import { headersDown } from "../upstreams/headers.ts";
import type { Caller } from "./authenticate.ts";
import { audienceOf, dispatch, type Order } from "./dispatch.ts";
import type { Call, Gateway } from "./gateway.ts";
import type { CallRecord } from "./record.ts";
import { relay, type StreamEnd } from "./relay.ts";
import type { UpstreamStream } from "./upstream-stream.ts";

/** An admitted request and all that belongs to it. */
export interface Passage {
  gateway: Gateway;
  call: Call;
  endpoint: Endpoint;
  caller: Caller;
  request: ModelRequest;
  routes: readonly Route[];
  record: CallRecord;
}

export async function deliverAnswer(passage: Passage): Promise<Response> {
  const { gateway, call, request, record } = passage;
  const delivery = await dispatch(gateway.dispatcher, orderFor(passage));
  if (delivery.kind !== "answer") throw new Error("a whole answer was asked for and a stream came");
  const { answer } = delivery;
  const pending = answer.status === "queued" || answer.status === "in_progress";
  const responseId = rememberResponse(passage, answer.responseId, pending);
  record.close({
    outcome: pending ? "pending" : outcomeOf(answer.status),
    status: 200,
    error: null,
    usage: answer.usage,
    images: answer.images,
    responseId,
  });
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "x-request-id": call.requestId,
  };
  headersDown(delivery.upstreamHeaders, headers);
  await request.body.dispose();
  return new Response(answer.body, { headers });
}

export async function deliverStream(passage: Passage): Promise<Response> {
  const { gateway, call, caller, endpoint, request, record } = passage;
  const order = orderFor(passage);
  const waitingSinceMs = gateway.clock.monotonicMs();
  const opening = openStream(passage, order);
  // An answer that begins soon, as nearly all do, can still be refused with a plain status.
  const early = await settledWithin(opening, gateway.timing.keepAliveMs);
  if (early instanceof ApiError && !isToldInStream(early, endpoint)) throw early;
  const body = relay({
    opening,
    spareReader: order.openReader(),
    requestId: call.requestId,
    onDisconnect: caller.group.onDisconnect,
    needsDataEvents: isCodex(call.request.headers),
    describeFailure: (failure) => brokenOffError(failure, audienceOf(request, record.trace.route)),
    settle(end) {
      settleStream(passage, end);
      void request.body.dispose();
    },
    cutOff: call.cutOff,
    waitingSinceMs,
    pulse: gateway.pulse,
    monotonicMs: gateway.clock.monotonicMs,
    timing: gateway.timing,
  });
  return new Response(body, { headers: eventStreamHeaders(call.requestId) });
}

export function eventStreamHeaders(requestId: string): Record<string, string> {
  return {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    "x-request-id": requestId,
  };
}

function orderFor({ gateway, call, endpoint, request, routes, record }: Passage): Order {
  return {
    requestId: call.requestId,
    endpoint,
    request,
    routes,
    clientHeaders: call.request.headers,
    client: call.request,
    openReader: () =>
      openStreamReader(endpoint, request, {
        nowMs: gateway.clock.nowMs,
        depthMax: gateway.dispatcher.jsonDepthMax,
      }),
    trace: record.trace,
  };
}

async function openStream(passage: Passage, order: Order): Promise<UpstreamStream> {
  const delivery = await dispatch(passage.gateway.dispatcher, order);
  if (delivery.kind !== "stream") throw new Error("a stream was asked for and a whole answer came");
  // Known from its first event on, so that a long-running response can be cancelled by its id.
  rememberResponse(passage, delivery.stream.reader.responseId, false);
  return delivery.stream;
}

/** Codex compacts its context on this error, but only when it comes as an event. */
function isToldInStream(error: ApiError, endpoint: Endpoint): boolean {
  return error.code === "context_length_exceeded" && endpoint.name === "responses";
}

function isCodex(headers: Headers): boolean {
  return (headers.get("originator") ?? headers.get("user-agent") ?? "").startsWith("codex");
}

function settleStream(passage: Passage, end: StreamEnd): void {
  const { reader } = end;
  const responseId = rememberResponse(passage, reader?.responseId ?? null, false);
  passage.record.close({
    outcome: streamOutcome(end),
    status: 200,
    error: end.kind === "broken" ? end.error : null,
    usage: reader?.usage ?? null,
    images: reader?.images ?? 0,
    responseId,
  });
}

function streamOutcome(end: StreamEnd): UsageRow["outcome"] {
  switch (end.kind) {
    case "client_gone":
      return "client_gone";
    case "broken":
      return end.cut ? "upstream_cut" : "failed";
    case "complete":
      return end.reader.outcome;
  }
}

/** Makes a response that the upstream keeps findable by its id; null when it keeps none. */
function rememberResponse(passage: Passage, responseId: string | null, pending: boolean): string | null {
  const { gateway, call, caller, request, record } = passage;
  const { route } = record.trace;
  if (responseId === null || route === null || !request.keepsResponse) return null;
  gateway.responses.remember(responseId, {
    requestId: call.requestId,
    keyId: caller.key.id,
    accountId: route.account.id,
    publicModel: request.publicModel,
    upstreamModel: route.upstreamModel,
    pending,
  });
  return responseId;
}

function outcomeOf(status: string | null): UsageRow["outcome"] {
  switch (status) {
    case "incomplete":
    case "failed":
    case "cancelled":
      return status;
    default:
      return "completed";
  }
}

/** The error if the work failed in time, "open" if it succeeded in time, "waiting" otherwise. */
async function settledWithin(work: Promise<unknown>, ms: number): Promise<ApiError | "open" | "waiting"> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const waiting = new Promise<"waiting">((resolve) => {
    timer = setTimeout(() => resolve("waiting"), ms);
  });
  const settled = work.then(
    () => "open" as const,
    (thrown: unknown) => {
      if (thrown instanceof ApiError) return thrown;
      throw thrown;
    },
  );
  try {
    return await Promise.race([settled, waiting]);
  } finally {
    clearTimeout(timer);
  }
}
