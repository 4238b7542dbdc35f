/** Sends the request to one account, and reads the response until its content begins or the attempt has failed. */

import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { upstreamRequestId } from "../../accounts/headers.ts";
import { isPending, type MaybePromise } from "../../base/maybe-promise.ts";
import { ApiError } from "../../errors.ts";
import type { ResponseHeaders } from "../../net/http-client/contract.ts";
import type { LoopWatch } from "../../observe/loop-watch.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { RequestBody } from "../../protocols/shared/request.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { UpstreamResponse } from "../../protocols/whole-response.ts";
import { coordinatorLost } from "../admission/caller-limits.ts";
import { CLIENT_DISCONNECTED_UNSENT, isClientDisconnect } from "../client-disconnect.ts";
import type { AttemptTrace } from "../request/attempt-trace.ts";
import type { TranslatedAttempt } from "../translation/translated-attempt.ts";
import type { AccountSlot } from "./account-slot.ts";
import { checkEventStream, checkJson } from "./check-content-type.ts";
import type { DispatchRequest } from "./dispatch-request.ts";
import { messageAudience } from "./message-audience.ts";
import { type AttemptServices, type OpenedAttempt, openAttempt } from "./open-attempt.ts";
import { type PassedResponseServices, readPassedResponse } from "./passed-response.ts";
import { clientGone, type OutboundRequest, openStream } from "./send-request.ts";
import { sendWhole } from "./send-whole.ts";
import { UpstreamStream } from "./upstream-stream.ts";
import { findWholeFailure } from "./whole-failure.ts";

/** The services that one attempt uses. */
export interface AttemptDispatcher extends OutboundRequest, PassedResponseServices, AttemptServices {
  /** Null if there is one node. */
  limitBorrower: object | null;
  loop: Pick<LoopWatch, "enter">;
  timing: {
    firstByteTimeoutMs: number;
    unaryTimeoutMs: number;
    /** How long lifecycle events may be held back. */
    keepAliveMs: number;
  };
}

export interface WholeContent {
  kind: "response";
  response: UpstreamResponse;
  upstreamHeaders: ResponseHeaders;
}

export interface StreamContent {
  kind: "stream";
  stream: UpstreamStream;
  upstreamHeaders: ResponseHeaders;
}

export type UpstreamContent = WholeContent | StreamContent;
type AttemptResult = UpstreamContent | { kind: "failed"; failure: UpstreamFailure };

interface AccountAttempt {
  readonly accountSlot: AccountSlot;
  /** The body for accounts that have the client's interface. */
  readonly body: RequestBody;
}

/** What became of the request at one account. The slot stays occupied. */
type AccountResult =
  | { readonly kind: "served"; readonly content: UpstreamContent; readonly trace: AttemptTrace }
  | { readonly kind: "failed"; readonly failure: UpstreamFailure; readonly trace: AttemptTrace }
  /** Nothing was sent. Another account may have the interface itself. */
  | { readonly kind: "unusable"; readonly error: ApiError };

/** Rejects, and releases the slot, if the client disconnected or its body could not be read: no account is at fault. */
export async function tryAccount(
  dispatcher: AttemptDispatcher,
  dispatchRequest: DispatchRequest,
  { accountSlot, body }: AccountAttempt,
): Promise<AccountResult> {
  try {
    const { route } = accountSlot;
    dispatcher.loop.enter(dispatchRequest.endpoint.name, dispatchRequest.requestId);
    const prepared = prepareFor(dispatchRequest, route);
    const translated = isPending(prepared) ? await prepared : prepared;
    if (translated instanceof ApiError) return { kind: "unusable", error: translated };
    checkLeases(dispatcher, dispatchRequest, accountSlot);
    const attempt = openAttempt(dispatcher, dispatchRequest, { route, translated, body });
    const result = dispatchRequest.request.stream
      ? await tryStream(dispatcher, dispatchRequest, attempt)
      : await sendAndRead(dispatcher, dispatchRequest, attempt);
    const { trace } = attempt;
    if (result.kind !== "failed") return { kind: "served", content: result, trace };
    if (isClientDisconnect(result.failure)) {
      recordDisconnect(trace, result.failure, dispatcher.monotonicMs());
      throw clientGone();
    }
    dispatchRequest.capture?.failAttempt(result.failure);
    return { kind: "failed", failure: result.failure, trace };
  } catch (cause) {
    accountSlot.release(null);
    throw cause;
  }
}

/** A process that was frozen must not send what other nodes may send by now. */
function checkLeases(
  { limitBorrower }: AttemptDispatcher,
  { lease }: DispatchRequest,
  accountSlot: AccountSlot,
): void {
  if (limitBorrower !== null && !(lease.isHeld() && accountSlot.isHeld())) throw coordinatorLost();
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
  dispatcher: AttemptDispatcher,
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
  dispatcher: AttemptDispatcher,
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
