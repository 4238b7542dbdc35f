/** Grants and cancels subscriptions by hand, from the command line or the console. */

import type { Clock, NewId } from "../../base/clock.ts";
import type { SubscriptionRecord } from "../../records/plan.ts";
import { StoreConflict } from "../../store/engine/conflict.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import { findEntry } from "../../store/money/ledger.ts";
import { listPlans } from "../../store/money/plans.ts";
import { readSubscriptionStatuses } from "../../store/money/subscription-status.ts";
import {
  cancelSubscription,
  findSubscription,
  listGranted,
  putSubscription,
} from "../../store/money/subscriptions.ts";
import {
  checkOrderKey,
  claimOrderKey,
  entryIdForKey,
  keyUsedForOtherOrder,
  subscriptionIdForKey,
} from "./order-key.ts";
import { MoneyOperationRejected } from "./rejection.ts";

interface GrantContext {
  db: Db;
  clock: Clock;
  newId: NewId;
}

interface Grant extends Pick<SubscriptionRecord, "userId" | "endsAtMs" | "renews" | "priority"> {
  plan: string;
  /** Null means now. */
  startsAtMs: number | null;
  /** A repeated key grants nothing and returns the first subscription. */
  idempotencyKey?: string;
}

interface GrantResult {
  subscription: SubscriptionRecord;
  /** The idempotency key was used before for the same grant: nothing was granted now. */
  repeated: boolean;
}

export async function grantPlan({ db, clock, newId }: GrantContext, grant: Grant): Promise<GrantResult> {
  const { idempotencyKey } = grant;
  if (idempotencyKey !== undefined) checkOrderKey(idempotencyKey);
  return transaction(db, async (tx) => {
    // Takes the lock, so that two concurrent grants run one after the other.
    await bumpKeyRevision(tx);
    if (idempotencyKey !== undefined)
      await claimOrderKey(tx, idempotencyKey, { kind: "plan", nowMs: clock.nowMs() });
    const plans = await listPlans(tx);
    const planId = plans.find(({ name }) => name === grant.plan)?.id;
    if (planId === undefined) {
      const names = plans.map(({ name }) => name).join(", ");
      const hint = names === "" ? "Add the plan to a configuration file and apply it." : `Plans: ${names}.`;
      throw new StoreConflict("missing", `The plan "${grant.plan}" does not exist. ${hint}`);
    }
    const before = idempotencyKey === undefined ? null : await findEarlierGrant(tx, idempotencyKey);
    if (before !== null) {
      if (!isSameGrant(before, grant, planId)) throw keyUsedForOtherOrder();
      return { subscription: before, repeated: true };
    }
    const nowMs = clock.nowMs();
    if (grant.renews === "none" && grant.endsAtMs !== null && grant.endsAtMs <= nowMs)
      throw new MoneyOperationRejected(
        "ended_before",
        "The end of the subscription is in the past. Choose a later end.",
      );
    const startsAtMs = grant.startsAtMs ?? nowMs;
    // A configuration file identifies a subscription by these three values.
    const duplicate = (await listGranted(tx, grant.userId)).find(
      (one) => one.planId === planId && one.startsAtMs === startsAtMs && one.status === "active",
    );
    if (duplicate !== undefined) {
      const message = `The user already has the plan "${grant.plan}" with this start: ${duplicate.id}.`;
      throw new StoreConflict("duplicate", message);
    }
    const { userId, endsAtMs, renews, priority } = grant;
    const subscription: SubscriptionRecord = {
      id: idempotencyKey === undefined ? newId("sub") : subscriptionIdForKey(idempotencyKey),
      userId,
      planId,
      startsAtMs,
      endsAtMs,
      renews,
      priority,
      status: "active",
      createdAtMs: nowMs,
    };
    await putSubscription(tx, subscription);
    return { subscription, repeated: false };
  });
}

async function findEarlierGrant(tx: Db, idempotencyKey: string): Promise<SubscriptionRecord | null> {
  // Finds entries from versions without claims.
  if ((await findEntry(tx, entryIdForKey(idempotencyKey))) !== null) throw keyUsedForOtherOrder();
  return findSubscription(tx, subscriptionIdForKey(idempotencyKey));
}

/** A subscription that was changed since is no longer the granted one, so its key is rejected. */
function isSameGrant(before: SubscriptionRecord, grant: Grant, planId: string): boolean {
  return (
    before.planId === planId &&
    before.userId === grant.userId &&
    (grant.startsAtMs === null || before.startsAtMs === grant.startsAtMs) &&
    before.endsAtMs === grant.endsAtMs &&
    before.renews === grant.renews &&
    before.priority === grant.priority
  );
}

type CancellationResult =
  | { kind: "cancelled" }
  /** It runs to the end of its term and does not renew. */
  | { kind: "ending"; endsAtMs: number }
  | { kind: "cancelled_before" }
  /** The subscription has no end. */
  | { kind: "open" }
  | { kind: "unknown" };

export async function cancelGrant(
  { db, clock }: Pick<GrantContext, "db" | "clock">,
  id: string,
  when: "now" | "term_end",
): Promise<CancellationResult> {
  return transaction(db, async (tx) => {
    await bumpKeyRevision(tx);
    const record = await findSubscription(tx, id);
    if (record === null) return { kind: "unknown" };
    if (record.status === "cancelled") return { kind: "cancelled_before" };
    if (when === "now") {
      await cancelSubscription(tx, id);
      return { kind: "cancelled" };
    }
    const [status] = await readSubscriptionStatuses(tx, [id], clock.nowMs());
    const endsAtMs = status?.endsAtMs ?? null;
    if (endsAtMs === null) return { kind: "open" };
    await putSubscription(tx, { ...record, endsAtMs, renews: "none" });
    return { kind: "ending", endsAtMs };
  });
}
