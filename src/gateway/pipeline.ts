/**
 * The pipeline of a model request: authenticate → read → admit → apply the request policy → reserve limits → claim
 * idempotency → hold → dispatch → deliver → settle. Each stop either continues or throws the `ApiError` that the client
 * receives. Every request is settled exactly once, on every path.
 */

import { isPending, type MaybePromise } from "../base/maybe-promise.ts";
import { ApiError, storeUnavailable } from "../errors.ts";
import type { LimitLease } from "../limits/limiter-types.ts";
import type { Endpoint } from "../protocols/shared/endpoint.ts";
import { admit, allowInterface } from "./admission/admit.ts";
import type { Call } from "./call.ts";
import { beginCapture, captureTurn } from "./capture-request.ts";
import { holdMoney, type RequestCharge } from "./charging/charge.ts";
import { replaceMoney } from "./charging/replace-money.ts";
import { buildDispatchRequest, openLingeringClient } from "./delivery/build-dispatch-request.ts";
import { readCostReport } from "./delivery/cost-report.ts";
import { isSentAsEvent, StreamDelivery } from "./delivery/deliver-stream.ts";
import {
  acceptWhole,
  buildStoredResult,
  buildWholeEnding,
  readWholeState,
  releaseConcurrency,
} from "./delivery/deliver-whole.ts";
import { moveToNextStep, openFallback, recordServed } from "./fallback/next-step.ts";
import { reserveStep } from "./fallback/reserve-step.ts";
import type { Gateway } from "./gateway.ts";
import { endClaim } from "./idempotency/idempotent-requests.ts";
import {
  type AdmittedRequest,
  disposeRequest,
  isReserved,
  openContext,
  type RequestContext,
  type ReservedRequest,
  setCaller,
  setHolder,
  setLease,
  setModel,
  setRequest,
} from "./request-context.ts";
import { applyRequestPolicy } from "./request-policy/apply-request-policy.ts";
import { reserveLimits, reserveLimitsBeforeBody } from "./reserve-limits.ts";
import { continueConversation } from "./response-calls/continue-conversation.ts";
import { announceResponse, rememberResponse, settleOrFollow } from "./response-calls/remember-response.ts";
import { lookUpStoredTokens } from "./response-calls/stored-tokens.ts";
import { closeRejected } from "./settlement/close-rejected.ts";
import { findHolder, findOrigin } from "./steps/conversation-holder.ts";
import type { FallbackRun } from "./steps/fallback-run.ts";
import type { Transport } from "./transport.ts";
import { dispatch, type UpstreamResult } from "./upstream/dispatch.ts";
import type { DispatchRequest } from "./upstream/dispatch-request.ts";
import { waitWithin } from "./wait-within.ts";

/** Serves the model requests of one transport. A request passes the methods from top to bottom. */
export class Pipeline<C extends Call, Out> {
  readonly #gateway: Gateway;
  readonly #transport: Transport<C, Out>;

  constructor(gateway: Gateway, transport: Transport<C, Out>) {
    this.#gateway = gateway;
    this.#transport = transport;
  }

  /** Resolves with the response, or with the rejection if the request fails before its response has begun. */
  async handle(call: C, endpoint: Endpoint): Promise<Out> {
    const gateway = this.#gateway;
    const transport = this.#transport;
    gateway.inFlight.begin();
    gateway.loop.enter(endpoint.name, call.requestId);
    const context: RequestContext<C> = openContext(call, endpoint, gateway.tracer);
    try {
      // Authenticate.
      setCaller(context, transport.identify(gateway, call));
      const { key, group } = context.caller;
      if (group.capture !== "off" || key.capture !== null)
        context.capture = beginCapture(gateway.captures, context);
      allowInterface(context.caller, endpoint);
      if (!gateway.billingEngine.hasCapacity()) throw storeUnavailable();

      // Read. A costly body is read only if the caller's limits admit the request.
      if (transport.hasCostlyBody(call)) {
        const lease = reserveLimitsBeforeBody(gateway, context);
        if (isPending(lease)) transport.deferBody(call);
        context.lease = isPending(lease) ? await lease : lease;
      }
      const request = transport.read(gateway, context);
      setRequest(context, isPending(request) ? await request : request);
      gateway.loop.enter(endpoint.name, call.requestId);
      if (context.capture !== null) captureTurn(context.capture, context);

      // Admit.
      setModel(context, admit(context.caller, endpoint, context.request.publicModel));
      const { previousResponseId } = context.request;
      if (previousResponseId !== null) {
        const found = continueConversation(gateway, context, previousResponseId);
        if (isPending(found)) await found;
        if (context.storedConversation === null)
          setHolder(context, await findHolder(gateway.responses, context, previousResponseId));
      }

      // Apply the request policy.
      const { requestPolicy } = context.caller.group;
      if (requestPolicy !== null) {
        const applied = applyRequestPolicy(gateway, context, requestPolicy);
        if (isPending(applied)) await applied;
      }

      // With fallback, each step reserves limits, holds and dispatches.
      if (context.model.fallback.length > 0) {
        const run = await openFallback(gateway, context);
        if (run !== null) return await this.#keepWaiting(context, this.#serveSteps(context, run));
      }

      // Reserve limits.
      const lease = reserveLimits(gateway, context);
      if (isPending(lease)) return await this.#keepWaiting(context, this.#serveAfterWait(context, lease));
      setLease(context, lease);
      return await this.#serve(context);
    } catch (cause) {
      return transport.reject(context, await closeRejected(gateway, context, cause));
    } finally {
      gateway.inFlight.end();
    }
  }

  /**
   * The loop of a request with fallback: reserve limits → hold → dispatch, for each step until one serves. All steps share
   * one idempotency claim, the attempts and the deadlines. Nothing changes after the first content.
   */
  async #serveSteps(context: AdmittedRequest<C>, run: FallbackRun): Promise<Out> {
    try {
      for (;;) {
        try {
          const lease = reserveStep(this.#gateway, context, run);
          setLease(context, isPending(lease) ? await lease : lease);
          return await this.#serve(context);
        } catch (cause) {
          await moveToNextStep(this.#gateway, context, { run, cause });
        }
      }
    } catch (cause) {
      const isEvent = cause instanceof ApiError && isSentAsEvent(cause, context.endpoint);
      if (isEvent && context.request.stream && isReserved(context)) return this.#streamError(context, cause);
      throw cause;
    } finally {
      run.close();
    }
  }

  /** The client expects this error as an event, although no step has begun a stream. */
  #streamError(context: ReservedRequest<C>, error: ApiError): Out {
    const delivery = new StreamDelivery(this.#gateway, context);
    const opening = delivery.open(Promise.reject(error));
    // The relay reads it when its client does.
    opening.catch(() => {});
    const relay = delivery.startRelay(opening);
    return this.#transport.sendStream(this.#gateway, context, { relay, upstreamHeaders: null });
  }

  /** The request waits for its concurrency limit. */
  async #serveAfterWait(context: AdmittedRequest<C>, pendingLease: Promise<LimitLease>): Promise<Out> {
    const lease = await pendingLease;
    setLease(context, lease);
    return await this.#serve(context);
  }

  /** The transport sends keep-alives while a stream waits for long. */
  async #keepWaiting(context: AdmittedRequest<C>, serving: Promise<Out>): Promise<Out> {
    if (!context.request.stream) return await serving;
    const close = (cause: unknown) => closeRejected(this.#gateway, context, cause);
    return await this.#transport.keepWaiting(this.#gateway, context, { serving, close });
  }

  /** The stops after the limits are reserved. */
  async #serve(context: ReservedRequest<C>): Promise<Out> {
    // Claim idempotency: once, before the first hold.
    const pendingClaim = context.claim === null ? this.#transport.claim(this.#gateway, context) : null;
    if (pendingClaim !== null) {
      const claimed = await pendingClaim;
      if (claimed.kind === "repeat") {
        context.lease.cancel();
        context.capture?.discard();
        disposeRequest(context);
        return claimed.response;
      }
      context.claim = claimed.claim;
    }

    // Hold.
    const charge = context.charge === null ? this.#holdMoney(context) : this.#replaceMoney(context);
    this.#setCharge(context, isPending(charge) ? await charge : charge);

    // Dispatch, deliver, settle.
    return context.request.stream ? this.#serveStream(context) : this.#serveWhole(context);
  }

  /** The client receives a whole response after the request is settled. */
  async #serveWhole(context: ReservedRequest<C>): Promise<Out> {
    const gateway = this.#gateway;
    const { call } = context;

    // Dispatch.
    const lingeringClient = openLingeringClient(gateway, context);
    const dispatchRequest = buildDispatchRequest(gateway, context, {
      client: lingeringClient ?? call.request,
      counters: null,
    });
    const dispatched = this.#dispatch(context, dispatchRequest);
    const result = acceptWhole(
      context,
      await (lingeringClient === null ? dispatched : dispatched.finally(lingeringClient.stopLingering)),
    );

    // Remember the response if the upstream stores it.
    const { response } = result;
    const responseState = readWholeState(response);
    const responseId = rememberResponse(gateway.responses, context, {
      responseId: response.responseId,
      state: responseState,
    });
    if (responseState === "background") {
      releaseConcurrency(context);
      await announceResponse(gateway, context, responseId);
    }

    // Settle.
    context.capture?.addWholeResponse(200, response.body);
    const isClientGone = lingeringClient !== null && call.request.signal.aborted;
    const end = { responseId, responseState, isClientGone };
    const ending = buildWholeEnding(gateway, context, response, end);
    const settled = settleOrFollow(gateway, context, ending);
    releaseConcurrency(context);
    if (settled !== null) await settled;
    if (context.claim !== null) {
      const stored = buildStoredResult(response, gateway.idempotency.responseBytesMax);
      await endClaim(gateway, context.claim, stored);
    }
    if (context.followUp === null) disposeRequest(context);

    // Deliver.
    const cost = context.caller.group.costHeaders ? await readCostReport(gateway, context) : null;
    return this.#transport.sendWhole(gateway, context, { ...result, cost });
  }

  /** The client receives a stream as it arrives. The request is settled before the terminal event. */
  async #serveStream(context: ReservedRequest<C>): Promise<Out> {
    const gateway = this.#gateway;

    // Dispatch.
    const delivery = new StreamDelivery(gateway, context);
    const opening = delivery.open(this.#dispatch(context, delivery.dispatchRequest));
    // Nearly all streams begin within this time, so an error can still be sent as an HTTP status. With fallback, another
    // step may serve until then, and the transport already sends keep-alives.
    const rejectableMs =
      context.fallback === null ? this.#transport.rejectableMs(gateway) : Number.POSITIVE_INFINITY;
    const earlyError = await waitWithin(opening, rejectableMs, gateway.dispatcher.deadlines);
    const isRejected = earlyError instanceof ApiError;
    if (isRejected && (context.fallback !== null || !isSentAsEvent(earlyError, context.endpoint)))
      throw earlyError;

    // Deliver. The delivery settles the request when the stream has ended.
    const relay = delivery.startRelay(opening);
    return this.#transport.sendStream(gateway, context, { relay, upstreamHeaders: delivery.upstreamHeaders });
  }

  /** Rejects with the error of the step. */
  #dispatch({ fallback }: ReservedRequest<C>, dispatchRequest: DispatchRequest): Promise<UpstreamResult> {
    const dispatched = dispatch(this.#gateway.dispatcher, dispatchRequest);
    if (fallback === null) return dispatched;
    return dispatched.then((result) => {
      recordServed(this.#gateway, fallback);
      return result;
    });
  }

  /**
   * Takes the hold for the maximum cost of the request. Returns null for unpaid requests, and a promise only if the
   * stored response or the database must be read.
   */
  #holdMoney(context: ReservedRequest<C>): MaybePromise<RequestCharge | null> {
    const gateway = this.#gateway;
    const { caller, request } = context;
    if (caller.group.billing.charge === "none") return null;
    if (request.previousResponseId === null) return holdMoney(gateway, context);
    if (context.storedConversation !== null)
      return holdMoney(gateway, context, context.storedConversation.record.tokens);
    return findOrigin(gateway.responses, context, request.previousResponseId)
      .then((origin) => lookUpStoredTokens(gateway, origin))
      .then((conversationTokens) => holdMoney(gateway, context, conversationTokens));
  }

  /** The request has left a step whose money is held. */
  #replaceMoney(context: ReservedRequest<C>): Promise<RequestCharge | null> {
    return replaceMoney(this.#gateway, context, context.storedConversation?.record.tokens ?? null);
  }

  #setCharge(context: ReservedRequest<C>, charge: RequestCharge | null): void {
    const heldNano = (charge?.heldNano ?? 0n) - (context.charge?.heldNano ?? 0n);
    if (heldNano !== 0n) this.#gateway.requestMetrics.heldNano += Number(heldNano);
    context.charge = charge;
  }
}
