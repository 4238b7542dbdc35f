/** Opens the gateway: the services of the request path. At shutdown it lets requests in flight finish. */

import { join } from "node:path";
import { HoldFailures } from "../billing/recovery/hold-failures.ts";
import type { Authenticator } from "../gateway/admission/authenticate.ts";
import { openBadKeyThrottle } from "../gateway/admission/bad-key-throttle.ts";
import { KeyRate, KeySlots } from "../gateway/admission/key-limits.ts";
import { openBodyBudgets } from "../gateway/bodies/body-budgets.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { InputCounter } from "../gateway/metering/count-input.ts";
import { createInputEstimates } from "../gateway/metering/input-estimate.ts";
import { ReasoningEstimates } from "../gateway/metering/reasoning-estimate.ts";
import { openInFlightRequests } from "../gateway/request/in-flight-requests.ts";
import { RequestReader } from "../gateway/request/read-request.ts";
import { HeldResponses } from "../gateway/response-calls/held-responses.ts";
import type { ForwardedStoredCalls } from "../gateway/response-calls/stored-response.ts";
import { StickySteps } from "../gateway/steps/sticky-steps.ts";
import { openResponseRoutes } from "../gateway/stored-responses/response-routes.ts";
import { openDrains } from "../gateway/stream/drains.ts";
import type { TranslationServices } from "../gateway/translation/request-translator.ts";
import { StateSeals } from "../gateway/translation/state-seals.ts";
import { TokenFactors } from "../gateway/translation/token-factors.ts";
import { TranslationThreads } from "../gateway/translation/translation-threads.ts";
import type { LimitBorrower } from "../limits/borrower/limit-borrower.ts";
import { ConcurrencyQueue } from "../limits/concurrency-queue.ts";
import type { CountLateUse } from "../limits/late-use.ts";
import type { Limiter } from "../limits/limiter-types.ts";
import { QueueOccupancy } from "../limits/queue-occupancy.ts";
import type { ThrottleSharing } from "../nodes/throttle-sharing.ts";
import { LoopWatch, readThreadCpuMs } from "../observe/loop-watch.ts";
import { PolicyActions } from "../observe/policy-actions.ts";
import { openRequestCounts } from "../observe/request-counts.ts";
import { RequestMetrics } from "../observe/request-metrics.ts";
import { openTraffic } from "../observe/traffic.ts";
import { TranslationCounts } from "../observe/translation-counts.ts";
import type { PresentedSecret } from "../policy/key-index.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import { adoptImportedDigest } from "../store/policy/keys.ts";
import type { Tracer } from "../telemetry/tracer.ts";
import { openAccessLog } from "./access-log.ts";
import type { BillingServices } from "./billing.ts";
import { openCaptures } from "./captures.ts";
import type { ProcessContext } from "./process-context.ts";
import { openStoredResponses } from "./stored-responses.ts";
import { openDispatcher, type Timers } from "./upstream.ts";

interface GatewayServices {
  readonly policy: LivePolicy;
  readonly limiter: Limiter;
  /** Null if there is one node. */
  readonly limitBorrower: LimitBorrower | null;
  readonly countLateUse: CountLateUse;
  readonly billing: BillingServices;
  readonly timers: Timers;
  readonly tracer: Tracer | null;
  /** Null if there is one node. */
  readonly throttles: ThrottleSharing | null;
}

/** Bodies of requests that are too large for memory. */
export function spoolFolder({ settings }: ProcessContext): string {
  return join(settings.nodeDir, "spool");
}

export function openGateway(context: ProcessContext, services: GatewayServices): Gateway {
  const { installation, settings, limits, log, closers } = context;
  const { clock, db } = installation;
  const { policy, limiter, limitBorrower, billing, timers, tracer } = services;
  const { deadlines, keepAliveTimer } = timers;
  // Requests that wait for a slot and those that wait for an account count together.
  const occupancy = new QueueOccupancy();
  const loop = openLoopWatch(context);
  const threads = openTranslationThreads(context);
  const dispatcher = openDispatcher(context, { ...services, ...billing, occupancy, loop, threads });
  const bodies = openBodyBudgets(limits, settings.largeBodiesBytes, { ...clock, deadlines });
  const requests = openRequestReader(context, deadlines, bodies);
  // Opened before the requests in flight, so that they are closed after them.
  const inputCounter = openInputCounter(context);
  const captures = openCaptures(context);
  const storedResponses = openStoredResponses(context, bodies);
  const inFlight = openInFlightRequests();
  closers.add(async () => {
    const unfinished = await inFlight.close(limits.settleTimeoutMs);
    if (unfinished > 0) log.warn("requests_unfinished", { requests: unfinished });
  });
  const reasoning = new ReasoningEstimates();
  const heldResponses = openHeldResponses(context, services, { dispatcher, reasoning, inputCounter });
  return {
    clock,
    log,
    loop,
    db,
    policy,
    auth: openAuthenticator(context, services),
    limiter,
    limitBorrower,
    concurrencyQueue: new ConcurrencyQueue(limiter, occupancy, clock),
    tokenCounts: new KeySlots(limits.tokenCountsOfKey),
    reads: new KeyRate(limits.readsOfKey, clock.monotonicMs),
    storedResponseCalls: new KeyRate(limits.storedResponseCallsOfKey, clock.monotonicMs),
    forwardedStoredCalls: openForwardedStoredCalls(limits),
    billingEngine: billing.billingEngine,
    rejections: billing.rejections,
    billingFaults: billing.faults,
    lateUsage: billing.lateUsage,
    idempotency: billing.idempotency,
    stickySteps: new StickySteps(limits.fallbackStaysMax, clock.monotonicMs),
    estimates: createInputEstimates(),
    reasoning,
    inputCounter,
    drains: openDrains(limits.drainsMax, limits.drainsPerUserMax),
    inFlight,
    traffic: openTraffic(),
    requestCounts: openRequestCounts(),
    requestMetrics: new RequestMetrics(),
    policyActions: new PolicyActions(),
    tracer,
    accessLog: openAccessLog(context),
    captures,
    responses: openResponseRoutes(db, {
      rememberedMax: limits.cachedResponseRoutesMax,
      threadRowsMax: limits.threadRowsMax,
      checkHeld: (requestId, ended) => heldResponses.checkSettled(requestId, ended),
    }),
    heldResponses,
    translation: openTranslation(context, { storedResponses, inputCounter, threads }),
    dispatcher,
    keepAliveTimer,
    timing: limits,
    bodyBudget: bodies.large,
    requests,
  };
}

function openHeldResponses(
  { installation, limits, log, closers }: ProcessContext,
  { policy, billing, countLateUse }: GatewayServices,
  upstream: Pick<Gateway, "dispatcher" | "reasoning" | "inputCounter">,
): HeldResponses {
  const { db, clock } = installation;
  const { billingEngine, faults: billingFaults, adoptedResponses: adopted } = billing;
  const heldResponses = new HeldResponses({
    db,
    clock,
    log,
    policy,
    billingEngine,
    billingFaults,
    adopted,
    countLateUse,
    failures: new HoldFailures({ db, clock, log, faults: billingFaults, limits: limits.recovery }),
    ...upstream,
    timing: limits,
    limits: limits.heldResponses,
  });
  heldResponses.start();
  closers.add(() => heldResponses.stop());
  return heldResponses;
}

function openAuthenticator(
  { installation, settings, limits, log }: ProcessContext,
  { policy, throttles }: GatewayServices,
): Authenticator {
  const { clock, db, digest } = installation;
  const badKeys = openBadKeyThrottle({
    triesPerMinute: limits.badKeyTriesPerMinute,
    monotonicMs: clock.monotonicMs,
    // Below it, an attacker with many addresses would fill the table.
    shared: throttles?.share("bad_key", { reportFrom: limits.throttleSharing.badKeysMin }),
  });
  const imported = {
    lifeMs: limits.importedHashLifeMs,
    adopt: (keyId: string, used: PresentedSecret) => {
      adoptImportedDigest(db, keyId, used).catch((error: unknown) =>
        log.warn("imported_digest_unsaved", {
          key: keyId,
          reason: error instanceof Error ? error.message : "unknown",
        }),
      );
    },
  };
  const { publicUrl } = settings;
  return { keys: policy.keys, digest, badKeys, imported, publicUrl, nowMs: clock.nowMs };
}

function openInputCounter({ installation, limits, closers }: ProcessContext): InputCounter {
  const { monotonicMs } = installation.clock;
  const counter = new InputCounter({ limits: limits.tokenCountThread, monotonicMs });
  closers.add(() => counter.close());
  return counter;
}

function openRequestReader(
  context: ProcessContext,
  deadlines: Timers["deadlines"],
  bodies: ReturnType<typeof openBodyBudgets>,
): RequestReader {
  const { installation, limits, closers } = context;
  const { monotonicMs } = installation.clock;
  const options = { ...limits, spoolDir: spoolFolder(context), deadlines, monotonicMs };
  const requests = new RequestReader(options, bodies);
  closers.add(() => requests.close());
  return requests;
}

function openTranslationThreads({ installation, limits, closers }: ProcessContext): TranslationThreads {
  const { keyring, clock } = installation;
  const { monotonicMs } = clock;
  const threads = new TranslationThreads({ limits: limits.translationThreads, keyring, monotonicMs });
  closers.add(() => threads.close());
  return threads;
}

function openTranslation(
  { installation }: ProcessContext,
  services: Pick<TranslationServices, "storedResponses" | "inputCounter" | "threads">,
): TranslationServices {
  const { keyring, clock } = installation;
  const { inputCounter } = services;
  return {
    ...services,
    seals: new StateSeals(keyring),
    counts: new TranslationCounts(),
    factors: new TokenFactors(clock.monotonicMs, inputCounter),
    newId: (prefix) => prefix + installation.newId("id").slice("id_".length),
  };
}

function openForwardedStoredCalls({
  forwardedStoredCallsOfKey,
  forwardedStoredStreamsOfKey,
}: ProcessContext["limits"]): ForwardedStoredCalls {
  return {
    reads: new KeySlots(forwardedStoredCallsOfKey),
    endings: new KeySlots(forwardedStoredCallsOfKey),
    streams: new KeySlots(forwardedStoredStreamsOfKey),
  };
}

/** Started when the server listens: a start may take its time. */
function openLoopWatch({ installation, limits, log, closers }: ProcessContext): LoopWatch {
  const { monotonicMs } = installation.clock;
  const loop = new LoopWatch({ limits: limits.loopWatch, log, monotonicMs, threadCpuMs: readThreadCpuMs });
  closers.add(() => loop.stop());
  return loop;
}
