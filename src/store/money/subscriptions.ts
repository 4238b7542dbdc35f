/** Subscriptions: plans granted to users. */

import { type PlanRecord, RENEWALS, type SubscriptionRecord } from "../../records/plan.ts";
import { StoreConflict } from "../engine/conflict.ts";
import { type Db, placeholder, type Row, transaction } from "../engine/db.ts";
import { lockClause, lockIn } from "../engine/dialect.ts";
import { bumpKeyRevision } from "../engine/revisions.ts";
import { enumText, integer, integerOrNull, text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";
import { planWindows } from "./plans.ts";

export interface GrantedPlan extends SubscriptionRecord {
  plan: Pick<PlanRecord, "name" | "timeZone" | "windows">;
}

export async function listSubscriptions(db: Db): Promise<SubscriptionRecord[]> {
  const rows = await db.sql`
    SELECT id, user_id, plan_id, starts_at_ms, ends_at_ms, renews, priority, status, created_at_ms
    FROM subscription ORDER BY created_at_ms, id`;
  return rows.map(toSubscription);
}

export async function listUserSubscriptions(
  db: Db,
  userIds: readonly string[],
): Promise<SubscriptionRecord[]> {
  const rows = await selectIn(
    db,
    `SELECT id, user_id, plan_id, starts_at_ms, ends_at_ms, renews, priority, status, created_at_ms
     FROM subscription WHERE user_id`,
    userIds,
  );
  return rows.map(toSubscription).sort((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1));
}

export async function findSubscription(db: Db, id: string): Promise<SubscriptionRecord | null> {
  const [row] = await db.sql`
    SELECT id, user_id, plan_id, starts_at_ms, ends_at_ms, renews, priority, status, created_at_ms
    FROM subscription WHERE id = ${id}`;
  return row === undefined ? null : toSubscription(row);
}

export async function putSubscription(db: Db, subscription: SubscriptionRecord): Promise<void> {
  const { id, userId, planId, startsAtMs, endsAtMs, renews, priority, status, createdAtMs } = subscription;
  await transaction(db, async (tx) => {
    // Takes the lock: neither the user nor the plan may be deleted between the check and the commit.
    await bumpKeyRevision(tx);
    const [user] = await tx.sql`SELECT id FROM app_user WHERE id = ${userId}`;
    if (user === undefined) throw new StoreConflict("missing", `The user "${userId}" does not exist.`);
    const [plan] = await tx.sql`SELECT id FROM plan WHERE id = ${planId}`;
    if (plan === undefined) throw new StoreConflict("missing", `The plan "${planId}" does not exist.`);
    await tx.sql`
      INSERT INTO subscription (id, user_id, plan_id, starts_at_ms, ends_at_ms, renews, priority, status,
        created_at_ms)
      VALUES (${id}, ${userId}, ${planId}, ${startsAtMs}, ${endsAtMs}, ${renews}, ${priority}, ${status},
        ${createdAtMs})
      ON CONFLICT (id) DO UPDATE SET user_id = excluded.user_id, plan_id = excluded.plan_id,
        starts_at_ms = excluded.starts_at_ms, ends_at_ms = excluded.ends_at_ms, renews = excluded.renews,
        priority = excluded.priority, status = excluded.status, created_at_ms = excluded.created_at_ms`;
  });
}

/** Cancels at once; requests in flight are still charged to it. False if it was not active. */
export async function cancelSubscription(db: Db, id: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    await bumpKeyRevision(tx);
    const changed = await tx.sql`
      UPDATE subscription SET status = 'cancelled' WHERE id = ${id} AND status = 'active' RETURNING id`;
    return changed.length > 0;
  });
}

const GRANTED = `SELECT s.id, s.user_id, s.plan_id, s.starts_at_ms, s.ends_at_ms, s.renews, s.priority, s.status,
  s.created_at_ms, p.name AS plan_name, p.time_zone, p.windows
  FROM subscription s JOIN plan p ON p.id = s.plan_id`;

/** All subscriptions of one user, or of all users if null; oldest first. */
export async function listGranted(db: Db, userId: string | null): Promise<GrantedPlan[]> {
  const order = "ORDER BY s.created_at_ms, s.id";
  const rows =
    userId === null
      ? await db.sql.text(`${GRANTED} ${order}`, [])
      : await db.sql.text(`${GRANTED} WHERE s.user_id = ${placeholder(db.engine, 1)} ${order}`, [userId]);
  return rows.map(toGranted);
}

/** The subscriptions that exist among these ids. */
export async function findGranted(db: Db, ids: readonly string[]): Promise<GrantedPlan[]> {
  return (await selectIn(db, `${GRANTED} WHERE s.id`, ids)).map(toGranted);
}

const LOCK_ORDER = "s.user_id, s.id";

/** Locks the running subscriptions and their windows until the transaction ends. */
export async function lockRunning(tx: Db, userIds: readonly string[], nowMs: number): Promise<GrantedPlan[]> {
  const { engine } = tx;
  const rows = await selectIn(
    tx,
    `${GRANTED} WHERE s.status = 'active' AND s.starts_at_ms <= ${placeholder(engine, 1)}
     AND (s.ends_at_ms IS NULL OR s.renews <> 'none' OR s.ends_at_ms > ${placeholder(engine, 2)})
     AND s.user_id`,
    [...new Set(userIds)].sort(),
    lockClause(tx, LOCK_ORDER, "s"),
    [nowMs, nowMs],
  );
  return rows.map(toGranted);
}

/** Takes the same lock for known ids. */
export async function lockSubscriptions(tx: Db, ids: readonly string[]): Promise<void> {
  const head = "SELECT s.id FROM subscription s WHERE s.id";
  await lockIn(tx, { head, order: LOCK_ORDER, table: "s" }, ids);
}

function toGranted(row: Row): GrantedPlan {
  return {
    ...toSubscription(row),
    plan: {
      name: text(row, "plan_name"),
      timeZone: text(row, "time_zone"),
      windows: planWindows(row, "windows"),
    },
  };
}

const STATUSES = ["active", "cancelled"] as const;

function toSubscription(row: Row): SubscriptionRecord {
  return {
    id: text(row, "id"),
    userId: text(row, "user_id"),
    planId: text(row, "plan_id"),
    startsAtMs: integer(row, "starts_at_ms"),
    endsAtMs: integerOrNull(row, "ends_at_ms"),
    renews: enumText(row, "renews", RENEWALS),
    priority: integer(row, "priority"),
    status: enumText(row, "status", STATUSES),
    createdAtMs: integer(row, "created_at_ms"),
  };
}
