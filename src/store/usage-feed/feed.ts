/**
 * The usage feed: an append-only list of request rows, numbered in the order in which exports deliver them. A trigger of
 * the database appends to it in the transaction that writes the row.
 */

import { type Db, transaction } from "../engine/db.ts";
import { isSharedServer } from "../engine/dialect.ts";
import { flag, integer, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";

export interface UsageFeed {
  /** Part of every cursor: a cursor of an earlier feed is not valid in this one. */
  readonly id: string;
  readonly isEnabled: boolean;
  /** Entries up to this number were removed. */
  readonly removedTo: number;
}

const toEntry = rowReader({
  feedNo: integer,
  requestId: text,
  appendedAtMs: integer,
});
export type FeedEntry = ReturnType<typeof toEntry>;

/** Null if the export was never enabled. */
export async function readFeed(db: Db): Promise<UsageFeed | null> {
  const [row] = await db.sql`SELECT id, enabled, removed_to FROM usage_export_feed`;
  return row === undefined
    ? null
    : { id: text(row, "id"), isEnabled: flag(row, "enabled"), removedTo: integer(row, "removed_to") };
}

/** Starts a new feed. Rows written before are not in it. Does nothing if the feed is enabled. */
export async function enableFeed(tx: Db, newFeedId: string): Promise<void> {
  if ((await readFeed(tx))?.isEnabled) return;
  await tx.sql`DELETE FROM usage_export_feed`;
  await tx.sql`
    INSERT INTO usage_export_feed (id, enabled, removed_to)
    SELECT ${newFeedId}, 1, COALESCE(MAX(feed_no), 0) FROM usage_export`;
  if (!isSharedServer(tx)) for (const sql of SQLITE_TRIGGERS) await tx.sql.script(sql);
}

/** On SQLite, for a feed that was copied from another store. */
export async function resumeFeed(tx: Db): Promise<void> {
  if (isSharedServer(tx) || !(await readFeed(tx))?.isEnabled) return;
  for (const sql of SQLITE_TRIGGERS) await tx.sql.script(sql);
}

export async function disableFeed(tx: Db): Promise<void> {
  await tx.sql`UPDATE usage_export_feed SET enabled = 0`;
  if (!isSharedServer(tx))
    for (const name of SQLITE_TRIGGER_NAMES) await tx.sql.script(`DROP TRIGGER IF EXISTS ${name}`);
}

/**
 * On SQLite the trigger exists only while the export is enabled, because a trigger that does nothing still costs time
 * for each row. PostgreSQL's triggers are part of the schema and run once a statement.
 */
const SQLITE_TRIGGER_NAMES = ["usage_export_insert", "usage_export_update"];
const SQLITE_TRIGGERS = SQLITE_TRIGGER_NAMES.map(
  (name) => `
    CREATE TRIGGER IF NOT EXISTS ${name} AFTER ${name.endsWith("insert") ? "INSERT" : "UPDATE"} ON usage_row BEGIN
      INSERT INTO usage_export (feed_no, request_id, appended_at_ms)
      VALUES ((SELECT COALESCE(MAX(feed_no), 0) + 1 FROM usage_export), NEW.request_id,
        CAST(strftime('%s', 'now') AS INTEGER) * 1000);
    END`,
);

/** The entries after `after`, up to `to`, oldest first. */
export async function readEntries(
  db: Db,
  { after, to, limit }: { after: number; to: number; limit: number },
): Promise<FeedEntry[]> {
  const rows = await db.sql`
    SELECT feed_no, request_id, appended_at_ms FROM usage_export
    WHERE feed_no > ${after} AND feed_no <= ${to} ORDER BY feed_no LIMIT ${limit}`;
  return rows.map(toEntry);
}

/** The number of entries after `after`, counted up to `max`. */
export async function countEntries(db: Db, after: number, max: number): Promise<number> {
  const [row] = await db.sql`
    SELECT COUNT(*) AS many FROM (SELECT 1 FROM usage_export WHERE feed_no > ${after} LIMIT ${max}) AS open`;
  return row === undefined ? 0 : integer(row, "many");
}

interface RemovalBounds {
  /** Entries that were appended earlier may be removed. */
  readonly beforeMs: number;
  /** Entries after this number are kept, because a webhook has not received them. */
  readonly upTo: number;
  readonly limit: number;
}

/** Returns their number. The newest stays: SQLite continues with the number after it. */
export async function removeEntries(db: Db, { beforeMs, upTo, limit }: RemovalBounds): Promise<number> {
  return transaction(db, async (tx) => {
    const oldest = await readEntries(tx, { after: 0, to: upTo, limit: limit + 1 });
    const keptFrom = oldest.findIndex(({ appendedAtMs }) => appendedAtMs >= beforeMs);
    const removed = oldest.slice(0, keptFrom === -1 ? -1 : keptFrom).slice(0, limit);
    const last = removed.at(-1);
    if (last === undefined) return 0;
    await tx.sql`UPDATE usage_export_feed SET removed_to = ${last.feedNo} WHERE removed_to < ${last.feedNo}`;
    await tx.sql`DELETE FROM usage_export WHERE feed_no <= ${last.feedNo}`;
    return removed.length;
  });
}
