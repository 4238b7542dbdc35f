/**
 * Reserves the limits of a caller, at once or after a wait. A request that exceeds only a concurrency limit waits in
 * its group's queue; every other limit rejects it at once.
 */

import type { ApiError } from "../errors.ts";
import type { LimitLease, Shortage, Subject } from "../limits/limiter.ts";
import type { Nano } from "../money/nano.ts";
import type { Caller } from "./admission/authenticate.ts";
import { limitError, queueTimeoutError, waitText } from "./admission/caller-limits.ts";
import type { Gateway } from "./gateway.ts";
import { endWait, waitedMs } from "./request/trace.ts";
import type { RequestRecord } from "./request-record.ts";
import { clientGone } from "./upstream/send-request.ts";

/** The request whose limits are reserved, and what the reservation needs. */
export interface LimitedRequest {
  readonly gateway: Pick<Gateway, "limiter" | "slots" | "clock">;
  readonly record: Pick<RequestRecord, "call" | "trace">;
  readonly caller: Caller;
  readonly subjects: readonly Subject[];
}

/** Returns a promise only if the request waits. Throws, or rejects with, the error for the client. */
export function takeLimits(
  request: LimitedRequest,
  tokensEstimate: number,
  nanoEstimate: Nano,
): LimitLease | Promise<LimitLease> {
  const { gateway, subjects } = request;
  const admission = gateway.limiter.admit(subjects, tokensEstimate, Number(nanoEstimate));
  if (admission.ok) return admission.lease;
  const { shortage } = admission;
  if (!isFreedByRelease(shortage)) throw limitError(gateway, subjects, shortage);
  return waitForSlot(request, tokensEstimate, nanoEstimate, shortage);
}

/**
 * Reserves the limits before the body is read, for bodies that are expensive to read. Tokens and cost are unknown until
 * then; `raiseReservation` adds them. A rejected or waiting request consumes nothing, and its body stays unread.
 */
export function takeLimitsBeforeBody(request: LimitedRequest): LimitLease | Promise<LimitLease> {
  // One token and one nano-USD, so that an exhausted window rejects here; the lease itself reserves none.
  const lease = takeLimits(request, 1, 1n);
  return lease instanceof Promise ? lease.then(withoutAmounts) : withoutAmounts(lease);
}

function withoutAmounts(lease: LimitLease): LimitLease {
  lease.settle(0, 0);
  return lease;
}

/** A limit of 0 is never freed by a release. */
function isFreedByRelease({ kind, max }: Shortage): boolean {
  return kind === "concurrency" && max > 0;
}

async function waitForSlot(
  request: LimitedRequest,
  tokensEstimate: number,
  nanoEstimate: Nano,
  first: Shortage,
): Promise<LimitLease> {
  const { gateway, record, caller, subjects } = request;
  const { limiter, slots, clock } = gateway;
  const { trace, call } = record;
  const { key, group } = caller;
  const startedMs = clock.monotonicMs();
  let shortage = first;
  trace.waitingSinceMs = startedMs;
  const result = await slots.wait<LimitLease>({
    keyId: key.id,
    groupId: group.id,
    subjects,
    maxWaiting: group.queue.maxWaiting,
    timeoutMs: Math.max(0, group.queue.timeoutMs - waitedMs(trace, startedMs)),
    attempt() {
      const admission = limiter.admit(subjects, tokensEstimate, Number(nanoEstimate));
      if (admission.ok) return { taken: admission.lease };
      shortage = admission.shortage;
      return isFreedByRelease(shortage) ? "blocked" : "rejected";
    },
    left: call.request.signal,
  });
  endWait(trace, clock.monotonicMs());
  trace.slotWaitMs += Math.round(clock.monotonicMs() - startedMs);
  if (result.kind === "taken") return result.value;
  throw rejection(request, result.kind, shortage);
}

function rejection(
  { gateway, caller, subjects }: LimitedRequest,
  kind: "full" | "timeout" | "rejected" | "left",
  shortage: Shortage,
): ApiError {
  const { maxWaiting, timeoutMs } = caller.group.queue;
  switch (kind) {
    case "left":
      return clientGone();
    case "rejected":
      return limitError(gateway, subjects, shortage);
    case "full":
      return maxWaiting === 0
        ? limitError(gateway, subjects, shortage)
        : queueTimeoutError(
            gateway,
            subjects,
            shortage,
            `${maxWaiting} requests of your group wait already.`,
          );
    case "timeout":
      return queueTimeoutError(
        gateway,
        subjects,
        shortage,
        `No slot came free within ${waitText(timeoutMs)}.`,
      );
  }
}
