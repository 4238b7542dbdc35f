/**
 * Calls on a stored response: retrieve, delete, cancel, list its input items. They go to the account that created the
 * response, unless the gateway stores it itself, and only for the key that created it; for other keys it does not exist.
 */

import type { PolicyAccount } from "../../accounts/account.ts";
import {
  clientError,
  interruptedError,
  type UpstreamFailure,
  upstreamFailure,
} from "../../accounts/failure.ts";
import { forwardedResponseHeaders, upstreamRequestId } from "../../accounts/headers.ts";
import type { Clock } from "../../base/clock.ts";
import type { LateUsage } from "../../billing/late-usage.ts";
import { ApiError } from "../../errors.ts";
import { computeTariffCosts, NO_COSTS } from "../../money/tariff.ts";
import type { ResponseHeaders } from "../../net/http-client/contract.ts";
import { type HeaderLines, type HttpResponse, StreamedResponse } from "../../net/wire/http-message.ts";
import { KEEP_ALIVE } from "../../net/wire/sse-format.ts";
import type { Log } from "../../observe/log.ts";
import type { LoopWatch } from "../../observe/loop-watch.ts";
import type { LivePolicy } from "../../policy/live-policy.ts";
import { RESPONSES } from "../../protocols/responses/responses-endpoints.ts";
import { openResponsesReader } from "../../protocols/responses/responses-stream.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import type { Audience } from "../../protocols/shared/upstream-error.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import { readResponseEnd, type UpstreamResponse } from "../../protocols/whole-response.ts";
import type { Db } from "../../store/engine/db.ts";
import { hasAccount } from "../../store/policy/accounts.ts";
import type { PendingUse } from "../../store/usage/usage.ts";
import { allowInterface } from "../admission/admit.ts";
import { type Authenticator, authenticate } from "../admission/authenticate.ts";
import type { KeyRate, KeySlots } from "../admission/key-limits.ts";
import type { BodyOwner, BodyReservation } from "../bodies/body-budget.ts";
import { SMALL_BODY_BYTES_MAX } from "../bodies/body-memory.ts";
import type { Call } from "../call.ts";
import { isClientDisconnect } from "../client-disconnect.ts";
import { EVENT_STREAM_LINES, JSON_LINES } from "../endpoints/error-response.ts";
import { asReported } from "../metering/meter.ts";
import { boundLateReport, type MeteredModel } from "../metering/usage-bounds.ts";
import { findGroupOfAccount } from "../steps/conversation-holder.ts";
import { noRoomForResponse } from "../stored-responses/record-loader.ts";
import type { ResponseRoute, ResponseRoutes } from "../stored-responses/response-routes.ts";
import type { KeepAliveTimer } from "../stream/keep-alive-timer.ts";
import { Relay, type RelayTiming } from "../stream/relay.ts";
import { type PassedResponseServices, readPassedResponse } from "../upstream/passed-response.ts";
import {
  clientGone,
  type OutboundRequest,
  openStream,
  sendRequest,
  type UpstreamAttempt,
} from "../upstream/send-request.ts";
import { type OpenedStream, UpstreamStream } from "../upstream/upstream-stream.ts";
import { callOwnResponse, type OwnResponseServices, type StoredCall } from "./own-response.ts";
import { sendStored } from "./send-stored.ts";

type PricedRoute = ResponseRoute & { terms: MeteredModel };

/** Query parameters that are forwarded upstream; all others are dropped. */
const FORWARDED_QUERY = [
  "include",
  "include[]",
  "stream",
  "starting_after",
  "include_obfuscation",
  "after",
  "limit",
  "order",
];

/**
 * What a key has in progress at its upstreams: beside the concurrency of its requests, because a key whose only request
 * is in flight must be able to poll, continue and cancel it.
 */
export interface ForwardedStoredCalls {
  readonly reads: KeySlots;
  /** Cancelling and deleting never wait for reads. */
  readonly endings: KeySlots;
  readonly streams: KeySlots;
}

/** The services that calls on stored responses use. */
interface StoredResponseServices extends OwnResponseServices {
  readonly clock: Clock;
  readonly log: Pick<Log, "error">;
  readonly loop: Pick<LoopWatch, "enter">;
  readonly db: Db;
  readonly policy: Pick<LivePolicy, "snapshot">;
  readonly auth: Authenticator;
  readonly reads: Pick<KeyRate, "take">;
  readonly storedResponseCalls: Pick<KeyRate, "take">;
  readonly forwardedStoredCalls: ForwardedStoredCalls;
  readonly lateUsage: Pick<LateUsage, "add">;
  readonly responses: Pick<ResponseRoutes, "find" | "add" | "remove">;
  readonly dispatcher: OutboundRequest &
    PassedResponseServices & {
      readonly eventBytesMax: number;
      readonly timing: {
        readonly firstByteTimeoutMs: number;
        readonly unaryTimeoutMs: number;
        readonly keepAliveMs: number;
      };
    };
  readonly keepAliveTimer: KeepAliveTimer;
  readonly timing: RelayTiming;
}

/** A call on a stored response, and the account that has it. */
interface Lookup {
  services: StoredResponseServices;
  call: Call;
  stored: StoredCall;
  route: PricedRoute;
  account: PolicyAccount;
  audience: Audience;
  /** The key of the caller. */
  owner: BodyOwner;
}

export async function callStoredResponse(
  services: StoredResponseServices,
  call: Call,
  stored: StoredCall,
): Promise<HttpResponse> {
  const snapshot = services.policy.snapshot();
  const caller = authenticate(call.request.headers, snapshot, services.auth, call);
  allowInterface(caller, { interface: "responses" });
  // A stored input may be long.
  const rate = stored.action === "/input_items" ? services.reads : services.storedResponseCalls;
  rate.take(caller.key.id);
  const own = await callOwnResponse(services, {
    ...stored,
    owner: caller.key,
    client: call.request,
    requestId: call.requestId,
  });
  if (own !== null) return own;
  const knownRoute = await services.responses.find(stored.responseId, caller.key.id);
  if (!knownRoute) throw notFound(stored.responseId);
  const holder = findGroupOfAccount(caller.group, knownRoute.accountId);
  // A response that was created by another process, or before a restart, is priced at the current price.
  const route = {
    ...knownRoute,
    terms: knownRoute.terms ?? holder?.group.models.get(knownRoute.publicModel) ?? NO_TERMS,
  };
  if (holder === null) {
    const mayComeBack = await hasAccount(services.db, route.accountId);
    throw mayComeBack ? temporarilyUnavailable(stored.responseId) : notFound(stored.responseId);
  }
  const { account } = holder;
  // After deletion the usage could no longer be read.
  if (stored.method === "DELETE" && route.checkSettled !== undefined && !(await route.checkSettled()))
    throw stillInProgress();
  const audience: Audience = { ...route, account, mentions: (word) => word === stored.responseId };
  const lookup = { services, call, stored, route, account, audience, owner: caller.key };
  const wantsEvents = stored.method === "GET" && stored.query.get("stream") === "true";
  return wantsEvents ? forwardStream(lookup) : forwardWhole(lookup);
}

/**
 * Reads of a key take turns, and so do its other calls. A long response counts as memory while it arrives, and until its
 * client has read it.
 */
async function forwardWhole(lookup: Lookup): Promise<HttpResponse> {
  const { services, call, stored, owner } = lookup;
  const { reads, endings } = services.forwardedStoredCalls;
  const slots = stored.method === "GET" ? reads : endings;
  const slot = slots.take(owner.id);
  if (slot === null) throw tooManyCalls();
  const memory = services.bodyBudget.open(owner, call.request);
  const release = () => {
    memory.release();
    slots.free(owner.id);
  };
  await slot;
  try {
    if (call.request.signal.aborted) throw clientGone();
    return await forwardWithin(lookup, { memory, release });
  } catch (error) {
    release();
    throw error;
  }
}

/** `release` is called when the client has read the response, unless this throws. */
interface ForwardMemory {
  readonly memory: BodyReservation;
  readonly release: () => void;
}

async function forwardWithin(lookup: Lookup, held: ForwardMemory): Promise<HttpResponse> {
  const { memory } = held;
  const { services, call, stored, route, audience } = lookup;
  const { dispatcher, responses } = services;
  let isFull = false;
  const reserveResponse = (bytes: number) => {
    // A long response is joined, so it is in memory twice.
    isFull = bytes > SMALL_BODY_BYTES_MAX && !memory.growNow(2 * bytes);
    return !isFull;
  };
  const result = await sendRequest(dispatcher, { ...buildAttempt(lookup, false), reserveResponse });
  if (isFull) throw noRoomForResponse(memory.budget);
  if (result.kind === "failed") throw toApiError(result.failure, lookup);
  const terms = { endpoint: RESPONSES, audience, owner: lookup.account.name };
  const response = await readPassedResponse(dispatcher, result.body, terms);
  if (response.kind !== "response") {
    throw clientError(upstreamFailure("bad_answer", "not a JSON object"), audience);
  }
  if (stored.method === "DELETE") responses.remove(stored.responseId);
  if (stored.action !== "/input_items") await settleBackground(lookup, response);
  const lines = `${JSON_LINES}x-request-id: ${call.requestId}\r\n${buildForwardedHeaders(result.headers, route)}`;
  return await sendStored(lines, response.body, held);
}

function tooManyCalls(): ApiError {
  return new ApiError(
    "rate_limit_exceeded",
    "Too many calls on stored responses of this API key wait to be served. Please try again in 1s.",
    { headers: { "retry-after": "1" } },
  );
}

function tooManyStreams(): ApiError {
  return new ApiError(
    "rate_limit_exceeded",
    "Too many streams of stored responses of this API key are open. Close one of them, or retrieve the response without `stream`.",
    { headers: { "retry-after": "1" } },
  );
}

function buildForwardedHeaders(from: ResponseHeaders, { publicModel }: ResponseRoute): HeaderLines {
  return forwardedResponseHeaders(from, publicModel, upstreamRequestId(from));
}

function buildAttempt(
  { services, call, stored, route, account }: Lookup,
  wantsEvents: boolean,
): UpstreamAttempt {
  const { timing } = services.dispatcher;
  const query = new URLSearchParams();
  for (const name of FORWARDED_QUERY)
    for (const value of stored.query.getAll(name)) query.append(name, value);
  const tail = query.size === 0 ? "" : `?${query}`;
  return {
    account,
    method: stored.method,
    path: `/responses/${encodeURIComponent(stored.responseId)}${stored.action}${tail}`,
    upstreamModel: route.upstreamModel,
    clientHeaders: call.request.headers,
    body: null,
    wantsEvents,
    deadlineMs: wantsEvents ? timing.firstByteTimeoutMs : timing.unaryTimeoutMs,
    client: call.request,
  };
}

function toApiError(failure: UpstreamFailure, { stored, audience }: Lookup): ApiError {
  if (isClientDisconnect(failure)) return clientGone();
  return failure.status === 404 ? notFound(stored.responseId) : clientError(failure, audience);
}

/** A stream may take as long as its response, so none waits for another one. */
async function forwardStream(lookup: Lookup): Promise<HttpResponse> {
  const { services, owner } = lookup;
  const { streams } = services.forwardedStoredCalls;
  if (streams.take(owner.id) === null) throw tooManyStreams();
  const release = () => streams.free(owner.id);
  try {
    return await openStoredStream(lookup, release);
  } catch (error) {
    release();
    throw error;
  }
}

/** `release` is called at the end of the stream, unless this throws. */
async function openStoredStream(lookup: Lookup, release: () => void): Promise<HttpResponse> {
  const { services, call, route, audience } = lookup;
  const { dispatcher, clock } = services;
  const openReader = () =>
    openResponsesReader({
      publicModel: route.publicModel,
      depthMax: dispatcher.jsonDepthMax,
      nowMs: clock.nowMs,
    });
  let lines = `${EVENT_STREAM_LINES}x-request-id: ${call.requestId}\r\n`;
  const opened = await new Promise<OpenedStream>((resolve) => {
    openStream(dispatcher, buildAttempt(lookup, true), {
      check: () => null,
      open(upstreamHeaders, upstreamCall) {
        lines += buildForwardedHeaders(upstreamHeaders, route);
        return new UpstreamStream(
          {
            upstreamCall,
            reader: openReader(),
            deadlines: dispatcher.deadlines,
            eventBytesMax: dispatcher.eventBytesMax,
            holdMs: dispatcher.timing.keepAliveMs,
            monotonicMs: clock.monotonicMs,
            enterTurn: () => services.loop.enter("stored_response", call.requestId),
          },
          resolve,
        );
      },
      fail: (failure) => resolve({ kind: "failed", failure }),
    });
  });
  if (opened.kind === "failed") throw toApiError(opened.failure, lookup);
  const relay = new Relay(services, Promise.resolve(opened.stream), {
    openSpareReader: openReader,
    requestId: call.requestId,
    onDisconnect: "cancel",
    isPaid: false,
    keepAlive: KEEP_ALIVE,
    needsDataEvents: false,
    describeFailure: (failure) => interruptedError(failure, audience),
    settle(end) {
      release();
      return end.kind === "complete" ? settleStreamed(lookup, end.reader) : null;
    },
    checkpoint: () => null,
    tryStartDrain: () => false,
    endDrain() {},
    closeConnection: () => call.closeConnection(),
    capture: null,
  });
  return new StreamedResponse(lines, relay);
}

/** The client has its response, so a failed settlement is only logged. */
async function settleStreamed(lookup: Lookup, { outcome, usage }: StreamReader): Promise<void> {
  try {
    await settleBackground(lookup, { status: outcome, usage });
  } catch (error) {
    lookup.services.log.error("background_settle_failed", {
      request_id: lookup.route.requestId,
      reason: error instanceof Error ? error.message : "unknown",
    });
  }
}

/** A background response reports its usage when it is fetched later. The first report goes into its usage row. */
async function settleBackground(
  { services, stored, route }: Lookup,
  response: UpstreamResponse | Pick<UpstreamResponse, "status" | "usage">,
): Promise<void> {
  const outcome = readResponseEnd(response);
  if (outcome === null) return;
  // The response is paid: its output is not served before it is settled.
  if (route.checkSettled !== undefined) {
    await route.checkSettled("body" in response ? { outcome, response } : undefined);
    // Settled by estimate while this response was in flight: then it is no longer retrievable.
    const isKnown = (await services.responses.find(stored.responseId, route.keyId)) !== null;
    if (!isKnown) throw notFound(stored.responseId);
    return;
  }
  if (!route.pending) return;
  await services.lateUsage.add(route.requestId, lateUse(response.usage, route.terms), outcome);
  const { terms: _, ...settled } = route;
  services.responses.add(stored.responseId, { ...settled, pending: false });
}

/** Returns null if no plausible usage was reported. */
function lateUse(usage: TokenUsage | null, terms: MeteredModel): PendingUse | null {
  const report = usage === null ? null : boundLateReport(usage, terms);
  if (usage === null || report === null || report.verdict === "implausible") return null;
  const { tokens } = asReported(report.usage, 0);
  const { tariff } = terms;
  const usageTerms = { imageKind: null, tier: usage.tier };
  return { tokens, ...(tariff === null ? NO_COSTS : computeTariffCosts(tariff, tokens, usageTerms)) };
}

const NO_TERMS: MeteredModel = { tariff: null, contextTokens: null, outputTokensMax: null };

function stillInProgress(): ApiError {
  return new ApiError(
    "invalid_request",
    "This response is still in progress and is charged when it ends. Cancel the response first, then delete it.",
    { param: "response_id" },
  );
}

/** The account is disabled or no longer in the group. Not a 404, which clients would treat as final. */
function temporarilyUnavailable(responseId: string): ApiError {
  return new ApiError(
    "no_available_account",
    `Response with id '${responseId.slice(0, 128)}' is temporarily unavailable because the account that stores it is disabled. Try again later, or contact your administrator.`,
    { headers: { "x-should-retry": "false" } },
  );
}

function notFound(responseId: string): ApiError {
  return new ApiError("response_not_found", `Response with id '${responseId.slice(0, 128)}' not found.`, {
    param: "response_id",
  });
}
