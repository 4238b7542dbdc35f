/**
 * Sends the request to an account that can serve it. Until content is delivered, a failure is invisible to the client:
 * dispatch fails over to the next account, never to the same one twice, and returns the most useful error if all fail.
 * While every account is busy, limited or overloaded the request waits in the queue, if its group allows it.
 */

import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { upstreamRequestId } from "../../accounts/headers.ts";
import { isPending, type MaybePromise } from "../../base/maybe-promise.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import { ApiError } from "../../errors.ts";
import type { LimitLeases } from "../../limits/leases/limit-leases.ts";
import type { ResponseHeaders } from "../../net/http-client/contract.ts";
import type { Log } from "../../observe/log.ts";
import type { LoopWatch } from "../../observe/loop-watch.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Pool } from "../../pool/pool.ts";
import type { WaitingQueue } from "../../pool/waiting-queue.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { UpstreamResponse } from "../../protocols/whole-response.ts";
import { coordinatorLost } from "../admission/caller-limits.ts";
import { CLIENT_DISCONNECTED_UNSENT, isClientDisconnect } from "../client-disconnect.ts";
import type { AttemptTrace } from "../request/attempt-trace.ts";
import type { TranslatedAttempt } from "../translation/translated-attempt.ts";
import { type AccountSlot, NO_FAILURES, takeAccountSlot } from "./account-slot.ts";
import { checkEventStream, checkJson } from "./check-content-type.ts";
import type { DispatchRequest } from "./dispatch-request.ts";
import { Failover } from "./failover.ts";
import { messageAudience } from "./message-audience.ts";
import { describeNoAccount, NONE_LEFT, type NoSlot } from "./no-account.ts";
import { type AttemptServices, type OpenedAttempt, openAttempt } from "./open-attempt.ts";
import { type PassedResponseServices, readPassedResponse } from "./passed-response.ts";
import type { RetryBudget } from "./retry-budget.ts";
import { clientGone, type OutboundRequest, openStream } from "./send-request.ts";
import { sendWhole } from "./send-whole.ts";
import { UpstreamStream } from "./upstream-stream.ts";
import { findWholeFailure } from "./whole-failure.ts";

export interface Dispatcher extends OutboundRequest, PassedResponseServices, AttemptServices {
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
export type UpstreamResult = WholeUpstreamResult | StreamUpstreamResult;

/** Rejects with the `ApiError` for the client if no account could serve the request. */
export async function dispatch(
  dispatcher: Dispatcher,
  dispatchRequest: DispatchRequest,
): Promise<UpstreamResult> {
  const { request, step } = dispatchRequest;
  const retries = step?.retries ?? dispatcher.retries.open();
  const attemptsMax = step?.attemptsMax ?? dispatcher.attemptsMax;
  /** Null as long as no attempt has failed, and no account is excluded. */
  let failover = Failover.open(dispatcher, dispatchRequest);
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
      let trace: AttemptTrace;
      try {
        dispatcher.loop.enter(dispatchRequest.endpoint.name, dispatchRequest.requestId);
        const prepared = prepareFor(dispatchRequest, route);
        const translated = isPending(prepared) ? await prepared : prepared;
        if (translated instanceof ApiError) {
          // Another account may have the interface itself.
          failover ??= new Failover(dispatcher, dispatchRequest);
          failover.recordUnusable(accountSlot, translated);
          continue;
        }
        // A process that was frozen must not send what other nodes may send by now.
        if (dispatcher.leases !== null && !(dispatchRequest.lease.isHeld() && accountSlot.isHeld()))
          throw coordinatorLost();
        const attempt = openAttempt(dispatcher, dispatchRequest, { route, translated, body });
        trace = attempt.trace;
        outcome = request.stream
          ? await tryStream(dispatcher, dispatchRequest, attempt)
          : await sendAndRead(dispatcher, dispatchRequest, attempt);
      } catch (cause) {
        // The client disconnected, or its body could not be read. The account is not at fault.
        accountSlot.release(null);
        throw cause;
      }
      if (outcome.kind !== "failed") {
        trace.serve();
        dispatcher.pool.recordSuccess(route, trace.latencyMs, outcome.upstreamHeaders);
        failover?.recordSuccess(route);
        return withSlot(outcome, accountSlot);
      }
      if (isClientDisconnect(outcome.failure)) {
        recordDisconnect(trace, outcome.failure, dispatcher.monotonicMs());
        accountSlot.release(null);
        throw clientGone();
      }
      dispatchRequest.capture?.failAttempt(outcome.failure);
      failover ??= new Failover(dispatcher, dispatchRequest);
      const next = await failover.recordFailure({ accountSlot, trace }, outcome.failure);
      if (next === "give_up" || (next === "other_account" && !retries.mayRetry())) break;
    }
  } finally {
    if (step === null) retries.close();
  }
  const last = failover?.error ?? null;
  const outlook = last === null ? null : dispatcher.pool.outlook(dispatchRequest.routes);
  const unable = failover?.unableError() ?? null;
  throw describeNoAccount({ publicModel: request.publicModel, noSlot, last, unable, outlook });
}

function withSlot(content: WholeContent | StreamContent, accountSlot: AccountSlot): UpstreamResult {
  const { upstreamHeaders } = content;
  return content.kind === "stream"
    ? { kind: "stream", stream: content.stream, upstreamHeaders, accountSlot }
    : { kind: "response", response: content.response, upstreamHeaders, accountSlot };
}

/** Returns null for a request that passes through, and an error if the account cannot be used. */
function prepareFor(
  dispatchRequest: DispatchRequest,
  route: AccountRoute,
): MaybePromise<TranslatedAttempt | ApiError | null> {
  const { cap, request, continuesStored } = dispatchRequest;
  // Another request may have found this out while this one waited.
  if (cap?.isUnable(route)) return cap.unableError(request.publicModel);
  return route.translation !== null || continuesStored ? translateFor(dispatchRequest, route) : null;
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

async function sendAndRead(
  dispatcher: Dispatcher,
  dispatchRequest: DispatchRequest,
  { route, translated, outbound, trace }: OpenedAttempt,
): Promise<AttemptResult> {
  const result = await sendWhole(dispatcher, outbound, translated);
  if (result.kind === "failed") return result;
  const { headers: upstreamHeaders, body } = result;
  trace.recordFirstByte(upstreamRequestId(upstreamHeaders), dispatcher.monotonicMs());
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
  { translated, outbound, trace }: OpenedAttempt,
): Promise<AttemptResult> {
  return new Promise((resolve) => {
    openStream(dispatcher, outbound, {
      check(upstreamHeaders) {
        trace.recordFirstByte(upstreamRequestId(upstreamHeaders), dispatcher.monotonicMs());
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

/** A failure with the usage that the account reported nevertheless. Disconnects keep their identity. */
function failed(failure: UpstreamFailure, usage: TokenUsage | null): AttemptResult {
  const isWasted = usage !== null && !isClientDisconnect(failure);
  return { kind: "failed", failure: isWasted ? { ...failure, usage } : failure };
}

/** If no byte of the request was sent, no account processed it and it is not charged. */
function recordDisconnect(trace: AttemptTrace, failure: UpstreamFailure, nowMs: number): void {
  if (failure === CLIENT_DISCONNECTED_UNSENT) trace.fail(failure, nowMs);
}
