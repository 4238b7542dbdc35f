/** How far each webhook has received the usage feed. */

import type { Db } from "../engine/db.ts";
import { integer, integerOrNull, text, textOrNull } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import type { UsageFeed } from "./feed.ts";

const toTarget = rowReader({
  /** Name of the webhook. */
  name: text,
  feedId: text,
  deliveredTo: integer,
  /** The last entry of the batch in delivery; null if there is none. A retry sends the same batch. */
  sendingTo: integerOrNull,
  /** Failed attempts since the last success. */
  failures: integer,
  dueAtMs: integer,
  /** Result of the last attempt, as text. */
  response: textOrNull,
  deliveredAtMs: integerOrNull,
});
export type ExportTarget = ReturnType<typeof toTarget>;

export async function listTargets(db: Db): Promise<ExportTarget[]> {
  const rows = await db.sql`
    SELECT name, feed_id, delivered_to, sending_to, failures, due_at_ms, answer AS response, delivered_at_ms
    FROM usage_export_target ORDER BY name`;
  return rows.map(toTarget);
}

/** The position of a webhook that has received nothing of this feed: it gets all entries that are kept. */
export function startTarget(name: string, feed: UsageFeed): ExportTarget {
  return {
    name,
    feedId: feed.id,
    deliveredTo: feed.removedTo,
    sendingTo: null,
    failures: 0,
    dueAtMs: 0,
    response: null,
    deliveredAtMs: null,
  };
}

export async function writeTarget(db: Db, target: ExportTarget): Promise<void> {
  await db.sql`
    INSERT INTO usage_export_target
      (name, feed_id, delivered_to, sending_to, failures, due_at_ms, answer, delivered_at_ms)
    VALUES (${target.name}, ${target.feedId}, ${target.deliveredTo}, ${target.sendingTo}, ${target.failures},
      ${target.dueAtMs}, ${target.response}, ${target.deliveredAtMs})
    ON CONFLICT (name) DO UPDATE SET feed_id = excluded.feed_id, delivered_to = excluded.delivered_to,
      sending_to = excluded.sending_to, failures = excluded.failures, due_at_ms = excluded.due_at_ms,
      answer = excluded.answer, delivered_at_ms = excluded.delivered_at_ms`;
}

export async function deleteTarget(db: Db, name: string): Promise<void> {
  await db.sql`DELETE FROM usage_export_target WHERE name = ${name}`;
}
