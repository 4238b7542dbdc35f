/**
 * Moves the limit reservation of a request to its next step. The limits of the new group are reserved before those of
 * the old group are returned. Those of key and user stay and count once; only their estimates change.
 */

import { NO_AMOUNTS } from "../../limits/amounts.ts";
import { JoinedLease } from "../../limits/joined-lease.ts";
import type { LimitLease, Subject } from "../../limits/limiter.ts";
import { coordinatorLost, groupSubjects, limitError, ownSubjects } from "../admission/caller-limits.ts";
import type { AdmittedRequest } from "../request-context.ts";
import { type Demand, describeDemand, estimateUse, type LimitServices } from "../reserve-limits.ts";
import { clientGone } from "../upstream/send-request.ts";

/** Never waits for a slot. Rejects with the error of the limit that has no room; the request then has no reserved amounts. */
export async function moveLimits(
  services: LimitServices,
  context: AdmittedRequest,
  { lease, groupId }: { readonly lease: LimitLease; readonly groupId: string },
): Promise<LimitLease> {
  const { caller } = context;
  const extent = services.leases === null ? "final" : "whole";
  // The request does not return to the step before, and its own reservation must not count against the new one.
  lease.settle(NO_AMOUNTS);
  const demand = describeDemand(services, context, estimateUse(services, context, extent));
  if (caller.group.id === groupId) {
    for (const { part, subjects } of listParts(lease, context))
      await raisePart(services, context, { demand, lease: part, subjects });
    return lease;
  }
  const own = lease instanceof JoinedLease ? lease.own : lease;
  const group = await admitGroup(services, context, demand);
  try {
    await raisePart(services, context, { demand, lease: own, subjects: ownSubjects(caller) });
  } catch (cause) {
    group.cancel();
    throw cause;
  }
  if (lease instanceof JoinedLease) lease.group.cancel();
  else lease.cancelSubjects(groupSubjects({ key: caller.key, group: { ...caller.group, id: groupId } }));
  return new JoinedLease(own, group);
}

interface LeasePart {
  readonly part: LimitLease;
  readonly subjects: readonly Subject[];
}

function listParts(lease: LimitLease, { caller, subjects }: AdmittedRequest): readonly LeasePart[] {
  if (!(lease instanceof JoinedLease)) return [{ part: lease, subjects }];
  return [
    { part: lease.own, subjects: ownSubjects(caller) },
    { part: lease.group, subjects: groupSubjects(caller) },
  ];
}

async function admitGroup(
  services: LimitServices,
  { caller, call }: AdmittedRequest,
  demand: Demand,
): Promise<LimitLease> {
  const { limiter, leases } = services;
  const subjects = groupSubjects(caller);
  const first = limiter.admit(subjects, demand.use);
  if (first.ok) return first.lease;
  let { shortage } = first;
  if (leases !== null && first.mayGrow) {
    let taken: LimitLease | null = null;
    const outcome = await leases.borrow({
      key: caller.key.id,
      subjects,
      use: demand.use,
      leastNano: demand.leastNano,
      raises: null,
      attempt(extent) {
        const admission = limiter.admit(subjects, demand.estimate(extent));
        if (admission.ok) taken = admission.lease;
        return admission.ok;
      },
    });
    const lease = taken as LimitLease | null;
    if (call.request.signal.aborted) {
      lease?.cancel();
      throw clientGone();
    }
    if (lease !== null) return lease;
    if (outcome === "lost") throw coordinatorLost();
  }
  const last = limiter.admit(subjects, demand.estimate("final"));
  if (last.ok) return last.lease;
  ({ shortage } = last);
  throw limitError(services, subjects, shortage);
}

interface Raise {
  readonly demand: Demand;
  readonly lease: LimitLease;
  readonly subjects: readonly Subject[];
}

async function raisePart(
  services: LimitServices,
  { caller, call }: AdmittedRequest,
  { demand, lease, subjects }: Raise,
): Promise<void> {
  const { limiter, leases } = services;
  if (limiter.raise(lease, subjects, demand.use) === null) return;
  if (leases !== null) {
    const outcome = await leases.borrow({
      key: caller.key.id,
      subjects,
      use: demand.use,
      leastNano: demand.leastNano,
      raises: lease,
      attempt: (extent) => limiter.raise(lease, subjects, demand.estimate(extent)) === null,
    });
    if (call.request.signal.aborted) throw clientGone();
    if (outcome === "lost") throw coordinatorLost();
    if (outcome === "taken") return;
  }
  const shortage = limiter.raise(lease, subjects, demand.estimate("final"));
  if (shortage !== null) throw limitError(services, subjects, shortage);
}
