/** The last steps of the pipeline: dispatch the request to an account, deliver the response to the client, settle. */

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
import { countResponse } from "./metering/count-request.ts";
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

export async function deliverWholeResponse(context: RequestContext): Promise<HttpResponse> {
  const { gateway, call, caller, request, record } = context;
  const drain = caller.group.onDisconnect === "drain" ? openLingeringClient(context) : null;
  const dispatched = dispatch(gateway.dispatcher, buildAttempt(context, drain ?? call.request, null));
  const { place, given } = await (drain === null ? dispatched : dispatched.finally(drain.stopLingering));
  if (given.kind !== "answer") throw new Error("a whole answer was asked for and a stream came");
  const { answer } = given;
  record.place = place;
  const pending = answer.status === "queued" || answer.status === "in_progress";
  const responseId = rememberResponse(context, answer.responseId, pending ? "background" : "ended");
  if (pending) {
    releaseConcurrency(context);
    await announce(context, responseId);
  }
  const isClientGone = drain !== null && call.request.signal.aborted;
  const settled = settleOrFollow(context, pending ? "background" : "ended", {
    outcome: isClientGone ? "client_gone" : pending ? "pending" : parseOutcome(answer.status),
    status: 200,
    error: null,
    usage: answer.usage,
    images: answer.images,
    imageKind: answer.imageKind,
    responseId,
    isServed: true,
    isWhole: true,
    countOutput:
      isText(context.endpoint) && !(answer.usage !== null && isWholeCount(answer.usage))
        ? answerCounter(answer.body)
        : null,
    estimateShown: null,
    isAbandoned: false,
  });
  releaseConcurrency(context);
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
  addRateHeaders(headers, gateway.limiter, context.subjects);
  headers.lines += buildForwardedHeaders(context, given);
  return new WholeResponse(200, headers.lines, answer.body);
}

function answerCounter(body: readonly Part[]): NonNullable<RequestEnding["countOutput"]> {
  return () => countResponse(joinParts(body));
}

/** Releases the concurrency of the caller and of the account. The use may be counted later. */
function releaseConcurrency({ lease, record }: RequestContext): void {
  lease.release();
  record.place?.release(null);
}

function openLingeringClient({ gateway, call, caller }: RequestContext): LingeringClient {
  const { drains, timing, underWay } = gateway;
  const owner = drainOwner(caller);
  return lingeringClient(call.request, owner, drains, timing.drainOnDisconnectMs, underWay);
}

/** The user, or the key if it has none, whose share of the drains a response takes. */
function drainOwner({ key }: Caller): string {
  return key.userId ?? key.id;
}

function buildForwardedHeaders(
  { request, record }: RequestContext,
  { upstreamHeaders }: UpstreamResult,
): HeaderLines {
  return headersDown(upstreamHeaders, request.publicModel, record.trace.upstreamRequestId);
}

/** Whether the output of a response without reported usage can be counted. */
function isText(endpoint: Endpoint): boolean {
  return endpoint.interface === "chat" || endpoint.interface === "responses";
}

/**
 * `rejectableMs` is how long a stream that has not begun can still be rejected with an HTTP status. `handOver` sends
 * the stream to the client with the forwarded headers of the account, which are empty if the account has not responded
 * yet.
 */
export async function deliverStream<P extends RequestContext, Out>(
  context: P,
  rejectableMs: number,
  handOver: (context: P, relay: Relay, buildForwardedHeaders: HeaderLines) => Out,
): Promise<Out> {
  const { gateway, call, caller, endpoint, request, record } = context;
  const { charge } = record;
  const owner = drainOwner(caller);
  const paid =
    charge !== null && isText(endpoint) ? openCounters(gateway.till, call.requestId, charge) : null;
  const counters = paid ?? (isText(endpoint) ? unpaidCounters(context) : null);
  const drain = caller.group.onDisconnect === "drain" ? openLingeringClient(context) : null;
  const attempt = buildAttempt(context, drain ?? call.request, counters);
  const waitingSinceMs = gateway.clock.monotonicMs();
  const slot = openStreamSlot(context);
  const opening = openStream(context, attempt, slot);
  if (drain !== null) opening.finally(drain.stopLingering).catch(() => {});
  // Nearly all streams begin within this time, so an error can still be sent as an HTTP status.
  const earlyError = await waitWithin(opening, rejectableMs, gateway.dispatcher.alarms);
  if (earlyError instanceof ApiError && !isSentAsEvent(earlyError, endpoint)) throw earlyError;
  let stoppedBy: ApiError | null = null;
  const relay = openRelay({
    opening,
    openSpareReader: () => openReader(context, null),
    requestId: call.requestId,
    get onDisconnect() {
      // A background response needs no reader: the client polls it by its id.
      return request.background && slot.responseId() !== null ? "cancel" : caller.group.onDisconnect;
    },
    isPaid: charge !== null,
    needsDataEvents: isCodex(call.request.headers),
    describeFailure: (failure) => interruptedError(failure, messageAudience(request, record.trace.route)),
    settle(end) {
      const settled = settleStream(context, end, counters, stoppedBy);
      // The caller's concurrency stays occupied until the abandoned response is settled: a client that disconnects and
      // repeats must not exceed its limits.
      slot.leave(end.kind === "client_gone" && !request.background ? record.following : null);
      const { claim } = record;
      // Streams are not stored. A repeat with the same key gets the error that the request has ended.
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
  const leaveInFlight = gateway.underWay.enter(relay.cut);
  // Not earlier: if the upstream reports no usage, settlement counts the input from the body.
  const ended = () => {
    if (record.following === null) void request.body.dispose();
    leaveInFlight();
  };
  if (drain !== null && call.request.signal.aborted) {
    // The client disconnected, so the stream is discarded or drained without a reader.
    relay.flowTo({ write: () => null, end() {} });
    relay.leave();
  }
  return handOver(context, relay, slot.linesDown());
}

/** The account slot that a stream occupies, from its selection until the upstream has ended. */
interface StreamSlot {
  take(place: AccountSlot, given: UpstreamResult): void;
  /** The account's response headers that are forwarded to the client; empty until the slot is taken. */
  linesDown(): HeaderLines;
  /** The id of the response, once the upstream has sent it. */
  responseId(): string | null;
  /** Releases the caller's limits when the promise resolves, or at once if it is null. */
  leave(following: Promise<void> | null): void;
}

function openStreamSlot(context: RequestContext): StreamSlot {
  const { lease, record } = context;
  let upstream: UpstreamStream | null = null;
  let lines: HeaderLines = "";
  let hasLeft = false;
  return {
    take(place, given) {
      record.place = place;
      upstream = given.kind === "stream" ? given.stream : null;
      lines = buildForwardedHeaders(context, given);
      // The client disconnected while an account was being selected.
      if (hasLeft) place.release(null);
    },
    linesDown: () => lines,
    responseId: () => upstream?.reader.responseId ?? null,
    leave(following) {
      hasLeft = true;
      const { place } = record;
      if (following === null) lease.release();
      else void following.then(() => lease.release());
      // The upstream counts the request as running until its connection is done, which is later than the last event.
      const closing = upstream?.closing() ?? null;
      if (closing === null) place?.release(null);
      else void closing.then(() => place?.release(null));
    },
  };
}

function unpaidCounters({ record, subjects }: RequestContext): StreamCounters {
  return openUnpaidCounters(record.trace, computeReservedUse(subjects).windows);
}

function buildAttempt(
  context: RequestContext,
  client: Client,
  counters: StreamCounters | null,
): UpstreamAttempt {
  const { gateway, call, caller, endpoint, request, routes, record } = context;
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
    openReader: request.stream ? () => openReader(context, counters?.next() ?? null) : noReader,
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
  context: RequestContext,
  attempt: UpstreamAttempt,
  slot: StreamSlot,
): Promise<UpstreamStream> {
  const { place, given } = await dispatch(context.gateway.dispatcher, attempt);
  slot.take(place, given);
  if (given.kind !== "stream") throw new Error("a stream was asked for and a whole answer came");
  // Recorded from the first event on, so that a long-running response can be cancelled by its id.
  const responseId = rememberResponse(context, given.stream.reader.responseId, "streaming");
  if (context.request.background) void announce(context, responseId);
  return given.stream;
}

/** Codex compacts its context on this error, but only if it arrives as a stream event. */
function isSentAsEvent(error: ApiError, endpoint: Endpoint): boolean {
  return error.code === "context_length_exceeded" && endpoint.name === "responses";
}

/** `stoppedBy` is the error that ended the stream because its output exceeded the hold. */
function settleStream(
  context: RequestContext,
  end: StreamEnd,
  counters: StreamCounters | null,
  stoppedBy: ApiError | null,
): Promise<void> | null {
  const { reader } = end;
  const counter = counters?.current() ?? null;
  const { route } = context.record.trace;
  if (reader !== null && reader.badEvents > 0) {
    context.gateway.log.warn("bad_events", {
      request_id: context.call.requestId,
      client_request_id: clientRequestId(context.call.request.headers),
      account_id: route?.account.id ?? null,
      events: reader.badEvents,
    });
  }
  if (route !== null && end.kind === "complete") {
    context.gateway.dispatcher.pool.finished(route);
    if (counters !== null) noteReportedUsage(route, end.reader.usage);
  }
  if (route !== null && end.kind === "broken" && end.cut !== null) {
    context.gateway.dispatcher.pool.brokeOff(route, end.cut);
  }
  const isCancelled = end.kind === "complete" && isStopped(end.reader.outcome, end.reader);
  const state = judgeResponseState(context, end, stoppedBy);
  const responseId = rememberResponse(context, reader?.responseId ?? null, state);
  if (state === "left") void announce(context, responseId);
  return settleOrFollow(context, state, {
    outcome: state === "background" && responseId !== null ? "pending" : streamOutcome(end),
    status: 200,
    error: end.kind === "broken" ? end.error : null,
    usage: reader?.usage ?? null,
    images: reader?.images ?? 0,
    imageKind: reader?.imageKind ?? null,
    responseId,
    isServed: reader !== null || (end.kind === "client_gone" && hasOpenAttempt(context.record.trace)),
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
  // The response continues upstream. A paid one is polled to its end; for an unpaid one a later GET reports its usage.
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

function parseOutcome(status: string | null): UsageRow["outcome"] {
  switch (status) {
    case "incomplete":
    case "failed":
    case "cancelled":
      return status;
    default:
      return "completed";
  }
}
