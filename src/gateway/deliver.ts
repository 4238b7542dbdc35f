/** The last stops: an account is found, its answer reaches the client, and it is on record before it is final. */

import { interruptedError } from "../accounts/failure.ts";
import { headersDown } from "../accounts/headers.ts";
import { ApiError } from "../errors.ts";
import {
  type HeaderLines,
  HeaderWriter,
  type HttpResponse,
  WholeResponse,
} from "../net/wire/http-message.ts";
import { joinParts, type Part } from "../net/wire/parts.ts";
import { openStreamReader } from "../protocols/open-stream-reader.ts";
import type { Endpoint } from "../protocols/shared/request.ts";
import type { StreamReader } from "../protocols/shared/stream.ts";
import type { UsageRow } from "../store/usage/usage.ts";
import type { Caller } from "./admission/authenticate.ts";
import { addRateHeaders, computeReservedUse } from "./admission/caller-limits.ts";
import { OutputCap, outputCapFor } from "./charging/output-cap.ts";
import { isStopped } from "./endpoints/background.ts";
import { announce, type ResponseState, rememberResponse, settleOrFollow } from "./endpoints/keep-response.ts";
import { JSON_LINES } from "./endpoints/responses.ts";
import { endClaim } from "./idempotency/idempotent-requests.ts";
import { countAnswer } from "./metering/count-request.ts";
import { isWholeCount } from "./metering/meter.ts";
import type { OutputCounter } from "./metering/output-counter.ts";
import { freeBody } from "./request/body.ts";
import { clientRequestId } from "./request/client-request-id.ts";
import { isCodex } from "./request/codex-client.ts";
import { hasOpenAttempt } from "./request/trace.ts";
import type { RequestContext } from "./request-context.ts";
import type { RequestEnding } from "./request-record.ts";
import { type LingeringClient, lingeringClient } from "./stream/drains.ts";
import { isWhole, openRelay, type Relay, type StreamEnd } from "./stream/relay.ts";
import {
  noteReportedUsage,
  openCounters,
  openUnpaidCounters,
  type StreamCounters,
} from "./stream/stream-counters.ts";
import type { AccountSlot } from "./upstream/account-slot.ts";
import { computeAffinity, type UpstreamAttempt } from "./upstream/attempt.ts";
import { dispatch, messageAudience, type UpstreamResult } from "./upstream/dispatch.ts";
import type { Client } from "./upstream/send-request.ts";
import type { UpstreamStream } from "./upstream/upstream-stream.ts";
import { waitWithin } from "./upstream/wait-within.ts";

export async function deliverWholeResponse(passage: RequestContext): Promise<HttpResponse> {
  const { gateway, call, caller, request, record } = passage;
  const drain = caller.group.onDisconnect === "drain" ? lingering(passage) : null;
  const dispatched = dispatch(gateway.dispatcher, orderFor(passage, drain ?? call.request, null));
  const { place, given } = await (drain === null ? dispatched : dispatched.finally(drain.stopLingering));
  if (given.kind !== "answer") throw new Error("a whole answer was asked for and a stream came");
  const { answer } = given;
  record.place = place;
  const pending = answer.status === "queued" || answer.status === "in_progress";
  const responseId = rememberResponse(passage, answer.responseId, pending ? "background" : "ended");
  if (pending) {
    giveBack(passage);
    await announce(passage, responseId);
  }
  const isGone = drain !== null && call.request.signal.aborted;
  const settled = settleOrFollow(passage, pending ? "background" : "ended", {
    outcome: isGone ? "client_gone" : pending ? "pending" : outcomeOf(answer.status),
    status: 200,
    error: null,
    usage: answer.usage,
    images: answer.images,
    imageKind: answer.imageKind,
    responseId,
    isServed: true,
    isWhole: true,
    countOutput:
      isText(passage.endpoint) && !(answer.usage !== null && isWholeCount(answer.usage))
        ? counterOf(answer.body)
        : null,
    estimateShown: null,
    isAbandoned: false,
  });
  giveBack(passage);
  if (settled !== null) await settled;
  if (record.claim !== null) {
    const body = new TextDecoder().decode(joinParts(answer.body));
    await endClaim(gateway, record.claim, { status: 200, contentType: "application/json", body });
  }
  if (record.following === null) {
    void request.body.dispose();
    freeBody(request);
  }
  const headers = new HeaderWriter(JSON_LINES);
  headers.set("x-request-id", call.requestId);
  addRateHeaders(headers, gateway.limiter, passage.subjects);
  headers.lines += linesDown(passage, given);
  return new WholeResponse(200, headers.lines, answer.body);
}

function counterOf(body: readonly Part[]): NonNullable<RequestEnding["countOutput"]> {
  return () => countAnswer(joinParts(body));
}

/** Frees its places in the caller's and the account's concurrency; what it used may be counted later. */
function giveBack({ lease, record }: RequestContext): void {
  lease.release();
  record.place?.release(null);
}

function lingering({ gateway, call, caller }: RequestContext): LingeringClient {
  const { drains, timing, underWay } = gateway;
  const owner = drainOwner(caller);
  return lingeringClient(call.request, owner, drains, timing.drainOnDisconnectMs, underWay);
}

/** Whose share of the drains an answer takes. */
function drainOwner({ key }: Caller): string {
  return key.userId ?? key.id;
}

function linesDown({ request, record }: RequestContext, { upstreamHeaders }: UpstreamResult): HeaderLines {
  return headersDown(upstreamHeaders, request.publicModel, record.trace.upstreamRequestId);
}

/** Whether an answer without usage can be counted. */
function isText(endpoint: Endpoint): boolean {
  return endpoint.interface === "chat" || endpoint.interface === "responses";
}

/**
 * `patienceMs` is how long an answer that has not begun can still be refused as a whole; `handOver` gives the stream to
 * the client, with what its head is told by the account's: nothing, where it is written before that is known.
 */
export async function deliverStream<P extends RequestContext, Out>(
  passage: P,
  patienceMs: number,
  handOver: (passage: P, relay: Relay, linesDown: HeaderLines) => Out,
): Promise<Out> {
  const { gateway, call, caller, endpoint, request, record } = passage;
  const { charge } = record;
  const owner = drainOwner(caller);
  const paid =
    charge !== null && isText(endpoint) ? openCounters(gateway.till, call.requestId, charge) : null;
  const counters = paid ?? (isText(endpoint) ? unpaidCounters(passage) : null);
  const drain = caller.group.onDisconnect === "drain" ? lingering(passage) : null;
  const order = orderFor(passage, drain ?? call.request, counters);
  const waitingSinceMs = gateway.clock.monotonicMs();
  const seat = openSeat(passage);
  const opening = openStream(passage, order, seat);
  if (drain !== null) opening.finally(drain.stopLingering).catch(() => {});
  // An answer that begins soon, as nearly all do, can still be refused with a plain status.
  const early = await waitWithin(opening, patienceMs, gateway.dispatcher.alarms);
  if (early instanceof ApiError && !isToldInStream(early, endpoint)) throw early;
  let stoppedBy: ApiError | null = null;
  const relay = openRelay({
    opening,
    openSpareReader: () => openReader(passage, null),
    requestId: call.requestId,
    get onDisconnect() {
      // What goes on in the background needs no reader: it is asked after by its id.
      return request.background && seat.responseId() !== null ? "cancel" : caller.group.onDisconnect;
    },
    isPaid: charge !== null,
    needsDataEvents: isCodex(call.request.headers),
    describeFailure: (failure) => interruptedError(failure, messageAudience(request, record.trace.route)),
    settle(end) {
      const settled = settleStream(passage, end, counters, stoppedBy);
      // A client that leaves and asks again must not have more made at once than its limits allow.
      seat.leave(end.kind === "client_gone" && !request.background ? record.following : null);
      const { claim } = record;
      // A stream is not kept: a repeat is told that it was served.
      const all =
        claim === null ? settled : Promise.resolve(settled).then(() => endClaim(gateway, claim, null));
      if (all === null) ended();
      else all.then(ended, ended);
      return all;
    },
    checkpoint: paid === null ? null : () => (stoppedBy = paid.checkpoint()),
    mayDrain: () => gateway.drains.enter(owner),
    leftDrain: () => gateway.drains.leave(owner),
    cutOff: () => call.cutOff(),
    waitingSinceMs,
    pulse: gateway.pulse,
    monotonicMs: gateway.clock.monotonicMs,
    timing: gateway.timing,
  });
  const over = gateway.underWay.enter(relay.cut);
  // Not earlier: where the upstream reports no usage, settling counts the input.
  const ended = () => {
    if (record.following === null) void request.body.dispose();
    over();
  };
  if (drain !== null && call.request.signal.aborted) {
    // Nobody will ask for the body any more.
    relay.flowTo({ write: () => null, end() {} });
    relay.leave();
  }
  return handOver(passage, relay, seat.linesDown());
}

/** The place at an account that a stream holds, from when it is found until the upstream has ended. */
interface Seat {
  take(place: AccountSlot, given: UpstreamResult): void;
  /** Headers of the account's answer that the client gets; empty until the seat is taken. */
  linesDown(): HeaderLines;
  /** The id of the response, once the upstream has told it. */
  responseId(): string | null;
  /** The caller's place in its limits is given back when the promise resolves; null: at once. */
  leave(following: Promise<void> | null): void;
}

function openSeat(passage: RequestContext): Seat {
  const { lease, record } = passage;
  let upstream: UpstreamStream | null = null;
  let lines: HeaderLines = "";
  let gone = false;
  return {
    take(place, given) {
      record.place = place;
      upstream = given.kind === "stream" ? given.stream : null;
      lines = linesDown(passage, given);
      // The client left while the account was being found.
      if (gone) place.release(null);
    },
    linesDown: () => lines,
    responseId: () => upstream?.reader.responseId ?? null,
    leave(following) {
      gone = true;
      const { place } = record;
      if (following === null) lease.release();
      else void following.then(() => lease.release());
      // To the upstream the request runs until the connection is done with it, which is later than the last event.
      const closing = upstream?.closing() ?? null;
      if (closing === null) place?.release(null);
      else void closing.then(() => place?.release(null));
    },
  };
}

function unpaidCounters({ record, subjects }: RequestContext): StreamCounters {
  return openUnpaidCounters(record.trace, computeReservedUse(subjects).windows);
}

function orderFor(passage: RequestContext, client: Client, counters: StreamCounters | null): UpstreamAttempt {
  const { gateway, call, caller, endpoint, request, routes, record } = passage;
  const { key, group } = caller;
  const outputCap = outputCapFor(record);
  return {
    requestId: call.requestId,
    keyId: key.id,
    groupId: group.id,
    queue: group.queue,
    affinity: routes.length > 1 ? computeAffinity(key.id, call.request.headers, request) : null,
    endpoint,
    request,
    cap:
      outputCap === null ? null : new OutputCap(outputCap, endpoint, request, gateway.dispatcher.monotonicMs),
    routes,
    clientHeaders: call.request.headers,
    conversation: call.conversation,
    client,
    openReader: request.stream ? () => openReader(passage, counters?.next() ?? null) : noReader,
    isCharged: record.charge !== null,
    trace: record.trace,
  };
}

function noReader(): never {
  throw new Error("a whole answer was asked for and a stream came");
}

function openReader(
  { gateway, call, endpoint, request }: RequestContext,
  sink: OutputCounter | null,
): StreamReader {
  return openStreamReader(endpoint, request, {
    nowMs: gateway.clock.nowMs,
    depthMax: gateway.dispatcher.jsonDepthMax,
    sink,
    previousResponseId: call.conversation?.heard?.responseId ?? null,
  });
}

async function openStream(
  passage: RequestContext,
  order: UpstreamAttempt,
  seat: Seat,
): Promise<UpstreamStream> {
  const { place, given } = await dispatch(passage.gateway.dispatcher, order);
  seat.take(place, given);
  if (given.kind !== "stream") throw new Error("a stream was asked for and a whole answer came");
  // Known from its first event on, so that a long-running response can be cancelled by its id.
  const responseId = rememberResponse(passage, given.stream.reader.responseId, "streaming");
  if (passage.request.background) void announce(passage, responseId);
  return given.stream;
}

/** Codex compacts its context on this error, but only when it comes as an event. */
function isToldInStream(error: ApiError, endpoint: Endpoint): boolean {
  return error.code === "context_length_exceeded" && endpoint.name === "responses";
}

/** `stoppedBy`: the stream said more than was paid for, and was ended with this error. */
function settleStream(
  passage: RequestContext,
  end: StreamEnd,
  counters: StreamCounters | null,
  stoppedBy: ApiError | null,
): Promise<void> | null {
  const { reader } = end;
  const counter = counters?.current() ?? null;
  const { route } = passage.record.trace;
  if (reader !== null && reader.badEvents > 0) {
    passage.gateway.log.warn("bad_events", {
      request_id: passage.call.requestId,
      client_request_id: clientRequestId(passage.call.request.headers),
      account_id: route?.account.id ?? null,
      events: reader.badEvents,
    });
  }
  if (route !== null && end.kind === "complete") {
    passage.gateway.dispatcher.pool.finished(route);
    if (counters !== null) noteReportedUsage(route, end.reader.usage);
  }
  if (route !== null && end.kind === "broken" && end.cut !== null) {
    passage.gateway.dispatcher.pool.brokeOff(route, end.cut);
  }
  const isCancelled = end.kind === "complete" && isStopped(end.reader.outcome, end.reader);
  const state = judgeResponseState(passage, end, stoppedBy);
  const responseId = rememberResponse(passage, reader?.responseId ?? null, state);
  if (state === "left") void announce(passage, responseId);
  return settleOrFollow(passage, state, {
    outcome: state === "background" && responseId !== null ? "pending" : streamOutcome(end),
    status: 200,
    error: end.kind === "broken" ? end.error : null,
    usage: reader?.usage ?? null,
    images: reader?.images ?? 0,
    imageKind: reader?.imageKind ?? null,
    responseId,
    isServed: reader !== null || (end.kind === "client_gone" && hasOpenAttempt(passage.record.trace)),
    isWhole: isWhole(end) && !isCancelled,
    countOutput: counter === null ? null : counter.exact,
    estimateShown: counter === null ? null : counter.estimateShown,
    isAbandoned: isCancelled || (end.kind === "client_gone" && !end.isWhole && end.leftBy === "client"),
  });
}

function judgeResponseState(
  { request }: RequestContext,
  end: StreamEnd,
  stoppedBy: ApiError | null,
): ResponseState {
  if (end.kind === "complete") return "ended";
  // It continues upstream. A paid one is followed to its end; otherwise a later GET reports its usage.
  if (request.background) return "background";
  const isCutHere = end.kind === "broken" && (end.cut !== null || end.error === stoppedBy);
  return isCutHere || (end.kind === "client_gone" && !end.isWhole) ? "left" : "ended";
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
