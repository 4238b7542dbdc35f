/**
 * Reserves the limits of a caller, at once or after a wait. A request that exceeds only a concurrency limit waits in
 * its group's queue; every other limit rejects it at once.
 */

import type { Clock } from "../base/clock.ts";
import { isPending, type MaybePromise, whenReady } from "../base/maybe-promise.ts";
import type { ApiError } from "../errors.ts";
import { LEAST_USE, NO_AMOUNTS } from "../limits/amounts.ts";
import type { LimitBorrower } from "../limits/borrower/limit-borrower.ts";
import type { ConcurrencyQueue } from "../limits/concurrency-queue.ts";
import type {
  Admission,
  EstimatedUse,
  Limiter,
  LimitLease,
  Shortage,
  Subject,
} from "../limits/limiter-types.ts";
import type { RequestMetrics } from "../observe/request-metrics.ts";
import type { QueueSettings } from "../records/group.ts";
import {
  computeReservedUse,
  coordinatorLost,
  groupSubjects,
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
import { mayLeaveGroup } from "./steps/find-conditions.ts";
import { leavingQueueBeforeBody } from "./steps/leaving-queue.ts";
import { clientGone } from "./upstream/send-request.ts";

export interface LimitServices {
  readonly limiter: Limiter;
  readonly concurrencyQueue: ConcurrencyQueue;
  readonly clock: Clock;
  readonly requestMetrics: Pick<RequestMetrics, "shareWait">;
  readonly estimates: Pick<InputEstimates, "estimate">;
  /** Null if there is one node. */
  readonly limitBorrower: Pick<LimitBorrower, "borrow" | "queue" | "isClosed"> | null;
}

type BorrowerServices = LimitServices & {
  readonly limitBorrower: NonNullable<LimitServices["limitBorrower"]>;
};

/**
 * Reserves the limits before the body is read, for bodies that are expensive to read. Tokens and cost are unknown until
 * then; `reserveLimits` adds them. A rejected or waiting request consumes nothing, and its body stays unread.
 */
export function reserveLimitsBeforeBody(
  services: LimitServices,
  context: AuthenticatedRequest,
): MaybePromise<LimitLease | null> {
  // A limit of the group may send the request to a fallback step, which is known when its model has been read.
  const leaveGroup = (error: unknown): null => {
    if (mayLeaveGroup(context.caller, error)) return null;
    throw error;
  };
  try {
    const lease = whenReady(reserve(services, context, LEAST_USE), withoutAmounts);
    return isPending(lease) ? lease.catch(leaveGroup) : lease;
  } catch (error) {
    return leaveGroup(error);
  }
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
  const { limitBorrower, limiter } = services;
  const { lease, subjects } = context;
  const use = estimateUse(services, context, limitBorrower === null ? "final" : "whole");
  if (lease === null) {
    const admission = admitRequest(services, context, use);
    if (admission.ok) return admission.lease;
    return reserveLater(services, context, { ...describeDemand(services, context, use), ...admission });
  }
  if (limitBorrower === null) {
    raiseReservation(services, { lease, subjects }, use);
    return lease;
  }
  if (limiter.raise(lease, subjects, use) === null) return lease;
  const demand = describeDemand(services, context, use);
  return raiseLease(services, context, { demand, lease, subjects }).then(() => lease);
}

/** What a request wants of its limits. */
export interface Demand {
  readonly use: EstimatedUse;
  /** The cost of the shortest output. */
  readonly leastNano: number;
  /** `whole`: with the longest output that empty windows afford. `final`: that the rest of them affords. */
  estimate(extent: Extent): EstimatedUse;
}

type Extent = "whole" | "final";

export function describeDemand(services: LimitServices, context: AdmittedRequest, use: EstimatedUse): Demand {
  const { budget } = context;
  return {
    use,
    leastNano: budget === null ? 0 : Number(reserveWithin(budget, 0)),
    estimate: (extent) => estimateUse(services, context, extent),
  };
}

/** Estimates only what a limit of the caller counts. A window that affords less than the maximum caps the output. */
export function estimateUse(services: LimitServices, context: AdmittedRequest, extent: Extent): EstimatedUse {
  const { estimates, limiter } = services;
  const { caller, endpoint, request, model, subjects } = context;
  const { counted, nanoMax } = computeReservedUse(subjects);
  const budget = counted.nano
    ? forecastBudget(estimates, { caller, endpoint, request, model, windowCap: null, windowSearches: null })
    : null;
  if (budget === null) return estimateCounts(request, counted, 0);
  const restNano = extent === "whole" ? nanoMax : limiter.computeRemainingNano(subjects);
  const nano = reserveWithin(budget, restNano);
  context.budget = budget;
  context.windowCap = outputCapWithin(budget, nano);
  context.windowSearches = searchesWithin(budget, nano);
  return estimateCounts(request, counted, Number(nano));
}

/** Reserves the same, whatever is left. */
function reserve(
  services: LimitServices,
  context: AuthenticatedRequest,
  use: EstimatedUse,
): MaybePromise<LimitLease> {
  const admission = admitRequest(services, context, use);
  if (admission.ok) return admission.lease;
  return reserveLater(services, context, {
    use,
    leastNano: use.nano ?? 0,
    estimate: () => use,
    ...admission,
  });
}

function admitRequest(
  { limitBorrower, limiter }: LimitServices,
  { subjects }: AuthenticatedRequest,
  use: EstimatedUse,
): Admission {
  if (limitBorrower?.isClosed && hasLimits(subjects)) throw coordinatorLost();
  return limiter.admit(subjects, use);
}

function reserveLater(
  services: LimitServices,
  context: AuthenticatedRequest,
  failed: FailedReservation,
): Promise<LimitLease> {
  const { limitBorrower, limiter } = services;
  if (limitBorrower === null) return rejectOrWait(services, context, failed);
  if (!failed.mayGrow) {
    // Nothing more can be borrowed, but what this node holds may afford a shorter output.
    const capped =
      failed.shortage.unit === "nano" ? limiter.admit(context.subjects, failed.estimate("final")) : null;
    return capped?.ok ? Promise.resolve(capped.lease) : rejectOrWait(services, context, failed);
  }
  return borrowAndReserve({ ...services, limitBorrower }, context, failed);
}

function rejectOrWait(
  services: LimitServices,
  context: AuthenticatedRequest,
  failed: FailedReservation,
): Promise<LimitLease> {
  if (!isFreedByRelease(failed.shortage)) throw limitError(services, context.subjects, failed.shortage);
  return waitForSlot(services, context, failed);
}

async function borrowAndReserve(
  services: BorrowerServices,
  context: AuthenticatedRequest,
  failed: FailedReservation,
): Promise<LimitLease> {
  const { subjects } = context;
  const { lease, isFinal } = await borrowLease(services, context, { demand: failed, subjects });
  if (lease !== null) return lease;
  const again = services.limiter.admit(subjects, failed.estimate(isFinal ? "final" : "whole"));
  return again.ok ? again.lease : rejectOrWait(services, context, { ...failed, ...again });
}

interface BorrowedReservation {
  /** Null if other nodes hold what is lacking. */
  readonly lease: LimitLease | null;
  /** Nothing more is lent: only a shorter output can fit. */
  readonly isFinal: boolean;
}

/** Borrows what this node lacks: usually one round trip, and half a second if other nodes hold it. */
export async function borrowLease(
  { limiter, limitBorrower, clock, requestMetrics }: BorrowerServices,
  { caller, call, trace }: AuthenticatedRequest,
  { demand, subjects }: { readonly demand: Demand; readonly subjects: readonly Subject[] },
): Promise<BorrowedReservation> {
  const startedMs = clock.monotonicMs();
  let borrowed: LimitLease | null = null;
  const outcome = await limitBorrower.borrow({
    key: caller.key.id,
    subjects,
    use: demand.use,
    leastNano: demand.leastNano,
    raises: null,
    attempt(extent) {
      const admission = limiter.admit(subjects, demand.estimate(extent));
      if (admission.ok) borrowed = admission.lease;
      return admission.ok;
    },
  });
  const tookMs = clock.monotonicMs() - startedMs;
  requestMetrics.shareWait.add(tookMs / 1_000);
  trace.slotWaitMs += Math.round(tookMs);
  const lease = borrowed as LimitLease | null;
  if (call.request.signal.aborted) {
    lease?.cancel();
    throw clientGone();
  }
  if (lease === null && outcome === "lost") throw coordinatorLost();
  return { lease, isFinal: outcome === "rejected" };
}

interface Raise {
  readonly demand: Demand;
  readonly lease: LimitLease;
  readonly subjects: readonly Subject[];
}

/** Raises the reservation to the demand. On several nodes the missing part is borrowed. */
export async function raiseLease(
  services: LimitServices,
  { caller, call }: AuthenticatedRequest,
  { demand, lease, subjects }: Raise,
): Promise<void> {
  const { limiter, limitBorrower, clock, requestMetrics } = services;
  const { use, leastNano, estimate } = demand;
  if (limiter.raise(lease, subjects, use) === null) return;
  if (limitBorrower !== null) {
    const startedMs = clock.monotonicMs();
    const outcome = await limitBorrower.borrow({
      key: caller.key.id,
      subjects,
      use,
      leastNano,
      raises: lease,
      attempt: (extent) => limiter.raise(lease, subjects, estimate(extent)) === null,
    });
    requestMetrics.shareWait.add((clock.monotonicMs() - startedMs) / 1_000);
    if (call.request.signal.aborted) throw clientGone();
    if (outcome === "lost") throw coordinatorLost();
    if (outcome === "taken") return;
  }
  raiseReservation(services, { lease, subjects }, estimate("final"));
}

interface FailedReservation extends Demand {
  readonly shortage: Shortage;
  readonly mayGrow: boolean;
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
  const { limiter, concurrencyQueue, clock, limitBorrower } = services;
  const { trace, call, caller, subjects } = context;
  const { key, group } = caller;
  const startedMs = clock.monotonicMs();
  let { shortage } = first;
  const queue = findQueue(context, shortage);
  trace.waitingSinceMs = startedMs;
  const queued = limitBorrower?.queue({
    key: key.id,
    subjects,
    use: first.use,
    leastNano: first.leastNano,
    raises: null,
    attempt() {
      concurrencyQueue.serveKey(key.id);
      return false;
    },
  });
  const result = await concurrencyQueue.wait<LimitLease>({
    keyId: key.id,
    groupId: group.id,
    subjects,
    maxWaiting: queue.maxWaiting,
    timeoutMs: Math.max(0, queue.timeoutMs - waitedMs(trace, startedMs)),
    attempt() {
      const use = first.estimate(queued?.extent ?? "final");
      const admission = limiter.admit(subjects, use);
      if (admission.ok) return { taken: admission.lease };
      queued?.want(use);
      const lacksSlot = isFreedByRelease(admission.shortage);
      // What this node only has to borrow, besides the slot, is not what the request waits for.
      if (lacksSlot || !admission.mayGrow) shortage = admission.shortage;
      return lacksSlot || admission.mayGrow ? "blocked" : "rejected";
    },
    disconnectSignal: call.request.signal,
  });
  queued?.stop();
  endWait(trace, clock.monotonicMs());
  trace.slotWaitMs += Math.round(clock.monotonicMs() - startedMs);
  if (result.kind === "taken") return result.value;
  throw buildRejection(services, context, { kind: result.kind, shortage, queue });
}

interface FailedWait {
  readonly kind: "full" | "timeout" | "rejected" | "left";
  readonly shortage: Shortage;
  readonly queue: QueueSettings;
}

function findQueue(
  { caller, endpoint, request, fallback }: AuthenticatedRequest,
  { id }: Shortage,
): QueueSettings {
  const isOfGroup = groupSubjects(caller).some((subject) => subject.id === id);
  if (fallback !== null) return fallback.limitQueue(isOfGroup);
  const isUnread = request === null && endpoint.output !== "count";
  return isUnread && isOfGroup ? leavingQueueBeforeBody(caller) : caller.group.queue;
}

function buildRejection(
  services: LimitServices,
  { subjects }: AuthenticatedRequest,
  { kind, shortage, queue }: FailedWait,
): ApiError {
  const { maxWaiting, timeoutMs } = queue;
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
