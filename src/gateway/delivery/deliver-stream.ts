/**
 * Delivers one stream: opens the relay to the client, and settles the request when the relay has ended. The order of
 * the end is here: health, settlement, release of the limits, end of the claim, then the body is freed.
 */

import { interruptedError, type UpstreamFailure } from "../../accounts/failure.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import type { RequestCapture } from "../../capture/request-capture.ts";
import type { ApiError } from "../../errors.ts";
import type { ResponseHeaders } from "../../net/http-client/contract.ts";
import type { Pool } from "../../pool/pool.ts";
import { type Endpoint, hasTextOutput } from "../../protocols/shared/endpoint.ts";
import { NO_FACTS } from "../../protocols/shared/response-facts.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import type { OnDisconnect } from "../../records/group.ts";
import type { UsageRow } from "../../store/usage/usage.ts";
import { type ClaimEndServices, endClaim } from "../idempotency/idempotent-requests.ts";
import { isCodex } from "../request/codex-client.ts";
import { requestLogIds } from "../request/log-ids.ts";
import { hasOpenAttempt } from "../request/trace.ts";
import type { ReservedRequest } from "../request-context.ts";
import { isStopped } from "../response-calls/background-response.ts";
import {
  type AnnouncementServices,
  announceResponse,
  type FollowServices,
  rememberResponse,
  settleOrFollow,
} from "../response-calls/remember-response.ts";
import type { RequestEnding, ResponseState } from "../settlement/request-ending.ts";
import type { ResponseRoutes } from "../stored-responses/response-routes.ts";
import type { LingeringClient } from "../stream/drains.ts";
import { isWhole, Relay, type RelayDelivery, type RelayServices, type StreamEnd } from "../stream/relay.ts";
import {
  openCounters,
  openUnpaidCounters,
  type PaidCounters,
  type StreamCounters,
} from "../stream/stream-counters.ts";
import type { StreamUpstreamResult, UpstreamResult } from "../upstream/dispatch.ts";
import type { DispatchRequest } from "../upstream/dispatch-request.ts";
import { messageAudience } from "../upstream/message-audience.ts";
import type { UpstreamStream } from "../upstream/upstream-stream.ts";
import {
  buildDispatchRequest,
  type DispatchRequestServices,
  type DrainServices,
  drainOwner,
  openLingeringClient,
  openReader,
} from "./build-dispatch-request.ts";

type StreamServices = DrainServices &
  DispatchRequestServices &
  RelayServices &
  FollowServices &
  AnnouncementServices &
  ClaimEndServices & {
    readonly billingEngine: Pick<BillingEngine, "checkpoint">;
    readonly responses: Pick<ResponseRoutes, "add">;
    readonly dispatcher: { readonly pool: Pick<Pool, "recordStreamEnd"> };
  };

export class StreamDelivery implements RelayDelivery {
  readonly dispatchRequest: DispatchRequest;
  readonly waitingSinceMs: number;
  readonly #services: StreamServices;
  readonly #context: ReservedRequest;
  /** Counts the output of a paid stream, which ends when it exceeds its hold. */
  readonly #paidCounters: PaidCounters | null;
  readonly #counters: StreamCounters | null;
  readonly #lingeringClient: LingeringClient | null;
  #result: StreamUpstreamResult | null = null;
  /** The error that ended the stream because its output exceeded the hold. */
  #stoppedBy: ApiError | null = null;
  #isReleased = false;
  #endInFlight: (() => void) | null = null;

  constructor(services: StreamServices, context: ReservedRequest) {
    const { call, charge, endpoint } = context;
    this.#services = services;
    this.#context = context;
    this.#paidCounters =
      charge !== null && hasTextOutput(endpoint)
        ? openCounters(services.billingEngine, call.requestId, charge)
        : null;
    this.#counters = this.#paidCounters ?? (hasTextOutput(endpoint) ? openUnpaidCounters() : null);
    this.#lingeringClient = openLingeringClient(services, context);
    this.dispatchRequest = buildDispatchRequest(services, context, {
      client: this.#lingeringClient ?? call.request,
      counters: this.#counters,
    });
    this.waitingSinceMs = services.clock.monotonicMs();
  }

  /** The headers of the account's response; null until it has responded. */
  get upstreamHeaders(): ResponseHeaders | null {
    return this.#result?.upstreamHeaders ?? null;
  }

  /** Resolves when an account has begun to respond. */
  async open(dispatched: Promise<UpstreamResult>): Promise<UpstreamStream> {
    try {
      const stream = this.#accept(await dispatched);
      // Remembered from the first event on, so that a long-running response can be cancelled by its id.
      const responseId = this.#remember(stream.reader, "streaming");
      if (this.#context.request.background) void announceResponse(this.#services, this.#context, responseId);
      return stream;
    } finally {
      this.#lingeringClient?.stopLingering();
    }
  }

  /** The request occupies the account's slot until the stream has ended upstream. */
  #accept(result: UpstreamResult): UpstreamStream {
    const { accountSlot } = result;
    this.#context.accountSlot = accountSlot;
    // The client disconnected while an account was being selected.
    if (this.#isReleased) accountSlot.release(null);
    if (result.kind !== "stream") throw new Error("expected a stream, received a whole response");
    this.#result = result;
    return result.stream;
  }

  /** Makes the response retrievable if the upstream stores it. Returns the id for that, or null. */
  #remember(reader: StreamReader | null, state: "streaming" | ResponseState): string | null {
    const responseId = reader?.responseId ?? null;
    return rememberResponse(this.#services.responses, this.#context, { responseId, state });
  }

  /** Starts the relay of the stream, which may still be opening. */
  startRelay(opening: Promise<UpstreamStream>): Relay {
    const relay = new Relay(this.#services, opening, this);
    this.#endInFlight = this.#services.inFlight.register(() => relay.shutDown());
    if (this.#lingeringClient !== null && this.#context.call.request.signal.aborted) {
      // The client disconnected, so the stream is discarded or drained without a reader.
      relay.abort();
    }
    return relay;
  }

  // What the relay needs of the request.

  get requestId(): string {
    return this.#context.call.requestId;
  }

  get isPaid(): boolean {
    return this.#context.charge !== null;
  }

  get keepAlive(): Uint8Array {
    return this.#context.endpoint.api.keepAlive;
  }

  get needsDataEvents(): boolean {
    return isCodex(this.#context.call.request.headers);
  }

  get capture(): RequestCapture | null {
    return this.#context.capture;
  }

  /** A background response needs no reader: the client polls it by its id. */
  get onDisconnect(): OnDisconnect {
    const { request, caller } = this.#context;
    const responseId = this.#result?.stream.reader.responseId ?? null;
    return request.background && responseId !== null ? "cancel" : caller.group.onDisconnect;
  }

  openSpareReader(): StreamReader {
    return openReader(this.#services, this.#context, null);
  }

  describeFailure(failure: UpstreamFailure): ApiError {
    const { request, trace } = this.#context;
    return interruptedError(failure, messageAudience(request, trace.route));
  }

  checkpoint(): ApiError | null {
    this.#stoppedBy = this.#paidCounters?.checkpoint() ?? null;
    return this.#stoppedBy;
  }

  tryStartDrain(): boolean {
    return this.#services.drains.tryAcquire(drainOwner(this.#context.caller));
  }

  endDrain(): void {
    this.#services.drains.release(drainOwner(this.#context.caller));
  }

  closeConnection(): void {
    this.#context.call.closeConnection();
  }

  // The end.

  settle(end: StreamEnd): Promise<void> | null {
    const services = this.#services;
    const context = this.#context;
    this.#recordEnd(end);
    const state = this.#readState(end);
    const responseId = this.#remember(end.reader, state);
    if (state === "left") void announceResponse(services, context, responseId);
    const settled = settleOrFollow(services, context, this.#buildEnding(end, state, responseId));
    this.#release(end);
    const { claim } = context;
    // Streams are not stored. A repeat with the same key gets the error that the request has ended.
    const ended =
      claim === null ? settled : Promise.resolve(settled).then(() => endClaim(services, claim, null));
    const finish = () => this.#finish();
    if (ended === null) finish();
    else ended.then(finish, finish);
    return ended;
  }

  /** Records the end in the health of the account. */
  #recordEnd(end: StreamEnd): void {
    const { log, dispatcher } = this.#services;
    const { trace } = this.#context;
    const { route } = trace;
    const firstContentMs = this.#result?.stream.firstContentMs ?? null;
    if (firstContentMs !== null) trace.firstContentMs = Math.round(firstContentMs - trace.startedMs);
    const badEvents = end.reader?.badEvents ?? 0;
    if (badEvents > 0) {
      log.warn("bad_events", {
        ...requestLogIds(this.#context),
        account_id: route?.account.id ?? null,
        events: badEvents,
      });
    }
    if (route === null) return;
    if (end.kind === "complete") {
      dispatcher.pool.recordStreamEnd(route);
    } else if (end.kind === "broken" && end.interruption !== null) {
      dispatcher.pool.recordBrokenStream(route, end.interruption);
    }
  }

  /** The state of the response upstream when its stream has ended here. */
  #readState(end: StreamEnd): ResponseState {
    if (end.kind === "complete") return "ended";
    // The response continues upstream. A paid one is polled to its end; for an unpaid one a later GET reports its usage.
    if (this.#context.request.background) return "background";
    const isCutHere = end.kind === "broken" && (end.interruption !== null || end.error === this.#stoppedBy);
    return isCutHere || (end.kind === "client_gone" && !end.isWhole) ? "left" : "ended";
  }

  /** `responseId` is the id by which the response can be retrieved; null if it is not stored. */
  #buildEnding(end: StreamEnd, responseState: ResponseState, responseId: string | null): RequestEnding {
    const { reader } = end;
    const { trace } = this.#context;
    const counter = this.#counters?.current() ?? null;
    const isCancelled = end.kind === "complete" && isStopped(end.reader.outcome, end.reader);
    return {
      outcome: responseState === "background" && responseId !== null ? "pending" : readOutcome(end),
      status: 200,
      error: end.kind === "broken" ? end.error : null,
      usage: reader?.usage ?? null,
      images: reader?.images ?? 0,
      imageKind: reader?.imageKind ?? null,
      responseId,
      responseState,
      isServed: reader !== null || (end.kind === "client_gone" && hasOpenAttempt(trace)),
      isWhole: isWhole(end) && !isCancelled,
      countOutput: counter === null ? null : () => counter.exact(),
      estimateShown: counter === null ? null : () => counter.estimateShown(),
      isAbandoned: isCancelled || (end.kind === "client_gone" && !end.isWhole && end.abortedBy === "client"),
      describeResponse: () => reader?.describe?.() ?? NO_FACTS,
    };
  }

  /** Releases the concurrency of the caller and of the account. */
  #release(end: StreamEnd): void {
    this.#isReleased = true;
    const { request, lease, accountSlot, followUp } = this.#context;
    // The caller's concurrency stays occupied until the abandoned response is settled: a client that disconnects and
    // repeats must not exceed its limits.
    if (end.kind === "client_gone" && !request.background && followUp !== null)
      void followUp.then(() => lease.release());
    else lease.release();
    // The upstream counts the request as running until its connection is done, which is later than the last event.
    const closing = this.#result?.stream.closing() ?? null;
    if (closing === null) accountSlot?.release(null);
    else void closing.then(() => accountSlot?.release(null));
  }

  /** The request is settled. Not earlier: if the upstream reports no usage, the input is counted from the body. */
  #finish(): void {
    const { request, conversationMemory, followUp } = this.#context;
    if (followUp === null) {
      void request.body.dispose();
      conversationMemory?.release();
    }
    this.#endInFlight?.();
  }
}

/** Codex compacts its context on this error, but only if it arrives as a stream event. */
export function isSentAsEvent(error: ApiError, endpoint: Endpoint): boolean {
  return error.code === "context_length_exceeded" && endpoint.sendsContextErrorAsEvent;
}

function readOutcome(end: StreamEnd): UsageRow["outcome"] {
  switch (end.kind) {
    case "client_gone":
      return "client_gone";
    case "broken":
      return end.interruption === null ? "failed" : "upstream_cut";
    case "complete":
      return end.reader.outcome;
  }
}
