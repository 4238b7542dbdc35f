/** Everything a request may use on its way through the pipeline. Built once in `main.ts`. */

import type { BillingEngine } from "../billing/engine/billing-engine.ts";
import type { RefusalRows } from "../billing/engine/refusal-rows.ts";
import type { Idempotency } from "../billing/idempotency/idempotency.ts";
import type { ConcurrencyQueue } from "../limits/concurrency-queue.ts";
import type { Limiter } from "../limits/limiter.ts";
import type { Clock } from "../net/wire/clock.ts";
import type { IncomingHttpRequest } from "../net/wire/http-message.ts";
import type { Log } from "../observe/log.ts";
import type { RequestCounts } from "../observe/request-counts.ts";
import type { Traffic } from "../observe/traffic.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import type { Db } from "../store/engine/db.ts";
import type { Authenticator } from "./admission/authenticate.ts";
import type { ResponseRoutes } from "./endpoints/response-routes.ts";
import type { InputEstimates } from "./metering/input-estimate.ts";
import type { ReasoningEstimates } from "./metering/reasoning-estimate.ts";
import type { BodyBudget } from "./request/body-budget.ts";
import type { InFlightRequests } from "./request/in-flight-requests.ts";
import type { RequestReader } from "./request/read-request.ts";
import type { Drains } from "./stream/drains.ts";
import type { KeepAliveTimer, RelayTiming } from "./stream/relay.ts";
import type { Conversation } from "./upstream/attempt.ts";
import type { Dispatcher } from "./upstream/dispatch.ts";

export interface Gateway {
  readonly clock: Clock;
  readonly log: Log;
  readonly db: Db;
  readonly policy: LivePolicy;
  readonly auth: Authenticator;
  readonly limiter: Limiter;
  /** The queue of requests that exceed a concurrency limit of their caller. */
  readonly slots: ConcurrencyQueue;
  readonly till: BillingEngine;
  /** Folds rejected requests, of which one key can cause any number, into few usage rows. */
  readonly refusals: Pick<RefusalRows, "fold">;
  readonly idempotency: Idempotency;
  /** Input token estimates, learnt from counted inputs. */
  readonly estimates: InputEstimates;
  /** Estimates of reasoning tokens that are not shown, learnt from responses that reported them. */
  readonly reasoning: ReasoningEstimates;
  /** Upstream responses that are read to their end after the client disconnected. */
  readonly drains: Drains;
  /** The requests that must end before the process exits. */
  readonly underWay: InFlightRequests;
  readonly traffic: Traffic;
  readonly requestCounts: RequestCounts;
  readonly responses: ResponseRoutes;
  readonly dispatcher: Dispatcher;
  readonly pulse: KeepAliveTimer;
  readonly timing: RelayTiming & {
    /** How long a background response is polled. */
    backgroundMsMax: number;
  };
  /** The memory budget that the large bodies of all clients share. */
  readonly bodies: BodyBudget;
  readonly requests: RequestReader;
}

/** One HTTP request, or one turn on a WebSocket. */
export interface Call {
  /**
   * The HTTP request, or the headers and signal of the WebSocket upgrade. The signal fires when the client disconnects.
   */
  readonly request: Pick<IncomingHttpRequest, "headers" | "signal">;
  readonly requestId: string;
  readonly startedMs: number;
  clientAddress(): string;
  /** The conversation of a turn on a WebSocket; null for HTTP. */
  readonly conversation: Conversation | null;
  /** Closes the connection soon, even with unsent data: for a client that does not read. */
  cutOff(): void;
}

export interface HttpCall extends Call {
  readonly request: IncomingHttpRequest;
  /** The client sent a valid key: its connection no longer counts as unauthenticated. */
  authenticated(): void;
}
