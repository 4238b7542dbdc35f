/** Plans are granted and taken back by hand: from the command line, or a console. */

import type { Clock, NewId } from "../clock.ts";
import { presentEnd } from "../money/subscription.ts";
import type { SubscriptionRecord } from "../records.ts";
import { StoreConflict } from "../store/conflict.ts";
import { type Db, transaction } from "../store/db.ts";
import { listPlans } from "../store/plans.ts";
import { bumpKeyRevision } from "../store/revisions.ts";
import {
  cancelSubscription,
  findSubscription,
  listGranted,
  putSubscription,
} from "../store/subscriptions.ts";

export interface GrantDesk {
  db: Db;
  clock: Clock;
  newId: NewId;
}

export interface Grant extends Pick<SubscriptionRecord, "userId" | "endsAtMs" | "renews" | "priority"> {
  plan: string;
  /** Null: now. */
  startsAtMs: number | null;
}

export async function grantPlan({ db, clock, newId }: GrantDesk, grant: Grant): Promise<SubscriptionRecord> {
  return transaction(db, async (tx) => {
    // For its lock: two who grant the same at once take turns.
    await bumpKeyRevision(tx);
    const plans = await listPlans(tx);
    const planId = plans.find(({ name }) => name === grant.plan)?.id;
    if (planId === undefined) {
      const names = plans.map(({ name }) => name).join(", ");
      const hint = names === "" ? "Name it in a configuration file and apply it." : `Plans: ${names}.`;
      throw new StoreConflict("missing", `There is no plan "${grant.plan}". ${hint}`);
    }
    const nowMs = clock.nowMs();
    const startsAtMs = grant.startsAtMs ?? nowMs;
    // A configuration file knows a subscription by these three.
    const same = (await listGranted(tx, grant.userId)).find(
      (one) => one.planId === planId && one.startsAtMs === startsAtMs && one.status === "active",
    );
    if (same !== undefined) {
      const says = `The user has the plan "${grant.plan}" with this start already: ${same.id}.`;
      throw new StoreConflict("duplicate", says);
    }
    const { userId, endsAtMs, renews, priority } = grant;
    const record: SubscriptionRecord = {
      id: newId("sub"),
      userId,
      planId,
      startsAtMs,
      endsAtMs,
      renews,
      priority,
      status: "active",
      createdAtMs: nowMs,
    };
    await putSubscription(tx, record);
    return record;
  });
}

export type Cancelled =
  | { kind: "cancelled" }
  /** It runs to the end of its term, and does not renew. */
  | { kind: "ending"; endsAtMs: number }
  | { kind: "cancelled_before" }
  /** There is no end to wait for. */
  | { kind: "open" }
  | { kind: "unknown" };

export async function cancelGrant(
  { db, clock }: Pick<GrantDesk, "db" | "clock">,
  id: string,
  when: "now" | "term_end",
): Promise<Cancelled> {
  return transaction(db, async (tx) => {
    await bumpKeyRevision(tx);
    const found = await findSubscription(tx, id);
    const granted =
      found === null ? undefined : (await listGranted(tx, found.userId)).find((one) => one.id === id);
    if (granted === undefined) return { kind: "unknown" };
    if (granted.status === "cancelled") return { kind: "cancelled_before" };
    if (when === "now") {
      await cancelSubscription(tx, id);
      return { kind: "cancelled" };
    }
    const endsAtMs = presentEnd(granted, granted.plan.timeZone, clock.nowMs());
    if (endsAtMs === null) return { kind: "open" };
    const { plan: _, ...record } = granted;
    await putSubscription(tx, { ...record, endsAtMs, renews: "none" });
    return { kind: "ending", endsAtMs };
  });
}
