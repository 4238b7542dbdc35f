/** Alerts and the deliveries of their notifications. */

import { z } from "zod";
import { ALERT_RULES, type AlertRule } from "../../records/alert-rules.ts";
import { type Db, placeholder, type Row, transaction } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { enumText, integer, integerOrNull, json, text, textOrNull } from "../engine/row.ts";
import { choice, rowReader } from "../engine/row-reader.ts";
import { selectIn } from "../engine/select-in.ts";

/** The rules of the first version. */
const FIRST_RULES = [
  "account_parked",
  "pool_empty",
  "spend",
  "error_rate",
  "overruns",
  "billing_fault",
  "slow_turns",
  "node_silent",
  "coordinator_lost",
  "clock_skew",
  "database_failover",
  "database_away",
] as const satisfies readonly AlertRule[];
/**
 * Nodes of an earlier version do not know the other rules. In their columns such an alert is a parked account on a node
 * that does not exist, so that they show its message and leave it open.
 */
const LATER_RULES = ALERT_RULES.filter((rule) => !(FIRST_RULES as readonly AlertRule[]).includes(rule));
const RULE_FOR_EARLIER_NODES = "account_parked";
/** Before the node of such an alert. */
const LATER_NODE = "*";

export const ALERT_EVENTS = ["firing", "resolved"] as const;
export type AlertEvent = (typeof ALERT_EVENTS)[number];

const detailsSchema = z.record(z.string(), z.union([z.string(), z.number()]));
export type AlertDetails = Readonly<z.output<typeof detailsSchema>>;

export interface AlertRecord {
  id: string;
  rule: AlertRule;
  /** What the alert is about: an account id, a group id or a day. Unique per rule and node among open alerts. */
  subject: string;
  /** The node that raised the alert; empty for a condition that all nodes share. */
  node: string;
  /** One sentence, without secrets. */
  message: string;
  details: AlertDetails;
  startedAtMs: number;
  /** Null while the alert is open. */
  endedAtMs: number | null;
}

export const DELIVERY_STATES = ["pending", "delivered", "failed"] as const;

const toDelivery = rowReader({
  id: text,
  alertId: text,
  event: choice(ALERT_EVENTS),
  /** Name of the webhook. */
  webhook: text,
  body: text,
  state: choice(DELIVERY_STATES),
  attempts: integer,
  dueAtMs: integer,
  /** Result of the last attempt, as text. */
  response: textOrNull,
  createdAtMs: integer,
  endedAtMs: integerOrNull,
});
export type DeliveryRecord = ReturnType<typeof toDelivery>;

export type NewDelivery = Pick<DeliveryRecord, "id" | "event" | "webhook" | "body">;

/** Returns false if the same alert was already open: only the node that opens it delivers it. */
export async function openAlert(
  db: Db,
  alert: AlertRecord,
  deliveries: readonly NewDelivery[],
): Promise<boolean> {
  const isLater = isLaterRule(alert.rule);
  return transaction(db, async (tx) => {
    const opened = await tx.sql`
      INSERT INTO alert (id, rule, later_rule, subject, node, message, details, started_at_ms, ended_at_ms)
      VALUES (${alert.id}, ${isLater ? RULE_FOR_EARLIER_NODES : alert.rule}, ${isLater ? alert.rule : null},
        ${alert.subject}, ${isLater ? LATER_NODE + alert.node : alert.node}, ${alert.message},
        ${JSON.stringify(alert.details)}, ${alert.startedAtMs}, ${alert.endedAtMs})
      ON CONFLICT DO NOTHING RETURNING id`;
    if (opened.length === 0) return false;
    await insertDeliveries(tx, alert.id, alert.startedAtMs, deliveries);
    return true;
  });
}

/** Returns false if another node has closed it. */
export async function closeAlert(
  db: Db,
  id: string,
  endedAtMs: number,
  deliveries: readonly NewDelivery[],
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const closed = await tx.sql`
      UPDATE alert SET ended_at_ms = ${endedAtMs} WHERE id = ${id} AND ended_at_ms IS NULL RETURNING id`;
    if (closed.length === 0) return false;
    await insertDeliveries(tx, id, endedAtMs, deliveries);
    return true;
  });
}

async function insertDeliveries(tx: Db, alertId: string, nowMs: number, deliveries: readonly NewDelivery[]) {
  const rows = deliveries.map(({ id, event, webhook, body }) => [
    id,
    alertId,
    event,
    webhook,
    body,
    "pending",
    0,
    nowMs,
    nowMs,
  ]);
  const columns = ["id", "alert_id", "event", "webhook", "body", "state", "attempts", "due_at_ms"];
  await insertRows(tx, "alert_delivery", [...columns, "created_at_ms"], rows);
}

/** Alerts raised by this node, or shared by all nodes. */
export async function listOpenAlerts(db: Db, node: string): Promise<AlertRecord[]> {
  const rows = await db.sql.text(
    `${SELECT} WHERE ended_at_ms IS NULL
       AND node IN ('', '${LATER_NODE}', ${placeholder(db.engine, 1)}, ${placeholder(db.engine, 2)})
     ORDER BY started_at_ms`,
    [node, LATER_NODE + node],
  );
  return rows.map(toAlert);
}

interface AlertCursor {
  startedAtMs: number;
  id: string;
}

export interface ListedAlert extends AlertRecord {
  deliveries: DeliveryRecord[];
}

/** Lists alerts, newest first, with their deliveries. */
export async function listAlerts(
  db: Db,
  page: { after: AlertCursor | null; limit: number },
): Promise<{ alerts: ListedAlert[]; next: AlertCursor | null }> {
  const at = (number: number) => placeholder(db.engine, number);
  const found = await db.sql.text(
    `${SELECT} WHERE (started_at_ms, id) < (${at(1)}, ${at(2)})
     ORDER BY started_at_ms DESC, id DESC LIMIT ${page.limit + 1}`,
    [page.after?.startedAtMs ?? Number.MAX_SAFE_INTEGER, page.after?.id ?? ""],
  );
  const alerts = found.slice(0, page.limit).map(toAlert);
  const rows = await selectIn(
    db,
    `${SELECT_DELIVERY} WHERE alert_id`,
    alerts.map(({ id }) => id),
    "ORDER BY created_at_ms, id",
  );
  const byAlert = Map.groupBy(rows.map(toDelivery), ({ alertId }) => alertId);
  const last = alerts.at(-1);
  const more = found.length > page.limit && last !== undefined;
  return {
    alerts: alerts.map((alert) => ({ ...alert, deliveries: byAlert.get(alert.id) ?? [] })),
    next: more ? { startedAtMs: last.startedAtMs, id: last.id } : null,
  };
}

/**
 * Claims the deliveries that are due: no other node gets them until `againAtMs`. A "resolved" delivery waits until
 * its "firing" delivery has ended.
 */
export async function claimDeliveries(
  db: Db,
  nowMs: number,
  againAtMs: number,
  max: number,
): Promise<DeliveryRecord[]> {
  const due = await db.sql`
    SELECT id FROM alert_delivery AS own WHERE state = 'pending' AND due_at_ms <= ${nowMs}
      AND NOT EXISTS (SELECT 1 FROM alert_delivery AS earlier WHERE earlier.alert_id = own.alert_id
        AND earlier.webhook = own.webhook AND earlier.state = 'pending' AND earlier.event = 'firing'
        AND own.event = 'resolved')
    ORDER BY due_at_ms, id LIMIT ${max}`;
  const claimed: DeliveryRecord[] = [];
  for (const row of due) {
    const [own] = await db.sql`
      UPDATE alert_delivery SET due_at_ms = ${againAtMs}, attempts = attempts + 1
      WHERE id = ${text(row, "id")} AND state = 'pending' AND due_at_ms <= ${nowMs}
      RETURNING id, alert_id, event, webhook, body, state, attempts, due_at_ms, answer AS response, created_at_ms,
        ended_at_ms`;
    if (own !== undefined) claimed.push(toDelivery(own));
  }
  return claimed;
}

/** `dueAtMs` null: the delivery has ended, either delivered or failed. */
export async function recordDelivery(
  db: Db,
  id: string,
  {
    state,
    response,
    dueAtMs,
    nowMs,
  }: Pick<DeliveryRecord, "state" | "response"> & {
    dueAtMs: number | null;
    nowMs: number;
  },
): Promise<void> {
  await db.sql`
    UPDATE alert_delivery SET state = ${state}, answer = ${response}, due_at_ms = ${dueAtMs ?? nowMs},
      ended_at_ms = ${dueAtMs === null ? nowMs : null}
    WHERE id = ${id}`;
}

/** Deletes alerts with their deliveries. Alerts that never closed are deleted too, once they are as old. */
export async function removeAlerts(db: Db, beforeMs: number): Promise<void> {
  await db.sql`DELETE FROM alert WHERE started_at_ms < ${beforeMs} AND COALESCE(ended_at_ms, 0) < ${beforeMs}`;
}

const SELECT =
  "SELECT id, rule, later_rule, subject, node, message, details, started_at_ms, ended_at_ms FROM alert";
const SELECT_DELIVERY = `SELECT id, alert_id, event, webhook, body, state, attempts, due_at_ms, answer AS response, created_at_ms,
  ended_at_ms FROM alert_delivery`;

function isLaterRule(rule: string): rule is AlertRule {
  return (LATER_RULES as readonly string[]).includes(rule);
}

/** A rule that this version does not know is shown as the one that is stored for it. */
function toAlert(row: Row): AlertRecord {
  const later = textOrNull(row, "later_rule");
  return {
    id: text(row, "id"),
    rule: later !== null && isLaterRule(later) ? later : enumText(row, "rule", FIRST_RULES),
    subject: text(row, "subject"),
    node: text(row, "node").slice(later === null ? 0 : LATER_NODE.length),
    message: text(row, "message"),
    details: json(row, "details", detailsSchema),
    startedAtMs: integer(row, "started_at_ms"),
    endedAtMs: integerOrNull(row, "ended_at_ms"),
  };
}
