/**
 * Reserves the limits of a caller, at once or after a wait. A request that exceeds only a concurrency limit waits in
 * its group's queue; every other limit rejects it at once.
 */

import type { Clock } from "../base/clock.ts";
import { type MaybePromise, whenReady } from "../base/maybe-promise.ts";
import type { ApiError } from "../errors.ts";
import { LEAST_USE, NO_AMOUNTS } from "../limits/amounts.ts";
import type { ConcurrencyQueue } from "../limits/concurrency-queue.ts";
import type { EstimatedUse, Limiter, LimitLease, Shortage } from "../limits/limiter.ts";
import type { LimitSharing } from "../limits/sharing/limit-sharing.ts";
import type { RequestMetrics } from "../observe/request-metrics.ts";
import {
  computeReservedUse,
  coordinatorLost,
  hasLimits,
  limitError,
  queueTimeoutError,
  raiseReservation,
  waitText,
} from "./admission/caller-limits.ts";
import { forecastBudget, outputCapWithin, reserveWithin, searchesWithin } from "./charging/window-budget.ts";
import type { InputEstimates } from "./metering/input-estimate.ts";
import { estimateCounts } from "./metering/limited-use.ts";
import { endWait, waitedMs } from "./request/trace.ts";
import type { AdmittedRequest, AuthenticatedRequest } from "./request-context.ts";
import { clientGone } from "./upstream/send-request.ts";

/** The services that reserving limits uses. */
export interface LimitServices {
  readonly limiter: Limiter;
  readonly concurrencyQueue: ConcurrencyQueue;
  readonly clock: Clock;
  readonly requestMetrics: Pick<RequestMetrics, "shareWait">;
  readonly estimates: Pick<InputEstimates, "estimate">;
  /** Null if there is one node. */
  readonly sharing: Pick<LimitSharing, "waitForGain" | "waitMs" | "isClosed"> | null;
}

/**
 * Reserves the limits before the body is read, for bodies that are expensive to read. Tokens and cost are unknown until
 * then; `reserveLimits` adds them. A rejected or waiting request consumes nothing, and its body stays unread.
 */
export function reserveLimitsBeforeBody(
  services: LimitServices,
  context: AuthenticatedRequest,
): MaybePromise<LimitLease> {
  return whenReady(reserve(services, context, LEAST_USE), withoutAmounts);
}

/** Reserves one request without tokens and money, for a request that uses neither. */
export function reserveRequestLimits(
  services: LimitServices,
  context: AuthenticatedRequest,
): MaybePromise<LimitLease> {
  return reserve(services, context, NO_AMOUNTS);
}

/**
 * Reserves the limits for the estimated use of the request, or raises the reservation that was made before its body was
 * read. Returns a promise only if the request waits. Throws, or rejects with, the error for the client.
 */
export function reserveLimits(services: LimitServices, context: AdmittedRequest): MaybePromise<LimitLease> {
  const use = estimateUse(services, context);
  const { lease, subjects } = context;
  if (lease === null) return reserve(services, context, use);
  const { sharing, limiter } = services;
  if (sharing === null) {
    raiseReservation(services, { lease, subjects }, use);
    return lease;
  }
  const raise = () => (limiter.raise(lease, subjects, use) === null ? lease : null);
  return raise() ?? raiseAfterGain(services, context, { raise, use, lease });
}

/** Other nodes may give what the raised reservation lacks. */
async function raiseAfterGain(
  services: LimitServices,
  { subjects, call }: AdmittedRequest,
  { raise, use, lease }: { raise(): LimitLease | null; use: EstimatedUse; lease: LimitLease },
): Promise<LimitLease> {
  const startedMs = services.clock.monotonicMs();
  await services.sharing?.waitForGain();
  recordShareWait(services, startedMs);
  if (call.request.signal.aborted) throw clientGone();
  if (raise() === null) raiseReservation(services, { lease, subjects }, use);
  return lease;
}

/** Estimates only what a limit of the caller counts. A window that affords less than the maximum caps the output. */
function estimateUse({ estimates, limiter }: LimitServices, context: AdmittedRequest): EstimatedUse {
  const { caller, endpoint, request, model, subjects } = context;
  const { counted } = computeReservedUse(subjects);
  const budget = counted.nano
    ? forecastBudget(estimates, { caller, endpoint, request, model, windowCap: null, windowSearches: null })
    : null;
  if (budget === null) return estimateCounts(request, counted, 0);
  const nano = reserveWithin(budget, limiter.computeRemainingNano(subjects));
  context.budget = budget;
  context.windowCap = outputCapWithin(budget, nano);
  context.windowSearches = searchesWithin(budget, nano);
  return estimateCounts(request, counted, Number(nano));
}

function reserve(
  services: LimitServices,
  context: AuthenticatedRequest,
  use: EstimatedUse,
): MaybePromise<LimitLease> {
  const { subjects } = context;
  if (services.sharing?.isClosed && hasLimits(subjects)) throw coordinatorLost();
  const admission = services.limiter.admit(subjects, use);
  if (admission.ok) return admission.lease;
  const { shortage } = admission;
  if (admission.mayGrow && services.sharing !== null)
    return reserveAfterGain(services, context, { use, shortage });
  return rejectOrWait(services, context, { use, shortage });
}

function rejectOrWait(
  services: LimitServices,
  context: AuthenticatedRequest,
  first: FailedReservation,
): Promise<LimitLease> {
  if (!isFreedByRelease(first.shortage)) throw limitError(services, context.subjects, first.shortage);
  return waitForSlot(services, context, first);
}

/** Other nodes may give what the request lacks. That takes a few hundred milliseconds at most. */
async function reserveAfterGain(
  services: LimitServices,
  context: AuthenticatedRequest,
  first: FailedReservation,
): Promise<LimitLease> {
  const { limiter, sharing, clock } = services;
  const { subjects, call, trace } = context;
  const { use } = first;
  const startedMs = clock.monotonicMs();
  const untilMs = startedMs + (sharing?.waitMs ?? 0);
  let { shortage } = first;
  for (let mayGrow = true; mayGrow && clock.monotonicMs() < untilMs; ) {
    const hasResponded = sharing !== null && (await sharing.waitForGain());
    if (call.request.signal.aborted) throw clientGone();
    const admission = limiter.admit(subjects, use);
    if (admission.ok) {
      trace.slotWaitMs += Math.round(recordShareWait(services, startedMs));
      return admission.lease;
    }
    shortage = admission.shortage;
    mayGrow = admission.mayGrow && hasResponded;
  }
  recordShareWait(services, startedMs);
  return rejectOrWait(services, context, { use, shortage });
}

/** Returns the wait in milliseconds. */
function recordShareWait(
  { clock, requestMetrics }: Pick<LimitServices, "clock" | "requestMetrics">,
  startedMs: number,
): number {
  const tookMs = clock.monotonicMs() - startedMs;
  requestMetrics.shareWait.add(tookMs / 1_000);
  return tookMs;
}

/** A reservation that the limits have rejected. */
interface FailedReservation {
  readonly use: EstimatedUse;
  readonly shortage: Shortage;
}

function withoutAmounts(lease: LimitLease): LimitLease {
  lease.settle(NO_AMOUNTS);
  return lease;
}

/** A limit of 0 is never freed by a release. */
function isFreedByRelease({ kind, max }: Shortage): boolean {
  return kind === "concurrency" && max > 0;
}

async function waitForSlot(
  services: LimitServices,
  context: AuthenticatedRequest,
  first: FailedReservation,
): Promise<LimitLease> {
  const { limiter, concurrencyQueue, clock } = services;
  const { trace, call, caller, subjects } = context;
  const { key, group } = caller;
  const { use } = first;
  const startedMs = clock.monotonicMs();
  let { shortage } = first;
  trace.waitingSinceMs = startedMs;
  const result = await concurrencyQueue.wait<LimitLease>({
    keyId: key.id,
    groupId: group.id,
    subjects,
    maxWaiting: group.queue.maxWaiting,
    timeoutMs: Math.max(0, group.queue.timeoutMs - waitedMs(trace, startedMs)),
    attempt() {
      const admission = limiter.admit(subjects, use);
      if (admission.ok) return { taken: admission.lease };
      shortage = admission.shortage;
      return isFreedByRelease(shortage) ? "blocked" : "rejected";
    },
    disconnectSignal: call.request.signal,
  });
  endWait(trace, clock.monotonicMs());
  trace.slotWaitMs += Math.round(clock.monotonicMs() - startedMs);
  if (result.kind === "taken") return result.value;
  throw buildRejection(services, context, { kind: result.kind, shortage });
}

interface FailedWait {
  readonly kind: "full" | "timeout" | "rejected" | "left";
  readonly shortage: Shortage;
}

function buildRejection(
  services: LimitServices,
  { caller, subjects }: AuthenticatedRequest,
  { kind, shortage }: FailedWait,
): ApiError {
  const { maxWaiting, timeoutMs } = caller.group.queue;
  switch (kind) {
    case "left":
      return clientGone();
    case "rejected":
      return limitError(services, subjects, shortage);
    case "full":
      return maxWaiting === 0
        ? limitError(services, subjects, shortage)
        : queueTimeoutError(
            services,
            subjects,
            shortage,
            `The queue of your group is full (${maxWaiting} requests).`,
          );
    case "timeout":
      return queueTimeoutError(
        services,
        subjects,
        shortage,
        `No slot became available within ${waitText(timeoutMs)}.`,
      );
  }
}
