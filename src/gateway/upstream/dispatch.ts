/**
 * Sends the request to an account that can serve it. Until content is delivered, a failure is invisible to the client:
 * dispatch fails over to the next account, never to the same one twice, and returns the most useful error if all fail.
 * While every account is busy, limited or overloaded the request waits in the queue, if its group allows it.
 */

import { selectBetas } from "../../accounts/cloud/betas.ts";
import { clientError, type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { upstreamRequestId } from "../../accounts/headers.ts";
import { KINDS } from "../../accounts/kinds/table.ts";
import { vendorForm } from "../../accounts/profile.ts";
import { isPending } from "../../base/maybe-promise.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import type { AttemptCapture } from "../../capture/attempt-capture.ts";
import type { RequestCapture } from "../../capture/request-capture.ts";
import { ApiError } from "../../errors.ts";
import type { AnswerHeaders } from "../../net/http-client/contract.ts";
import type { Log } from "../../observe/log.ts";
import type { LoopWatch } from "../../observe/loop-watch.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Pool } from "../../pool/pool.ts";
import type { WaitingQueue } from "../../pool/waiting-queue.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { HostedForm, RequestBody } from "../../protocols/shared/request.ts";
import { readWholeResponse, type UpstreamResponse } from "../../protocols/whole-response.ts";
import { CLIENT_DISCONNECTED_UNSENT, isClientDisconnect } from "../client-disconnect.ts";
import {
  beginAttempt,
  failAttempt,
  latencyMs,
  noteDropped,
  noteDroppedState,
  noteFirstByte,
  noteTranslation,
  noteWastedUsage,
  traceLines,
} from "../request/trace.ts";
import { DROPPED_STATE, type TranslatedAttempt } from "../translation/translated-attempt.ts";
import { type AccountSlot, NO_FAILURES, takeAccountSlot } from "./account-slot.ts";
import type { DispatchRequest, SocketTurn } from "./dispatch-request.ts";
import { Failover } from "./failover.ts";
import { messageAudience } from "./message-audience.ts";
import { withRetryTime } from "./no-account.ts";
import type { RetryBudget } from "./retry-budget.ts";
import { clientGone, type OutboundRequest, openStream, type UpstreamAttempt } from "./send-request.ts";
import { sendWhole } from "./send-whole.ts";
import { UpstreamStream } from "./upstream-stream.ts";
import { findWholeFailure } from "./whole-failure.ts";

export interface Dispatcher extends OutboundRequest {
  pool: Pool;
  billingEngine: Pick<BillingEngine, "recordDispatch" | "recordRequeue">;
  waitingQueue: WaitingQueue;
  retries: RetryBudget;
  monotonicMs(): number;
  log: Log;
  loop: Pick<LoopWatch, "enter">;
  timing: {
    firstByteTimeoutMs: number;
    unaryTimeoutMs: number;
    /** How long lifecycle events may be held back. */
    keepAliveMs: number;
  };
  attemptsMax: number;
  jsonDepthMax: number;
}

interface WholeContent {
  kind: "answer";
  answer: UpstreamResponse;
  upstreamHeaders: AnswerHeaders;
}

interface StreamContent {
  kind: "stream";
  stream: UpstreamStream;
  upstreamHeaders: AnswerHeaders;
}
type AttemptResult = WholeContent | StreamContent | { kind: "failed"; failure: UpstreamFailure };

/** The slot that the response occupies. The receiver releases it when the response is over. */
interface Occupied {
  accountSlot: AccountSlot;
}

export type WholeUpstreamResult = WholeContent & Occupied;
export type StreamUpstreamResult = StreamContent & Occupied;
/** The response of the account that serves the request. */
export type UpstreamResult = WholeUpstreamResult | StreamUpstreamResult;

/** Rejects with the `ApiError` for the client if no account could serve the request. */
export async function dispatch(
  dispatcher: Dispatcher,
  dispatchRequest: DispatchRequest,
): Promise<UpstreamResult> {
  const { request } = dispatchRequest;
  const retries = dispatcher.retries.open();
  /** Null as long as no attempt has failed. */
  let failover: Failover | null = null;
  try {
    for (let attempts = 0; attempts < dispatcher.attemptsMax; attempts++) {
      const body = failover?.body ?? request.body;
      const takenSlot = takeAccountSlot(dispatcher, dispatchRequest, failover ?? NO_FAILURES);
      const accountSlot = isPending(takenSlot) ? await takenSlot : takenSlot;
      const { route } = accountSlot;
      let outcome: AttemptResult;
      try {
        dispatcher.loop.enter(dispatchRequest.endpoint.name, dispatchRequest.requestId);
        const translated = needsTranslation(dispatchRequest, route)
          ? await translateFor(dispatchRequest, route)
          : null;
        if (translated instanceof ApiError) {
          // Another account may have the interface itself.
          failover ??= new Failover(dispatcher, dispatchRequest);
          failover.recordUntranslatable(accountSlot, translated);
          continue;
        }
        const attempt =
          translated === null
            ? buildNativeAttempt(dispatcher, dispatchRequest, body, route)
            : buildTranslatedAttempt(dispatcher, dispatchRequest, translated, route);
        outcome = request.stream
          ? await tryStream(dispatcher, dispatchRequest, attempt, translated)
          : await sendAndRead(dispatcher, dispatchRequest, { route, translated, attempt });
      } catch (cause) {
        // The client disconnected, or its body could not be read. The account is not at fault.
        accountSlot.release(null);
        throw cause;
      }
      if (outcome.kind !== "failed") {
        dispatcher.pool.recordSuccess(route, latencyMs(dispatchRequest.trace), outcome.upstreamHeaders);
        failover?.recordSuccess(route);
        return withSlot(outcome, accountSlot);
      }
      if (isClientDisconnect(outcome.failure)) {
        recordDisconnect(dispatchRequest, outcome.failure, dispatcher.monotonicMs());
        accountSlot.release(null);
        throw clientGone();
      }
      dispatchRequest.capture?.failAttempt(outcome.failure);
      failover ??= new Failover(dispatcher, dispatchRequest);
      const next = await failover.recordFailure(accountSlot, outcome.failure);
      if (next === "give_up" || (next === "other_account" && !retries.mayRetry())) break;
    }
  } finally {
    retries.close();
  }
  const error =
    failover?.error ?? clientError(upstreamFailure("connect", "no account"), messageAudience(request, null));
  throw withRetryTime(error, dispatcher.pool, dispatchRequest);
}

function withSlot(content: WholeContent | StreamContent, accountSlot: AccountSlot): UpstreamResult {
  const { upstreamHeaders } = content;
  return content.kind === "stream"
    ? { kind: "stream", stream: content.stream, upstreamHeaders, accountSlot }
    : { kind: "answer", answer: content.answer, upstreamHeaders, accountSlot };
}

function needsTranslation(dispatchRequest: DispatchRequest, route: AccountRoute): boolean {
  return route.translation !== null || dispatchRequest.continuesStored;
}

/** Returns the error of a request that the account's dialect cannot express. */
async function translateFor(
  dispatchRequest: DispatchRequest,
  route: AccountRoute,
): Promise<TranslatedAttempt | ApiError> {
  try {
    return await dispatchRequest
      .openTranslator()
      .translate(route, dispatchRequest.cap?.tokensFor(route) ?? null);
  } catch (cause) {
    if (cause instanceof ApiError && cause.status < 500) return cause;
    throw cause;
  }
}

function buildNativeAttempt(
  dispatcher: Dispatcher,
  dispatchRequest: DispatchRequest,
  uncappedBody: RequestBody,
  route: AccountRoute,
): UpstreamAttempt {
  const { endpoint, cap, socketTurn } = dispatchRequest;
  const { upstreamModel } = route;
  const body = cap === null ? uncappedBody : cap.applyTo(uncappedBody, route);
  noteAttempt(dispatcher, dispatchRequest, route);
  const form = openHostedForm(dispatchRequest, route);
  // The envelopes of translated accounts are left out of a body that passes through.
  if (dispatchRequest.seals !== null) noteDroppedState(dispatchRequest.trace, DROPPED_STATE);
  return {
    account: route.account,
    method: "POST",
    path: endpoint.path,
    upstreamModel,
    clientHeaders: dispatchRequest.clientHeaders,
    traceLines: propagatedLines(dispatchRequest, route),
    body: { contentType: body.contentType, content: body.forUpstream(upstreamModel, form) },
    turn: socketTurn === null ? null : buildTurn(socketTurn, body, upstreamModel),
    capture: dispatchRequest.capture === null ? null : captureAttempt(dispatchRequest.capture, route),
    ...attemptTerms(dispatcher, dispatchRequest),
  };
}

/** Null unless the account has another form of the API than its inventor. */
function openHostedForm(
  { endpoint, request, clientHeaders, trace }: DispatchRequest,
  { account }: AccountRoute,
): HostedForm | null {
  const { hosting } = KINDS[account.kind];
  if (hosting === null) return vendorForm(account, endpoint.interface);
  const { accepted, areDropped } = selectBetas(account, hosting.betas, clientHeaders.get("anthropic-beta"));
  if (areDropped) noteDropped(trace, ["anthropic-beta"]);
  if (endpoint.stores === "in_threads" && request.storesResponse) noteDropped(trace, ["thread"]);
  return hosting.form(endpoint.interface, accepted);
}

/** Headers of the client are meant for its own dialect, so they are not forwarded. */
function buildTranslatedAttempt(
  dispatcher: Dispatcher,
  dispatchRequest: DispatchRequest,
  translated: TranslatedAttempt,
  route: AccountRoute,
): UpstreamAttempt {
  noteAttempt(dispatcher, dispatchRequest, route);
  noteTranslation(dispatchRequest.trace, translated);
  return {
    account: route.account,
    method: "POST",
    path: translated.path,
    upstreamModel: route.upstreamModel,
    clientHeaders: translated.headers,
    traceLines: propagatedLines(dispatchRequest, route),
    body: { contentType: "application/json", content: translated.body },
    turn: null,
    capture: dispatchRequest.capture === null ? null : captureAttempt(dispatchRequest.capture, route),
    ...attemptTerms(dispatcher, dispatchRequest),
  };
}

function captureAttempt(
  capture: RequestCapture,
  { account: { name, credential }, upstreamModel }: AccountRoute,
): AttemptCapture {
  return capture.beginAttempt({ account: name, upstreamModel, credential });
}

function propagatedLines({ trace }: DispatchRequest, { account }: AccountRoute): string {
  return account.propagateTrace ? traceLines(trace) : "";
}

function noteAttempt(dispatcher: Dispatcher, dispatchRequest: DispatchRequest, route: AccountRoute): void {
  beginAttempt(dispatchRequest.trace, route, dispatcher.monotonicMs());
  if (dispatchRequest.isCharged)
    dispatcher.billingEngine.recordDispatch(dispatchRequest.requestId, route.account.id, route.upstreamModel);
}

function attemptTerms(
  { timing }: Dispatcher,
  { request, client }: DispatchRequest,
): Pick<UpstreamAttempt, "wantsEvents" | "deadlineMs" | "client"> {
  return {
    wantsEvents: request.stream,
    deadlineMs: request.stream ? timing.firstByteTimeoutMs : timing.unaryTimeoutMs,
    client,
  };
}

/** What a WebSocket needs about a turn, in addition to the whole request. */
function buildTurn(
  { upstreamLane, knownPrefix }: SocketTurn,
  body: RequestBody,
  upstreamModel: string,
): NonNullable<UpstreamAttempt["turn"]> {
  const tail = knownPrefix && {
    responseId: knownPrefix.responseId,
    body: () => body.forUpstreamAfter(upstreamModel, knownPrefix),
  };
  return { upstreamLane, tail };
}

interface WholeSending {
  readonly route: AccountRoute;
  readonly translated: TranslatedAttempt | null;
  readonly attempt: UpstreamAttempt;
}

async function sendAndRead(
  dispatcher: Dispatcher,
  dispatchRequest: DispatchRequest,
  { route, translated, attempt }: WholeSending,
): Promise<AttemptResult> {
  const result = await sendWhole(dispatcher, attempt, translated);
  if (result.kind === "failed") return result;
  const { headers: upstreamHeaders, body } = result;
  noteFirstByte(dispatchRequest.trace, upstreamRequestId(upstreamHeaders), dispatcher.monotonicMs());
  dispatcher.loop.enter(dispatchRequest.endpoint.name, dispatchRequest.requestId);
  const wrongType = checkJson(upstreamHeaders);
  if (wrongType !== null) return { kind: "failed", failure: wrongType };
  const { endpoint, request, trace } = dispatchRequest;
  const read =
    translated === null
      ? readWholeResponse(body, endpoint, messageAudience(request, route), dispatcher.jsonDepthMax)
      : translated.readWhole(body);
  const answer = isPending(read) ? await read : read;
  const failure = findWholeFailure(answer, endpoint);
  if (answer.kind === "answer" && failure === null) return { kind: "answer", answer, upstreamHeaders };
  if (answer.kind === "answer" && answer.hasExpectedContent) noteWastedUsage(trace, answer.usage);
  return { kind: "failed", failure: failure ?? upstreamFailure("bad_answer", "not a response", 200) };
}

function tryStream(
  dispatcher: Dispatcher,
  dispatchRequest: DispatchRequest,
  attempt: UpstreamAttempt,
  translated: TranslatedAttempt | null,
): Promise<AttemptResult> {
  return new Promise((resolve) => {
    openStream(dispatcher, attempt, {
      check(upstreamHeaders) {
        noteFirstByte(dispatchRequest.trace, upstreamRequestId(upstreamHeaders), dispatcher.monotonicMs());
        return checkEventStream(upstreamHeaders, dispatchRequest.endpoint);
      },
      open(upstreamHeaders, upstreamCall) {
        const reader = dispatchRequest.openReader(translated);
        return new UpstreamStream(
          {
            upstreamCall,
            reader,
            deadlines: dispatcher.deadlines,
            eventBytesMax: dispatcher.eventBytesMax,
            holdMs: dispatcher.timing.keepAliveMs,
            monotonicMs: dispatcher.monotonicMs,
            enterTurn: () => dispatcher.loop.enter(dispatchRequest.endpoint.name, dispatchRequest.requestId),
          },
          (opened) => {
            if (opened.kind === "open") resolve({ kind: "stream", stream: opened.stream, upstreamHeaders });
            else {
              noteWastedUsage(dispatchRequest.trace, reader.usage);
              resolve(opened);
            }
          },
        );
      },
      fail: (failure) => resolve({ kind: "failed", failure }),
    });
  });
}

/** If no byte of the request was sent, no account processed it and it is not charged. */
function recordDisconnect(dispatchRequest: DispatchRequest, failure: UpstreamFailure, nowMs: number): void {
  if (failure === CLIENT_DISCONNECTED_UNSENT) failAttempt(dispatchRequest.trace, failure, nowMs);
}

/** An HTML page of a captive portal or an unrequested stream must never pass as a response. */
function checkJson(headers: AnswerHeaders): UpstreamFailure | null {
  return isOfType(headers.get("content-type") ?? "", "application/json") ? null : wrongType();
}

function checkEventStream(headers: AnswerHeaders, endpoint: Endpoint): UpstreamFailure | null {
  const type = headers.get("content-type") ?? "";
  if (!isOfType(type, "text/event-stream")) {
    // Many image servers do not support streaming. Requests for streams must not put them into cool-down for other
    // requests.
    const isWholeImageResponse = endpoint.output === "image" && isOfType(type, "application/json");
    return isWholeImageResponse
      ? upstreamFailure("unstreamed", "expected a stream, received a whole response", 200)
      : wrongType();
  }
  const isCompressed = (headers.get("content-encoding") ?? "identity") !== "identity";
  return isCompressed ? upstreamFailure("bad_answer", "a compressed stream", 200) : null;
}

function isOfType(type: string, wanted: string): boolean {
  return type === wanted || type.toLowerCase().startsWith(wanted);
}

function wrongType(): UpstreamFailure {
  return upstreamFailure("bad_answer", "wrong content type", 200);
}
