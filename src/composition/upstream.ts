/** Opens what sends requests to upstreams: timers, HTTP and WebSocket clients, the account pool and the dispatcher. */

import { AccessTokens } from "../accounts/cloud/access-tokens.ts";
import { openSocketClient, type SocketClient } from "../accounts/websocket/client.ts";
import type { Clock } from "../base/clock.ts";
import { type Deadlines, openDeadlines } from "../base/deadlines.ts";
import type { BillingEngine } from "../billing/engine/billing-engine.ts";
import { type KeepAliveTimer, openKeepAliveTimer } from "../gateway/stream/keep-alive-timer.ts";
import type { TranslationThreads } from "../gateway/translation/translation-threads.ts";
import type { Dispatcher } from "../gateway/upstream/dispatch.ts";
import { openRetryBudget } from "../gateway/upstream/retry-budget.ts";
import type { LimitBorrower } from "../limits/borrower/limit-borrower.ts";
import type { Limiter } from "../limits/limiter-types.ts";
import type { QueueOccupancy } from "../limits/queue-occupancy.ts";
import { openHttpClient } from "../net/http-client/client.ts";
import { Dialer } from "../net/http-client/dial.ts";
import type { LoopWatch } from "../observe/loop-watch.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import { openPool, type Pool } from "../pool/pool.ts";
import { openWaitingQueue } from "../pool/waiting-queue.ts";
import { VERSION } from "../version.ts";
import type { ProcessContext } from "./process-context.ts";

export interface Timers {
  /** Ticks of streams, for comments that keep idle client connections open. */
  readonly keepAliveTimer: KeepAliveTimer;
  readonly deadlines: Deadlines;
  /** Reading the clock costs time, and ages need not be exact to the millisecond. */
  readonly coarseClock: Clock;
}

export function openTimers({ installation, limits, closers }: ProcessContext): Timers {
  const { clock } = installation;
  const keepAliveTimer = openKeepAliveTimer(limits.keepAliveTickMs, clock.monotonicMs);
  closers.add(() => keepAliveTimer.stop());
  const deadlines = openDeadlines(limits.deadlineScanMs, clock);
  closers.add(() => deadlines.stop());
  return { keepAliveTimer, deadlines, coarseClock: { ...clock, monotonicMs: deadlines.lastScanMs } };
}

interface DispatcherServices {
  readonly policy: LivePolicy;
  readonly limiter: Limiter;
  /** Null if there is one node. */
  readonly limitBorrower: LimitBorrower | null;
  readonly occupancy: QueueOccupancy;
  readonly billingEngine: BillingEngine;
  readonly loop: LoopWatch;
  readonly timers: Timers;
  readonly threads: TranslationThreads;
}

export function openDispatcher(context: ProcessContext, services: DispatcherServices): Dispatcher {
  const { installation, limits, log, closers } = context;
  const { clock } = installation;
  const { deadlines, coarseClock, keepAliveTimer } = services.timers;
  const pool = openPool({ clock, random: Math.random, limiter: services.limiter });
  const http = openHttpClient({
    deadlines,
    clock: coarseClock,
    connectTimeoutMs: limits.connectTimeoutMs,
    idleMs: limits.upstreamIdleMs,
    idlePerOriginMax: limits.upstreamIdleConnectionsMax,
    headBytesMax: limits.upstreamHeadBytesMax,
  });
  closers.add(() => http.close());
  const sockets = openUpstreamSockets(context, deadlines);
  closers.add(() => sockets.close());
  keepAliveTimer.add(dropDeletedAccounts(services.policy, [pool, sockets]));
  const dialer = new Dialer({
    clock: coarseClock,
    lookupTimeoutMs: limits.lookupTimeoutMs,
    cacheMs: limits.addressCacheMs,
  });
  const userAgent = `model-gateway/${VERSION}`;
  return {
    ...clock,
    deadlines,
    log,
    loop: services.loop,
    pool,
    billingEngine: services.billingEngine,
    waitingQueue: openWaitingQueue(clock, services.occupancy),
    limitBorrower: services.limitBorrower,
    retries: openRetryBudget(),
    dialer,
    http,
    accessTokens: new AccessTokens({ dialer, http, clock, userAgent, limits: limits.accessTokens }),
    sockets,
    userAgent,
    errorBytesMax: limits.upstreamErrorBytesMax,
    responseBytesMax: limits.responseBytesMax,
    eventBytesMax: limits.eventBytesMax,
    jsonDepthMax: limits.jsonDepthMax,
    threads: services.threads,
    attemptsMax: limits.attemptsMax,
    timing: limits,
  };
}

function openUpstreamSockets(context: ProcessContext, deadlines: Deadlines): SocketClient {
  const { installation, limits, log } = context;
  return openSocketClient({
    ...limits.upstreamSockets,
    deadlines,
    monotonicMs: installation.clock.monotonicMs,
    connectTimeoutMs: limits.connectTimeoutMs,
    headBytesMax: limits.upstreamHeadBytesMax,
    messageBytesMax: limits.eventBytesMax,
    errorBytesMax: limits.upstreamErrorBytesMax,
    onUnsupported: ({ id }, status) => log.warn("websocket_unsupported", { account_id: id, status }),
  });
}

/** The state of accounts survives a policy change, but is dropped for deleted accounts. */
function dropDeletedAccounts(
  policy: LivePolicy,
  owners: readonly Pick<Pool | SocketClient, "retain">[],
): () => void {
  let retainedPolicy = policy.snapshot();
  return () => {
    if (policy.snapshot() === retainedPolicy) return;
    retainedPolicy = policy.snapshot();
    for (const owner of owners) owner.retain(retainedPolicy.accounts);
  };
}
