/**
 * Sends the request to an account that can serve it. Until content is delivered, a failure is invisible to the client:
 * dispatch fails over to the next account, never to the same one twice, and returns the most useful error if all fail.
 * While every account is busy, limited or overloaded the request waits in the queue, if its group allows it.
 */

import {
  classifyError,
  clientError,
  mayTryAnother,
  moreUsefulFailure,
  refineFailure,
  type UpstreamFailure,
  upstreamFailure,
} from "../../accounts/failure.ts";
import { upstreamRequestId } from "../../accounts/headers.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import type { ApiError } from "../../errors.ts";
import type { AnswerHeaders } from "../../net/http-client/contract.ts";
import type { Log } from "../../observe/log.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Pool } from "../../pool/pool.ts";
import type { WaitingQueue } from "../../pool/waiting-queue.ts";
import type { Endpoint, ModelRequest, RequestBody } from "../../protocols/shared/request.ts";
import type { Audience } from "../../protocols/shared/upstream-error.ts";
import {
  isEmptyResponse,
  readWholeResponse,
  type UpstreamResponse,
} from "../../protocols/shared/whole-response.ts";
import { clientRequestId } from "../request/client-request-id.ts";
import { beginAttempt, failAttempt, latencyMs, noteFirstByte, noteWastedUsage } from "../request/trace.ts";
import { type AccountSlot, takeAccountSlot } from "./account-slot.ts";
import type { Conversation, UpstreamAttempt } from "./attempt.ts";
import { withRetryTime } from "./no-account.ts";
import type { RetryBudget } from "./retry-budget.ts";
import {
  CLIENT_LEFT,
  clientGone,
  type OutboundRequest,
  openStream,
  sendRequest,
  type UpstreamExchange,
  type WholeResult,
} from "./send-request.ts";
import { openUpstreamStream, type UpstreamStream } from "./upstream-stream.ts";

export interface Dispatcher extends OutboundRequest {
  pool: Pool;
  till: Pick<BillingEngine, "dispatched" | "undispatched">;
  room: WaitingQueue;
  retries: RetryBudget;
  monotonicMs(): number;
  log: Log;
  timing: {
    firstByteTimeoutMs: number;
    unaryTimeoutMs: number;
    /** How long lifecycle events may be held back. */
    keepAliveMs: number;
  };
  attemptsMax: number;
  eventBytesMax: number;
  jsonDepthMax: number;
}

export type UpstreamResult =
  | { kind: "answer"; answer: UpstreamResponse; upstreamHeaders: AnswerHeaders }
  | { kind: "stream"; stream: UpstreamStream; upstreamHeaders: AnswerHeaders };
type AttemptResult = UpstreamResult | { kind: "failed"; failure: UpstreamFailure };

/** The response of an account. The receiver releases the slot when the response is over. */
export interface UpstreamDelivery {
  place: AccountSlot;
  given: UpstreamResult;
}

const NONE_TRIED: ReadonlySet<AccountRoute> = new Set();

/** Rejects with the `ApiError` for the client if no account could serve the request. */
export async function dispatch(dispatcher: Dispatcher, attempt: UpstreamAttempt): Promise<UpstreamDelivery> {
  const { pool } = dispatcher;
  const retries = dispatcher.retries.open();
  let tried = NONE_TRIED;
  let { body } = attempt.request;
  let last: ApiError | null = null;
  let isNotFoundElsewhere = false;
  try {
    for (let attempts = 0; attempts < dispatcher.attemptsMax; attempts++) {
      const pendingSlot = takeAccountSlot(dispatcher, attempt, tried, last);
      const place = pendingSlot instanceof Promise ? await pendingSlot : pendingSlot;
      const { route } = place;
      let outcome: AttemptResult;
      try {
        const sent = attempt.cap === null ? body : attempt.cap.putInto(body, route);
        const exchange = beginExchange(dispatcher, attempt, sent, route);
        outcome = attempt.request.stream
          ? await tryStream(dispatcher, attempt, exchange)
          : classifyWholeResult(dispatcher, attempt, route, await sendRequest(dispatcher, exchange));
      } catch (cause) {
        // The client disconnected, or its body could not be read. The account is not at fault.
        place.release(null);
        throw cause;
      }
      if (outcome.kind !== "failed") {
        pool.succeeded(route, latencyMs(attempt.trace), outcome.upstreamHeaders);
        if (isNotFoundElsewhere && attempt.affinity !== null)
          pool.moved(attempt.routes, attempt.affinity, route);
        return { place, given: outcome };
      }
      if (outcome.failure === CLIENT_LEFT) {
        place.release(null);
        throw clientGone();
      }
      const failure = refineFailure(body, outcome.failure);
      place.abandon(failure);
      if (attempt.isCharged) dispatcher.till.undispatched(attempt.requestId);
      logFailure(dispatcher.log, attempt, route, failure);
      // No further attempt for a client that disconnected, even if its response would be drained.
      if (attempt.client.signal.aborted || attempt.client.inPerson?.signal.aborted) throw clientGone();
      const flaw = failure.class === "rejected" ? await body.flaw() : null;
      const error = flaw ?? clientError(failure, messageAudience(attempt.request, route));
      last = moreUsefulFailure(last, error);
      // The upstream rejected the gateway's own output cap. Without it, or with another parameter, the same account may
      // succeed.
      if (attempt.cap?.isRefused(route, failure)) continue;
      const readable = error.code === "invalid_encrypted_content" ? body.withoutEncryptedReasoning() : null;
      if (readable !== null) {
        // The conversation started on another account. Without the encrypted reasoning that only that account can
        // decrypt, this one can continue it.
        body = readable;
        continue;
      }
      isNotFoundElsewhere ||= failure.class === "not_here";
      tried = new Set([...tried, route]);
      if (!mayTryAnother(failure) || !retries.mayRetry()) break;
    }
  } finally {
    retries.close();
  }
  const error =
    last ?? clientError(upstreamFailure("connect", "no account"), messageAudience(attempt.request, null));
  throw withRetryTime(error, pool, attempt);
}

export function messageAudience(request: ModelRequest, route: AccountRoute | null): Audience {
  return new RequestAudience(request, route);
}

/** A class, because one object per response is cheaper than closures. */
class RequestAudience implements Audience {
  readonly publicModel: string;
  readonly upstreamModel: string;
  readonly account: AccountRoute["account"] | null;
  private readonly request: ModelRequest;

  constructor(request: ModelRequest, route: AccountRoute | null) {
    this.publicModel = request.publicModel;
    this.upstreamModel = route?.upstreamModel ?? request.publicModel;
    this.account = route?.account ?? null;
    this.request = request;
  }

  get wantsBase64(): boolean {
    return this.request.wantsBase64;
  }

  mentions(word: string): boolean {
    return this.request.body.mentions(word);
  }
}

function beginExchange(
  dispatcher: Dispatcher,
  attempt: UpstreamAttempt,
  body: RequestBody,
  route: AccountRoute,
): UpstreamExchange {
  const { request, endpoint, trace } = attempt;
  const { timing } = dispatcher;
  const { account, upstreamModel } = route;
  beginAttempt(trace, route, dispatcher.monotonicMs());
  if (attempt.isCharged) dispatcher.till.dispatched(attempt.requestId, account.id, upstreamModel);
  return {
    account,
    method: "POST",
    path: endpoint.path,
    upstreamModel,
    clientHeaders: attempt.clientHeaders,
    body: { contentType: body.contentType, content: body.forUpstream(upstreamModel) },
    turn: attempt.conversation === null ? null : buildTurn(attempt.conversation, body, upstreamModel),
    wantsEvents: request.stream,
    deadlineMs: request.stream ? timing.firstByteTimeoutMs : timing.unaryTimeoutMs,
    client: attempt.client,
  };
}

/** What a WebSocket needs about a turn, in addition to the whole request. */
function buildTurn(
  { thread, heard }: Conversation,
  body: RequestBody,
  upstreamModel: string,
): NonNullable<UpstreamExchange["turn"]> {
  const tail = heard && {
    responseId: heard.responseId,
    body: () => body.forUpstreamAfter(upstreamModel, heard),
  };
  return { thread, tail };
}

function classifyWholeResult(
  dispatcher: Dispatcher,
  attempt: UpstreamAttempt,
  route: AccountRoute,
  result: WholeResult,
): AttemptResult {
  if (result.kind === "left") throw recordClientLeft(attempt, result.wasSent, dispatcher.monotonicMs());
  if (result.kind === "failed") return result;
  const { headers: upstreamHeaders, body } = result;
  noteFirstByte(attempt.trace, upstreamRequestId(upstreamHeaders), dispatcher.monotonicMs());
  const failure = checkJson(upstreamHeaders);
  if (failure !== null) return { kind: "failed", failure: failure };
  const { endpoint, request, trace } = attempt;
  const answer = readWholeResponse(
    body,
    endpoint.name,
    messageAudience(request, route),
    dispatcher.jsonDepthMax,
  );
  switch (answer.kind) {
    case "answer":
      // A 200 whose body is not a response: an error in an unknown format, or a notice of a proxy.
      if (!answer.hasSubstance)
        return { kind: "failed", failure: upstreamFailure("bad_answer", "not an answer", 200) };
      if (!isEmpty(answer, endpoint)) return { kind: "answer", answer, upstreamHeaders };
      noteWastedUsage(trace, answer.usage);
      return { kind: "failed", failure: upstreamFailure("bad_answer", "an empty answer", 200) };
    case "error":
      return { kind: "failed", failure: classifyError(200, answer.error, null) };
    case "malformed":
      return {
        kind: "failed",
        failure: upstreamFailure("bad_answer", "the answer is not a JSON object", 200),
      };
  }
}

function tryStream(
  dispatcher: Dispatcher,
  attempt: UpstreamAttempt,
  exchange: UpstreamExchange,
): Promise<AttemptResult> {
  return new Promise((resolve, reject) => {
    openStream(dispatcher, exchange, {
      begin(upstreamHeaders, line) {
        noteFirstByte(attempt.trace, upstreamRequestId(upstreamHeaders), dispatcher.monotonicMs());
        const failure = checkEventStream(upstreamHeaders, attempt.endpoint);
        if (failure !== null) {
          line.hangUp();
          resolve({ kind: "failed", failure: failure });
        }
        const reader = attempt.openReader();
        return openUpstreamStream(
          {
            line,
            reader,
            alarms: dispatcher.alarms,
            eventBytesMax: dispatcher.eventBytesMax,
            holdMs: dispatcher.timing.keepAliveMs,
            monotonicMs: dispatcher.monotonicMs,
          },
          (opened) => {
            if (opened.kind === "open") resolve({ kind: "stream", stream: opened.stream, upstreamHeaders });
            else {
              noteWastedUsage(attempt.trace, reader.usage);
              resolve(opened);
            }
          },
        );
      },
      failed: (failure) => resolve({ kind: "failed", failure }),
      left: (wasSent) => reject(recordClientLeft(attempt, wasSent, dispatcher.monotonicMs())),
    });
  });
}

/** If no byte of the request was sent, no account processed it and it is not charged. */
function recordClientLeft(attempt: UpstreamAttempt, wasSent: boolean, nowMs: number): ApiError {
  if (!wasSent)
    failAttempt(attempt.trace, upstreamFailure("connect", "the client left before anything was sent"), nowMs);
  return clientGone();
}

/** A success with zero output tokens and no content is treated as a failure. */
function isEmpty({ usage, status, body }: UpstreamResponse, { name }: Endpoint): boolean {
  if (usage?.outputTokens !== 0) return false;
  return (
    (name === "chat.completions" || (name === "responses" && status === "completed")) && isEmptyResponse(body)
  );
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
    const isWholeImageResponse = endpoint.interface === "images" && isOfType(type, "application/json");
    return isWholeImageResponse
      ? upstreamFailure("unstreamed", "a whole answer where a stream was asked for", 200)
      : wrongType();
  }
  const isCompressed = (headers.get("content-encoding") ?? "identity") !== "identity";
  return isCompressed ? upstreamFailure("bad_answer", "a packed stream", 200) : null;
}

function isOfType(type: string, wanted: string): boolean {
  return type === wanted || type.toLowerCase().startsWith(wanted);
}

function wrongType(): UpstreamFailure {
  return upstreamFailure("bad_answer", "wrong content type", 200);
}

function logFailure(log: Log, attempt: UpstreamAttempt, route: AccountRoute, failure: UpstreamFailure): void {
  log.warn("attempt_failed", {
    request_id: attempt.requestId,
    client_request_id: clientRequestId(attempt.clientHeaders),
    account_id: route.account.id,
    model: attempt.request.publicModel,
    class: failure.class,
    status: failure.status,
    reason: failure.reason,
  });
}
