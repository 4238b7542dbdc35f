/**
 * Sends the request to an account that can serve it. Until content is delivered, a failure is invisible to the client:
 * dispatch fails over to the next account, never to the same one twice, and returns the most useful error if all fail.
 * While every account is busy, limited or overloaded the request waits in the queue, if its group allows it.
 */

import type { PolicyAccount } from "../../accounts/account.ts";
import { selectBetas } from "../../accounts/cloud/betas.ts";
import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { upstreamRequestId } from "../../accounts/headers.ts";
import { KINDS } from "../../accounts/kinds/table.ts";
import { vendorForm } from "../../accounts/profile.ts";
import { isPending } from "../../base/maybe-promise.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import type { AttemptCapture } from "../../capture/attempt-capture.ts";
import type { RequestCapture } from "../../capture/request-capture.ts";
import { ApiError } from "../../errors.ts";
import type { LimitLeases } from "../../limits/leases/limit-leases.ts";
import type { ResponseHeaders } from "../../net/http-client/contract.ts";
import type { Log } from "../../observe/log.ts";
import type { LoopWatch } from "../../observe/loop-watch.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Pool } from "../../pool/pool.ts";
import type { WaitingQueue } from "../../pool/waiting-queue.ts";
import type { HostedForm, RequestBody } from "../../protocols/shared/request.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { UpstreamResponse } from "../../protocols/whole-response.ts";
import { coordinatorLost } from "../admission/caller-limits.ts";
import { CLIENT_DISCONNECTED_UNSENT, isClientDisconnect } from "../client-disconnect.ts";
import {
  beginAttempt,
  failAttempt,
  latencyMs,
  noteFirstByte,
  type RequestChanges,
  traceLines,
  UNCHANGED,
} from "../request/trace.ts";
import { DROPPED_STATE, type TranslatedAttempt } from "../translation/translated-attempt.ts";
import { type AccountSlot, NO_FAILURES, takeAccountSlot } from "./account-slot.ts";
import { checkEventStream, checkJson } from "./check-content-type.ts";
import type { DispatchRequest, SocketTurn } from "./dispatch-request.ts";
import { Failover } from "./failover.ts";
import { messageAudience } from "./message-audience.ts";
import { describeNoAccount, NONE_LEFT, type NoSlot } from "./no-account.ts";
import { type PassedResponseServices, readPassedResponse } from "./passed-response.ts";
import type { RetryBudget } from "./retry-budget.ts";
import { clientGone, type OutboundRequest, openStream, type UpstreamAttempt } from "./send-request.ts";
import { sendWhole } from "./send-whole.ts";
import { UpstreamStream } from "./upstream-stream.ts";
import { findWholeFailure } from "./whole-failure.ts";

export interface Dispatcher extends OutboundRequest, PassedResponseServices {
  pool: Pool;
  billingEngine: Pick<BillingEngine, "recordDispatch" | "recordRequeue">;
  waitingQueue: WaitingQueue;
  /** Null if there is one node. */
  leases: Pick<LimitLeases, "borrow" | "queue"> | null;
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
}

interface WholeContent {
  kind: "response";
  response: UpstreamResponse;
  upstreamHeaders: ResponseHeaders;
}

interface StreamContent {
  kind: "stream";
  stream: UpstreamStream;
  upstreamHeaders: ResponseHeaders;
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
  const { request, step } = dispatchRequest;
  const retries = step?.retries ?? dispatcher.retries.open();
  const attemptsMax = step?.attemptsMax ?? dispatcher.attemptsMax;
  /** Null as long as no attempt has failed. */
  let failover: Failover | null = null;
  let noSlot: NoSlot = NONE_LEFT;
  try {
    for (let attempts = 0; attempts < attemptsMax; attempts++) {
      const body = failover?.body ?? request.body;
      const takenSlot = takeAccountSlot(dispatcher, dispatchRequest, failover ?? NO_FAILURES);
      const accountSlot = isPending(takenSlot) ? await takenSlot : takenSlot;
      if ("verdict" in accountSlot) {
        noSlot = accountSlot;
        break;
      }
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
        // A process that was frozen must not send what other nodes may send by now.
        if (dispatcher.leases !== null && !(dispatchRequest.lease.isHeld() && accountSlot.isHeld()))
          throw coordinatorLost();
        const attempt = openAttempt(dispatcher, dispatchRequest, { route, translated, body });
        outcome = request.stream
          ? await tryStream(dispatcher, dispatchRequest, { route, translated, attempt })
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
    if (step === null) retries.close();
  }
  const last = failover?.error ?? null;
  const outlook = last === null ? null : dispatcher.pool.outlook(dispatchRequest.routes);
  throw describeNoAccount({ publicModel: request.publicModel, noSlot, last, outlook });
}

function withSlot(content: WholeContent | StreamContent, accountSlot: AccountSlot): UpstreamResult {
  const { upstreamHeaders } = content;
  return content.kind === "stream"
    ? { kind: "stream", stream: content.stream, upstreamHeaders, accountSlot }
    : { kind: "response", response: content.response, upstreamHeaders, accountSlot };
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
    return await dispatchRequest.openTranslator().translate(route, {
      outputTokensMax: dispatchRequest.cap?.tokensFor(route) ?? null,
      webSearchesMax: dispatchRequest.searchCap?.searchesFor(route) ?? null,
    });
  } catch (cause) {
    if (cause instanceof ApiError && cause.status < 500) return cause;
    throw cause;
  }
}

interface AttemptSource {
  readonly route: AccountRoute;
  readonly translated: TranslatedAttempt | null;
  /** The body for accounts that have the client's interface. */
  readonly body: RequestBody;
}

/** Records the attempt, then writes its body, which may fail when it is read. */
function openAttempt(
  dispatcher: Dispatcher,
  dispatchRequest: DispatchRequest,
  { route, translated, body }: AttemptSource,
): UpstreamAttempt {
  const { requestId, request, trace, client, capture, step } = dispatchRequest;
  const { account, upstreamModel } = route;
  const nativeBody = translated === null ? applyCaps(dispatchRequest, route, body) : body;
  const changes = translated ?? findChanges(dispatchRequest, account);
  beginAttempt(trace, { route, changes, step, nowMs: dispatcher.monotonicMs() });
  if (dispatchRequest.isCharged)
    dispatcher.billingEngine.recordDispatch(requestId, account.id, upstreamModel);
  const content =
    translated === null ? writeNative(dispatchRequest, route, nativeBody) : writeTranslated(translated);
  return {
    account,
    method: "POST",
    upstreamModel,
    traceLines: account.propagateTrace ? traceLines(trace) : "",
    capture: capture === null ? null : captureAttempt(capture, route, step),
    wantsEvents: request.stream,
    deadlineMs: request.stream ? dispatcher.timing.firstByteTimeoutMs : dispatcher.timing.unaryTimeoutMs,
    client,
    ...content,
  };
}

function applyCaps({ cap, searchCap }: DispatchRequest, route: AccountRoute, body: RequestBody): RequestBody {
  const capped = cap === null ? body : cap.applyTo(body, route);
  return searchCap === null ? capped : searchCap.applyTo(capped, route);
}

type AttemptContent = Pick<UpstreamAttempt, "path" | "clientHeaders" | "body" | "turn">;

function writeNative(
  dispatchRequest: DispatchRequest,
  route: AccountRoute,
  body: RequestBody,
): AttemptContent {
  const { endpoint, clientHeaders, socketTurn } = dispatchRequest;
  const { upstreamModel } = route;
  const form = openHostedForm(dispatchRequest, route);
  return {
    path: endpoint.path,
    clientHeaders,
    body: { contentType: body.contentType, content: body.forUpstream(upstreamModel, form) },
    turn: socketTurn === null ? null : buildTurn(socketTurn, body, upstreamModel),
  };
}

/** Headers of the client are meant for its own dialect, so they are not forwarded. */
function writeTranslated({ path, headers, body }: TranslatedAttempt): AttemptContent {
  return {
    path,
    clientHeaders: headers,
    body: { contentType: "application/json", content: body },
    turn: null,
  };
}

/** What the account does not receive of a request that passes through. */
function findChanges(
  { endpoint, request, clientHeaders, seals }: DispatchRequest,
  account: PolicyAccount,
): RequestChanges {
  const { hosting } = KINDS[account.kind];
  if (seals === null && hosting === null) return UNCHANGED;
  const dropped: string[] = [];
  if (hosting !== null) {
    const { areDropped } = selectBetas(account, hosting.betas, clientHeaders.get("anthropic-beta"));
    if (areDropped) dropped.push("anthropic-beta");
    if (endpoint.stores === "in_threads" && request.storesResponse) dropped.push("thread");
  }
  // The envelopes of translated accounts are left out of a body that passes through.
  if (seals !== null) dropped.push(DROPPED_STATE);
  return { dialect: null, dropped, isStateDropped: seals !== null };
}

/** Null unless the account has another form of the API than its inventor. */
function openHostedForm(
  { endpoint, clientHeaders }: DispatchRequest,
  { account }: AccountRoute,
): HostedForm | null {
  const { hosting } = KINDS[account.kind];
  if (hosting === null) return vendorForm(account, endpoint.interface);
  const { accepted } = selectBetas(account, hosting.betas, clientHeaders.get("anthropic-beta"));
  return hosting.form(endpoint.interface, accepted);
}

function captureAttempt(
  capture: RequestCapture,
  { account: { name, credential }, upstreamModel }: AccountRoute,
  step: DispatchRequest["step"],
): AttemptCapture {
  return capture.beginAttempt({
    account: name,
    upstreamModel,
    credential,
    step: step === null ? null : { number: step.number, group: step.group },
  });
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

interface OpenedAttempt {
  readonly route: AccountRoute;
  readonly translated: TranslatedAttempt | null;
  readonly attempt: UpstreamAttempt;
}

async function sendAndRead(
  dispatcher: Dispatcher,
  dispatchRequest: DispatchRequest,
  { route, translated, attempt }: OpenedAttempt,
): Promise<AttemptResult> {
  const result = await sendWhole(dispatcher, attempt, translated);
  if (result.kind === "failed") return result;
  const { headers: upstreamHeaders, body } = result;
  noteResponse(dispatcher, dispatchRequest, upstreamHeaders);
  dispatcher.loop.enter(dispatchRequest.endpoint.name, dispatchRequest.requestId);
  const wrongType = checkJson(upstreamHeaders);
  if (wrongType !== null) return { kind: "failed", failure: wrongType };
  const { endpoint, request } = dispatchRequest;
  const read =
    translated === null
      ? readPassedResponse(dispatcher, body, {
          endpoint,
          audience: messageAudience(request, route),
          owner: route.account.name,
        })
      : translated.readWhole(body);
  const response = isPending(read) ? await read : read;
  const failure = findWholeFailure(response, endpoint);
  if (response.kind === "response" && failure === null)
    return { kind: "response", response, upstreamHeaders };
  const usage = response.kind === "response" && response.hasExpectedContent ? response.usage : null;
  return failed(failure ?? upstreamFailure("bad_answer", "not a response", 200), usage);
}

function tryStream(
  dispatcher: Dispatcher,
  dispatchRequest: DispatchRequest,
  { translated, attempt }: OpenedAttempt,
): Promise<AttemptResult> {
  return new Promise((resolve) => {
    openStream(dispatcher, attempt, {
      check(upstreamHeaders) {
        noteResponse(dispatcher, dispatchRequest, upstreamHeaders);
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
            else resolve(failed(opened.failure, reader.usage));
          },
        );
      },
      fail: (failure) => resolve({ kind: "failed", failure }),
    });
  });
}

function noteResponse(
  { monotonicMs }: Dispatcher,
  { trace }: DispatchRequest,
  upstreamHeaders: ResponseHeaders,
): void {
  noteFirstByte(trace, upstreamRequestId(upstreamHeaders), monotonicMs());
}

/** A failure with the usage that the account reported nevertheless. Disconnects keep their identity. */
function failed(failure: UpstreamFailure, usage: TokenUsage | null): AttemptResult {
  const isWasted = usage !== null && !isClientDisconnect(failure);
  return { kind: "failed", failure: isWasted ? { ...failure, usage } : failure };
}

/** If no byte of the request was sent, no account processed it and it is not charged. */
function recordDisconnect(dispatchRequest: DispatchRequest, failure: UpstreamFailure, nowMs: number): void {
  if (failure === CLIENT_DISCONNECTED_UNSENT) failAttempt(dispatchRequest.trace, failure, nowMs);
}
