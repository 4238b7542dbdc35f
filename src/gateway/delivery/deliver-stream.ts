/**
 * Delivers one stream: the relay to the client, what it needs of the request, and what its end means. The pipeline
 * dispatches the attempt and settles the end.
 */

import { interruptedError, type UpstreamFailure } from "../../accounts/failure.ts";
import type { Clock } from "../../base/clock.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import type { ApiError } from "../../errors.ts";
import type { AnswerHeaders } from "../../net/http-client/contract.ts";
import type { Log } from "../../observe/log.ts";
import type { Pool } from "../../pool/pool.ts";
import { type Endpoint, hasTextOutput } from "../../protocols/shared/endpoint.ts";
import { NO_FACTS } from "../../protocols/shared/response-facts.ts";
import type { OnDisconnect } from "../../records/group.ts";
import type { UsageRow } from "../../store/usage/usage.ts";
import { computeReservedUse } from "../admission/caller-limits.ts";
import { isCodex } from "../request/codex-client.ts";
import { requestLogIds } from "../request/log-ids.ts";
import { hasOpenAttempt } from "../request/trace.ts";
import type { ReservedRequest } from "../request-context.ts";
import { isStopped } from "../response-calls/background-response.ts";
import type { RequestEnding, ResponseState } from "../settlement/request-ending.ts";
import type { LingeringClient } from "../stream/drains.ts";
import type { KeepAliveTimer } from "../stream/keep-alive-timer.ts";
import { isWhole, Relay, type RelayOptions, type RelayTiming, type StreamEnd } from "../stream/relay.ts";
import {
  noteReportedUsage,
  openCounters,
  openUnpaidCounters,
  type PaidCounters,
  type StreamCounters,
} from "../stream/stream-counters.ts";
import type { TranslationServices } from "../translation/request-translator.ts";
import type { StreamUpstreamResult, UpstreamResult } from "../upstream/dispatch.ts";
import type { DispatchRequest } from "../upstream/dispatch-request.ts";
import { messageAudience } from "../upstream/message-audience.ts";
import type { UpstreamStream } from "../upstream/upstream-stream.ts";
import {
  buildDispatchRequest,
  type DrainServices,
  drainOwner,
  openLingeringClient,
  openReader,
} from "./build-dispatch-request.ts";

/** The services that delivering a stream uses. */
export interface StreamServices extends DrainServices {
  readonly translation: TranslationServices;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
  readonly billingEngine: Pick<BillingEngine, "checkpoint">;
  readonly dispatcher: {
    readonly jsonDepthMax: number;
    monotonicMs(): number;
    readonly pool: Pick<Pool, "recordStreamEnd" | "recordBrokenStream">;
  };
  readonly keepAliveTimer: KeepAliveTimer;
  readonly timing: RelayTiming;
}

/** Called once with the end of the stream. The terminal event is written after the promise, or at once if it is null. */
export type StreamEndHandler = (end: StreamEnd) => Promise<void> | null;

export class StreamDelivery {
  readonly dispatchRequest: DispatchRequest;
  readonly #services: StreamServices;
  readonly #context: ReservedRequest;
  readonly #waitingSinceMs: number;
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
    this.#counters = this.#paidCounters ?? (hasTextOutput(endpoint) ? unpaidCounters(context) : null);
    this.#lingeringClient = openLingeringClient(services, context);
    this.dispatchRequest = buildDispatchRequest(services, context, {
      client: this.#lingeringClient ?? call.request,
      counters: this.#counters,
    });
    this.#waitingSinceMs = services.clock.monotonicMs();
  }

  /** The headers of the account's response; null until it has responded. */
  get upstreamHeaders(): AnswerHeaders | null {
    return this.#result?.upstreamHeaders ?? null;
  }

  /** The request occupies the account's slot until the stream has ended upstream. */
  accept(result: UpstreamResult): UpstreamStream {
    const { accountSlot } = result;
    this.#context.accountSlot = accountSlot;
    // The client disconnected while an account was being selected.
    if (this.#isReleased) accountSlot.release(null);
    if (result.kind !== "stream") throw new Error("expected a stream, received a whole response");
    this.#result = result;
    return result.stream;
  }

  /** Starts the relay of the stream, which may still be opening. */
  startRelay(opening: Promise<UpstreamStream>, settle: StreamEndHandler): Relay {
    const relay = new Relay(this.#relayOptions(opening, settle));
    this.#endInFlight = this.#services.inFlight.register(() => relay.shutDown());
    if (this.#lingeringClient !== null && this.#context.call.request.signal.aborted) {
      // The client disconnected, so the stream is discarded or drained without a reader.
      relay.abort();
    }
    return relay;
  }

  /** Call it when dispatch has ended, with a stream or without. */
  stopLingering(): void {
    this.#lingeringClient?.stopLingering();
  }

  #relayOptions(opening: Promise<UpstreamStream>, settle: StreamEndHandler): RelayOptions {
    const { call, caller, charge, request, trace } = this.#context;
    const { drains, clock, keepAliveTimer, timing } = this.#services;
    const owner = drainOwner(caller);
    const delivery = this;
    return {
      opening,
      openSpareReader: () => openReader(this.#services, this.#context, null),
      requestId: call.requestId,
      get onDisconnect() {
        return delivery.#onDisconnect();
      },
      isPaid: charge !== null,
      keepAlive: this.#context.endpoint.api.keepAlive,
      needsDataEvents: isCodex(call.request.headers),
      describeFailure: (failure: UpstreamFailure) =>
        interruptedError(failure, messageAudience(request, trace.route)),
      settle,
      checkpoint: this.#paidCounters === null ? null : () => this.#checkpoint(),
      tryStartDrain: () => drains.tryAcquire(owner),
      endDrain: () => drains.release(owner),
      closeConnection: () => call.closeConnection(),
      waitingSinceMs: this.#waitingSinceMs,
      keepAliveTimer,
      monotonicMs: clock.monotonicMs,
      timing,
      capture: this.#context.capture,
    };
  }

  /** A background response needs no reader: the client polls it by its id. */
  #onDisconnect(): OnDisconnect {
    const { request, caller } = this.#context;
    const responseId = this.#result?.stream.reader.responseId ?? null;
    return request.background && responseId !== null ? "cancel" : caller.group.onDisconnect;
  }

  #checkpoint(): ApiError | null {
    this.#stoppedBy = this.#paidCounters?.checkpoint() ?? null;
    return this.#stoppedBy;
  }

  /** Records the end in the health of the account. */
  recordEnd(end: StreamEnd): void {
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
      if (this.#counters !== null) noteReportedUsage(route, end.reader.usage);
    } else if (end.kind === "broken" && end.interruption !== null) {
      dispatcher.pool.recordBrokenStream(route, end.interruption);
    }
  }

  /** The state of the response upstream when its stream has ended here. */
  readState(end: StreamEnd): ResponseState {
    if (end.kind === "complete") return "ended";
    // The response continues upstream. A paid one is polled to its end; for an unpaid one a later GET reports its usage.
    if (this.#context.request.background) return "background";
    const isCutHere = end.kind === "broken" && (end.interruption !== null || end.error === this.#stoppedBy);
    return isCutHere || (end.kind === "client_gone" && !end.isWhole) ? "left" : "ended";
  }

  /** `responseId` is the id by which the response can be retrieved; null if it is not stored. */
  buildEnding(end: StreamEnd, responseState: ResponseState, responseId: string | null): RequestEnding {
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
      countOutput: counter === null ? this.#estimateUncounted(end) : () => counter.exact(),
      estimateShown: counter === null ? null : () => counter.estimateShown(),
      isAbandoned: isCancelled || (end.kind === "client_gone" && !end.isWhole && end.abortedBy === "client"),
      describeResponse: () => reader?.describe?.() ?? NO_FACTS,
    };
  }

  /**
   * The stream was not counted, because its route reports usage, but this time it has not: the output is taken for one
   * token per event.
   */
  #estimateUncounted(end: StreamEnd): RequestEnding["countOutput"] {
    if (end.kind !== "complete" || !hasTextOutput(this.#context.endpoint)) return null;
    const outputTokens = this.#result?.stream.dataEvents ?? 0;
    return async () => ({ outputTokens, reasoningTokens: 0 });
  }

  /** Releases the concurrency of the caller and of the account. */
  release(end: StreamEnd): void {
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
  finish(): void {
    const { request, followUp } = this.#context;
    if (followUp === null) void request.body.dispose();
    this.#endInFlight?.();
  }
}

function unpaidCounters({ trace, subjects }: ReservedRequest): StreamCounters {
  return openUnpaidCounters(trace, computeReservedUse(subjects).windows);
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
