/** The last stops: an account is found, and what it says reaches the client, recorded before it is final. */

import type { Alarms } from "../alarms.ts";
import { ApiError } from "../errors.ts";
import { sessionOf } from "../interfaces/conversation.ts";
import { openStreamReader } from "../interfaces/open-stream-reader.ts";
import type { Endpoint, ModelRequest } from "../interfaces/request.ts";
import type { TokenUsage } from "../interfaces/usage.ts";
import type { Lease, Subject } from "../limits/limiter.ts";
import type { Route } from "../policy/snapshot.ts";
import type { UsageRow } from "../store/usage.ts";
import { brokenOffError } from "../upstreams/failure.ts";
import { headersDown } from "../upstreams/headers.ts";
import type { Caller } from "./authenticate.ts";
import { audienceOf, dispatch } from "./dispatch.ts";
import type { Call, Gateway } from "./gateway.ts";
import type { Order } from "./order.ts";
import { rateHeaders } from "./own-limits.ts";
import type { Place } from "./place.ts";
import type { CallRecord } from "./record.ts";
import { bodyOf, openRelay, type StreamEnd } from "./relay.ts";
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
  /** What the caller's own limits granted. */
  subjects: readonly Subject[];
  lease: Lease;
}

export async function deliverAnswer(passage: Passage): Promise<Response> {
  const { gateway, call, request, record } = passage;
  const delivery = await dispatch(gateway.dispatcher, orderFor(passage));
  if (delivery.kind !== "answer") throw new Error("a whole answer was asked for and a stream came");
  const { answer } = delivery;
  delivery.place.release(settleOwn(passage, answer.usage));
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
    ...rateHeaders(gateway.limiter, passage.subjects),
  };
  headersDown(delivery.upstreamHeaders, headers);
  await request.body.dispose();
  return new Response(answer.body, { headers });
}

export async function deliverStream(passage: Passage): Promise<Response> {
  const { gateway, call, caller, endpoint, request, record } = passage;
  const order = orderFor(passage);
  const waitingSinceMs = gateway.clock.monotonicMs();
  const seat = openSeat(passage);
  const opening = openStream(passage, order, seat);
  // An answer that begins soon, as nearly all do, can still be refused with a plain status.
  const early = await settledWithin(opening, gateway.timing.keepAliveMs, gateway.dispatcher.alarms);
  if (early instanceof ApiError && !isToldInStream(early, endpoint)) throw early;
  const relay = openRelay({
    opening,
    openSpareReader: order.openReader,
    requestId: call.requestId,
    onDisconnect: caller.group.onDisconnect,
    needsDataEvents: isCodex(call.request.headers),
    describeFailure: (failure) => brokenOffError(failure, audienceOf(request, record.trace.route)),
    settle(end) {
      seat.leave(end.reader?.usage ?? null);
      settleStream(passage, end);
      void request.body.dispose();
    },
    cutOff: call.cutOff,
    waitingSinceMs,
    pulse: gateway.pulse,
    monotonicMs: gateway.clock.monotonicMs,
    timing: gateway.timing,
  });
  return new Response(bodyOf(relay), {
    headers: { ...eventStreamHeaders(call.requestId), ...rateHeaders(gateway.limiter, passage.subjects) },
  });
}

/** The place at an account that a stream holds, from when it is found until the upstream has ended. */
interface Seat {
  take(place: Place, stream: UpstreamStream | null): void;
  leave(usage: TokenUsage | null): void;
}

function openSeat(passage: Passage): Seat {
  let taken: Place | null = null;
  let upstream: UpstreamStream | null = null;
  let gone = false;
  return {
    take(place, stream) {
      taken = place;
      upstream = stream;
      // The client left while the account was being found.
      if (gone) place.release(null);
    },
    leave(usage) {
      gone = true;
      const tokens = settleOwn(passage, usage);
      // Counted as the upstream counts: its last event is not yet its end.
      const closing = upstream?.closing() ?? null;
      if (closing === null) taken?.release(tokens);
      else void closing.then(() => taken?.release(tokens));
    },
  };
}

/** The caller's own limits are told the truth, if it is known. */
function settleOwn({ lease }: Passage, usage: TokenUsage | null): number | null {
  const tokens = usage === null ? null : usage.inputTokens + usage.outputTokens;
  if (tokens !== null) lease.settle(tokens);
  lease.release();
  return tokens;
}

export function eventStreamHeaders(requestId: string): Record<string, string> {
  return {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    "x-request-id": requestId,
  };
}

function orderFor({ gateway, call, caller, endpoint, request, routes, record }: Passage): Order {
  const { key, group } = caller;
  return {
    requestId: call.requestId,
    keyId: key.id,
    groupId: group.id,
    queue: group.queue,
    affinity: routes.length > 1 ? affinityOf(key.id, call.request.headers, request) : null,
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

/** Always within one key: nobody shares another's conversation, nor its account by it. */
function affinityOf(keyId: string, headers: Headers, request: ModelRequest): string | null {
  const conversation = sessionOf(headers) ?? request.conversation();
  if (conversation === null) return null;
  // The pool remembers names, and how long they are is up to the client.
  const name = conversation.length > NAME_CHARS_MAX ? Bun.hash(conversation).toString(36) : conversation;
  return `${keyId} ${name}`;
}

const NAME_CHARS_MAX = 64;

async function openStream(passage: Passage, order: Order, seat: Seat): Promise<UpstreamStream> {
  const delivery = await dispatch(passage.gateway.dispatcher, order);
  seat.take(delivery.place, delivery.kind === "stream" ? delivery.stream : null);
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
  const { route } = passage.record.trace;
  if (reader !== null && reader.badEvents > 0) {
    passage.gateway.log.warn("bad_events", {
      request_id: passage.call.requestId,
      account_id: route?.account.id ?? null,
      events: reader.badEvents,
    });
  }
  if (route !== null && end.kind === "complete") passage.gateway.dispatcher.pool.finished(route);
  if (route !== null && end.kind === "broken" && end.cut !== null) {
    passage.gateway.dispatcher.pool.brokeOff(route, end.cut);
  }
  // Upstream it goes on in the background: its usage is taken down when somebody asks for it.
  const pending = passage.request.background && end.kind !== "complete";
  const responseId = rememberResponse(passage, reader?.responseId ?? null, pending);
  passage.record.close({
    outcome: pending && responseId !== null ? "pending" : streamOutcome(end),
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
      return end.cut === null ? "failed" : "upstream_cut";
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
function settledWithin(
  work: Promise<unknown>,
  ms: number,
  alarms: Alarms,
): Promise<ApiError | "open" | "waiting"> {
  return new Promise((resolve, reject) => {
    const late = alarms.set(ms, () => resolve("waiting"));
    work.then(
      () => {
        alarms.cancel(late);
        resolve("open");
      },
      (thrown: unknown) => {
        alarms.cancel(late);
        if (thrown instanceof ApiError) resolve(thrown);
        else reject(thrown);
      },
    );
  });
}
