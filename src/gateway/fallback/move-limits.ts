/**
 * Moves the limit reservation of a request to its next step. The limits of the new group are reserved before those of
 * the old group are returned. Those of key and user stay and count once; only their estimates change.
 */

import { NO_AMOUNTS } from "../../limits/amounts.ts";
import { JoinedLease } from "../../limits/joined-lease.ts";
import type { LimitLease, Subject } from "../../limits/limiter-types.ts";
import { groupSubjects, limitError, ownSubjects } from "../admission/caller-limits.ts";
import type { AdmittedRequest } from "../request-context.ts";
import {
  borrowLease,
  type Demand,
  describeDemand,
  estimateUse,
  type LimitServices,
  raiseLease,
} from "../reserve-limits.ts";

/** Never waits for a slot. Rejects with the error of the limit that has no room; the request then has no reserved amounts. */
export async function moveLimits(
  services: LimitServices,
  context: AdmittedRequest,
  { lease, groupId }: { readonly lease: LimitLease; readonly groupId: string },
): Promise<LimitLease> {
  const { caller } = context;
  const extent = services.limitBorrower === null ? "final" : "whole";
  // The request does not return to the step before, and its own reservation must not count against the new one.
  lease.settle(NO_AMOUNTS);
  const demand = describeDemand(services, context, estimateUse(services, context, extent));
  if (caller.group.id === groupId) {
    for (const { part, subjects } of listParts(lease, context))
      await raiseLease(services, context, { demand, lease: part, subjects });
    return lease;
  }
  const own = lease instanceof JoinedLease ? lease.own : lease;
  const group = await admitGroup(services, context, demand);
  try {
    await raiseLease(services, context, { demand, lease: own, subjects: ownSubjects(caller) });
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
  context: AdmittedRequest,
  demand: Demand,
): Promise<LimitLease> {
  const { limiter, limitBorrower } = services;
  const subjects = groupSubjects(context.caller);
  const first = limiter.admit(subjects, demand.use);
  if (first.ok) return first.lease;
  if (limitBorrower !== null && first.mayGrow) {
    const { lease } = await borrowLease({ ...services, limitBorrower }, context, { demand, subjects });
    if (lease !== null) return lease;
  }
  const last = limiter.admit(subjects, demand.estimate("final"));
  if (last.ok) return last.lease;
  throw limitError(services, subjects, last.shortage);
}
