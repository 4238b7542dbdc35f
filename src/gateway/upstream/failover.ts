/**
 * The failed attempts of one request: which accounts are not tried again, how the request changes for the next attempt,
 * and which error the client receives if no account serves it.
 */

import {
  clientError,
  mayFailOver,
  moreUsefulFailure,
  refineFailure,
  type UpstreamFailure,
} from "../../accounts/failure.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import type { ApiError } from "../../errors.ts";
import type { Log } from "../../observe/log.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Pool } from "../../pool/pool.ts";
import type { RequestBody } from "../../protocols/shared/request.ts";
import type { AttemptTrace } from "../request/attempt-trace.ts";
import { clientRequestId, traceLogId } from "../request/log-ids.ts";
import type { AccountSlot, PastFailures } from "./account-slot.ts";
import type { DispatchRequest } from "./dispatch-request.ts";
import { messageAudience } from "./message-audience.ts";
import { clientGone } from "./send-request.ts";

export interface FailoverServices {
  readonly pool: Pick<Pool, "moveConversation">;
  readonly billingEngine: Pick<BillingEngine, "recordRequeue">;
  readonly log: Pick<Log, "warn">;
  monotonicMs(): number;
}

/** An attempt that has failed, and the slot that it occupied. */
interface FailedAttempt {
  readonly accountSlot: AccountSlot;
  readonly trace: AttemptTrace;
}

/** What the failed attempts of a request have shown. */
export class Failover implements PastFailures {
  /** The accounts that are not tried again. */
  readonly tried = new Set<AccountRoute>();
  /** The most useful error for the client so far. */
  error: ApiError | null = null;
  /** The request body for the next attempt. */
  body: RequestBody;
  readonly #services: FailoverServices;
  readonly #dispatchRequest: DispatchRequest;
  #isNotFoundElsewhere = false;
  /** Some accounts were not used because they accept no output limit, which the request policy requires. */
  #isUncapped = false;

  constructor(services: FailoverServices, dispatchRequest: DispatchRequest) {
    this.#services = services;
    this.#dispatchRequest = dispatchRequest;
    this.body = dispatchRequest.request.body;
  }

  /** Excludes accounts that have rejected the required output limit before. */
  static open(services: FailoverServices, dispatchRequest: DispatchRequest): Failover {
    const failover = new Failover(services, dispatchRequest);
    const unable = dispatchRequest.cap?.findUnable(dispatchRequest.routes) ?? [];
    if (unable.length > 0) failover.#exclude(unable);
    return failover;
  }

  /** Ends the failed attempt. Throws if the client has disconnected. Returns where the request may be sent next. */
  async recordFailure(
    { accountSlot, trace }: FailedAttempt,
    unrefined: UpstreamFailure,
  ): Promise<"same_account" | "other_account" | "give_up"> {
    const dispatchRequest = this.#dispatchRequest;
    const { billingEngine, log, monotonicMs } = this.#services;
    const { route } = accountSlot;
    const failure = refineFailure(this.body, unrefined);
    trace.fail(failure, monotonicMs());
    accountSlot.fail(failure);
    if (dispatchRequest.isCharged) billingEngine.recordRequeue(dispatchRequest.requestId);
    logFailure(log, dispatchRequest, route, failure);
    // No further attempt for a client that disconnected, even if its response would be drained.
    if (dispatchRequest.client.signal.aborted || dispatchRequest.client.realClient?.signal.aborted)
      throw clientGone();
    const isLimitRejected = this.#isLimitRejected(route, failure);
    if (dispatchRequest.cap?.isUnable(route)) {
      this.#exclude([route]);
      return "other_account";
    }
    const flaw = failure.class === "rejected" ? await this.body.findJsonError() : null;
    const error = flaw ?? clientError(failure, messageAudience(dispatchRequest.request, route));
    this.error = moreUsefulFailure(this.error, error);
    // The upstream rejected a limit of the gateway: the next attempt omits it, or uses another parameter.
    if (isLimitRejected || this.#removeObstacle(route, failure, error)) return "same_account";
    this.#isNotFoundElsewhere ||= failure.class === "not_here";
    this.tried.add(route);
    return mayFailOver(failure) ? "other_account" : "give_up";
  }

  /** The error if no account is left except those that must not be used; null if there are none of these. */
  unableError(): ApiError | null {
    const { cap, request } = this.#dispatchRequest;
    return this.#isUncapped && cap !== null ? cap.unableError(request.publicModel) : null;
  }

  /** The account was not tried: its dialect cannot express the request, or it accepts no output limit. */
  recordUnusable(accountSlot: AccountSlot, error: ApiError): void {
    this.tried.add(accountSlot.route);
    this.error = moreUsefulFailure(this.error, error);
    accountSlot.release(null);
  }

  #isLimitRejected(route: AccountRoute, failure: UpstreamFailure): boolean {
    const { cap, searchCap } = this.#dispatchRequest;
    return (
      cap?.recordRejection(route, failure) === true || searchCap?.recordRejection(route, failure) === true
    );
  }

  #exclude(unable: readonly AccountRoute[]): void {
    this.#isUncapped = true;
    for (const route of unable) this.tried.add(route);
  }

  /** Returns true if the request was changed so that the same account may accept it. */
  #removeObstacle(route: AccountRoute, failure: UpstreamFailure, error: ApiError): boolean {
    if (route.translation !== null || this.#dispatchRequest.continuesStored)
      return isStateRejected(failure) && this.#dispatchRequest.openTranslator().dropState();
    // The conversation started on another account. Without the reasoning that only that account can read, this one can
    // continue it.
    const isRejected = error.code === "invalid_encrypted_content" || isStateRejected(failure);
    const readable = isRejected ? this.body.withoutEncryptedReasoning() : null;
    if (readable !== null) this.body = readable;
    return readable !== null;
  }

  /** A conversation that other accounts did not have stays on the account that served it. */
  recordSuccess(route: AccountRoute): void {
    const { affinity, routes } = this.#dispatchRequest;
    if (this.#isNotFoundElsewhere && affinity !== null)
      this.#services.pool.moveConversation(routes, affinity, route);
  }
}

const STATE_REJECTED =
  /signature|thinking block|thought_signature|invalid_encrypted_content|encrypted_content/i;

/** The upstream cannot use the state of earlier reasoning. */
function isStateRejected({ class: kind, error }: UpstreamFailure): boolean {
  return kind === "rejected" && error !== null && STATE_REJECTED.test(`${error.code} ${error.message}`);
}

function logFailure(
  log: Pick<Log, "warn">,
  dispatchRequest: DispatchRequest,
  route: AccountRoute,
  failure: UpstreamFailure,
): void {
  log.warn("attempt_failed", {
    request_id: dispatchRequest.requestId,
    client_request_id: clientRequestId(dispatchRequest.clientHeaders),
    ...traceLogId(dispatchRequest.trace),
    account_id: route.account.id,
    model: dispatchRequest.request.publicModel,
    class: failure.class,
    status: failure.status,
    reason: failure.reason,
  });
}
