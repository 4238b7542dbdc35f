/**
 * The services of the gateway, built once in `composition/gateway.ts`. Only the pipeline and its transports take all of them: every
 * other function declares the few that it uses.
 */

import type { Clock } from "../base/clock.ts";
import type { BillingEngine } from "../billing/engine/billing-engine.ts";
import type { RejectionRows } from "../billing/engine/rejection-rows.ts";
import type { Idempotency } from "../billing/idempotency/idempotency.ts";
import type { LateUsage } from "../billing/late-usage.ts";
import type { CaptureRecorder } from "../capture/capture-recorder.ts";
import type { LimitBorrower } from "../limits/borrower/limit-borrower.ts";
import type { ConcurrencyQueue } from "../limits/concurrency-queue.ts";
import type { Limiter } from "../limits/limiter-types.ts";
import type { AccessLog } from "../observe/access-log.ts";
import type { BillingFaults } from "../observe/billing-faults.ts";
import type { Log } from "../observe/log.ts";
import type { LoopWatch } from "../observe/loop-watch.ts";
import type { PolicyActions } from "../observe/policy-actions.ts";
import type { RequestCounts } from "../observe/request-counts.ts";
import type { RequestMetrics } from "../observe/request-metrics.ts";
import type { Traffic } from "../observe/traffic.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import type { Db } from "../store/engine/db.ts";
import type { Tracer } from "../telemetry/tracer.ts";
import type { Authenticator } from "./admission/authenticate.ts";
import type { KeyRate, KeySlots } from "./admission/key-limits.ts";
import type { BodyBudget } from "./bodies/body-budget.ts";
import type { InputCounter } from "./metering/count-input.ts";
import type { InputEstimates } from "./metering/input-estimate.ts";
import type { ReasoningEstimates } from "./metering/reasoning-estimate.ts";
import type { InFlightRequests } from "./request/in-flight-requests.ts";
import type { RequestReader } from "./request/read-request.ts";
import type { HeldResponses } from "./response-calls/held-responses.ts";
import type { ForwardedStoredCalls } from "./response-calls/stored-response.ts";
import type { StickySteps } from "./steps/sticky-steps.ts";
import type { ResponseRoutes } from "./stored-responses/response-routes.ts";
import type { Drains } from "./stream/drains.ts";
import type { KeepAliveTimer } from "./stream/keep-alive-timer.ts";
import type { RelayTiming } from "./stream/relay.ts";
import type { TranslationServices } from "./translation/request-translator.ts";
import type { Dispatcher } from "./upstream/dispatch.ts";

export interface Gateway {
  readonly clock: Clock;
  readonly log: Log;
  /** Logs turns of the event loop that take too long. */
  readonly loop: LoopWatch;
  readonly db: Db;
  readonly policy: LivePolicy;
  readonly auth: Authenticator;
  readonly limiter: Limiter;
  /** The queue of requests that exceed a concurrency limit of their caller. */
  readonly concurrencyQueue: ConcurrencyQueue;
  readonly tokenCounts: KeySlots;
  /** How often each key calls the endpoints for models, usage, requests and the inputs of stored responses. */
  readonly reads: KeyRate;
  /** How often it makes other calls on stored responses. */
  readonly storedResponseCalls: KeyRate;
  /** How many of those that go to an upstream each key has in progress. */
  readonly forwardedStoredCalls: ForwardedStoredCalls;
  /** Borrows limits that several nodes share; null if there is one node. */
  readonly limitBorrower: LimitBorrower | null;
  readonly billingEngine: BillingEngine;
  /** Folds rejected requests, of which one key can cause any number, into few usage rows. */
  readonly rejections: Pick<RejectionRows, "addToCounted">;
  /** Faults that the operator is alerted to. */
  readonly billingFaults: Pick<BillingFaults, "add">;
  readonly lateUsage: Pick<LateUsage, "add">;
  readonly idempotency: Idempotency;
  /** The fallback steps at which conversations stay. */
  readonly stickySteps: StickySteps;
  readonly estimates: InputEstimates;
  /** Estimates of reasoning tokens that are not shown, learnt from responses that reported them. */
  readonly reasoning: ReasoningEstimates;
  readonly inputCounter: InputCounter;
  /** Upstream responses that are read to their end after the client disconnected. */
  readonly drains: Drains;
  /** The requests that must end before the process exits. */
  readonly inFlight: InFlightRequests;
  readonly traffic: Traffic;
  readonly requestCounts: RequestCounts;
  readonly requestMetrics: RequestMetrics;
  readonly policyActions: PolicyActions;
  /** Null if spans are not exported. */
  readonly tracer: Tracer | null;
  /** Null if the access log is off. */
  readonly accessLog: AccessLog | null;
  readonly captures: CaptureRecorder;
  readonly responses: ResponseRoutes;
  /** Background responses that other processes left. */
  readonly heldResponses: HeldResponses;
  readonly translation: TranslationServices;
  readonly dispatcher: Dispatcher;
  readonly keepAliveTimer: KeepAliveTimer;
  readonly timing: RelayTiming & {
    /** How long a background response is polled. */
    backgroundMsMax: number;
  };
  /** The memory budget that the large bodies of all clients share. */
  readonly bodyBudget: BodyBudget;
  readonly requests: RequestReader;
}
