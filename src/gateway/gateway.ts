/** Everything a request may use on its way, put together once in `main.ts`. */

import type { BillingEngine } from "../billing/engine/direct-billing.ts";
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
  /** Where requests over a concurrency limit of their caller wait. */
  readonly slots: ConcurrencyQueue;
  readonly till: BillingEngine;
  /** Counts unserved requests, of which one key may cause any number, in few rows. */
  readonly refusals: Pick<RefusalRows, "fold">;
  readonly idempotency: Idempotency;
  /** How long inputs turn out to be, learnt from those that were counted. */
  readonly estimates: InputEstimates;
  /** How much answers reason unseen, learnt from those that reported it. */
  readonly reasoning: ReasoningEstimates;
  /** Requests whose clients left and whose upstreams are read to the end all the same. */
  readonly drains: Drains;
  /** What must be over before the process ends. */
  readonly underWay: InFlightRequests;
  readonly traffic: Traffic;
  readonly requestCounts: RequestCounts;
  readonly responses: ResponseRoutes;
  readonly dispatcher: Dispatcher;
  readonly pulse: KeepAliveTimer;
  readonly timing: RelayTiming & {
    /** For how long a background response is asked after. */
    backgroundMsMax: number;
  };
  /** The memory that large bodies of all clients share. */
  readonly bodies: BodyBudget;
  readonly requests: RequestReader;
}

/** One request as it came through the door, or one turn on a socket. */
export interface Call {
  /** Who asks: a request, or what a socket keeps of its upgrade. The signal fires when the client leaves. */
  readonly request: Pick<IncomingHttpRequest, "headers" | "signal">;
  readonly requestId: string;
  readonly startedMs: number;
  clientAddress(): string;
  /** The conversation that a turn on a socket belongs to; null for HTTP. */
  readonly conversation: Conversation | null;
  /** Closes the connection before long, whatever is still to be sent: for a client that takes nothing more. */
  cutOff(): void;
}

export interface HttpCall extends Call {
  readonly request: IncomingHttpRequest;
  /** The client has shown a right key: its connection no longer counts as a stranger's. */
  authenticated(): void;
}
