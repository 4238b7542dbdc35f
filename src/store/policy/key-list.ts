/** Paged key lists, newest first, with the last use of each key and its usage by day. */

import { DAY_MS } from "../../base/time.ts";
import type { KeyRecord } from "../../records/key.ts";
import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { integer, integerOrNull, nano, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { contains, likeText } from "../engine/search.ts";
import { KEY_COLUMNS, toKey } from "./keys.ts";
import { type KeySuspension, readSuspensions } from "./suspended-keys.ts";

export interface KeyFilter {
  /** Keys of this user (null: of none), or of this group. All keys if omitted. */
  owner?: { userId: string | null } | { groupId: string };
  /** All keys if omitted. Suspended keys are only in `current`, which has the active ones too. */
  status?: "active" | "current" | "revoked";
  /** Matches anywhere in the name, or the beginning of the public id. */
  search?: string;
  /** The search also matches the owner's e-mail address, the name of the group, and the beginning of the id. */
  isWideSearch?: boolean;
}

/** The last key of the previous page. */
interface KeyCursor {
  createdAtMs: number;
  id: string;
}

export interface ListedKey extends KeyRecord {
  /** Null if never used. Precise to the hour if the key's usage rows have been removed. */
  lastUsedAtMs: number | null;
  /** Null if the key is not suspended. */
  suspension: KeySuspension | null;
}

interface KeyPage {
  keys: ListedKey[];
  /** Null on the last page. */
  next: KeyCursor | null;
}

const LAST_USED = `COALESCE(
  (SELECT at_ms FROM usage_row WHERE key_no = (SELECT no FROM usage_id WHERE id = api_key.id)
   ORDER BY at_ms DESC LIMIT 1),
  (SELECT hour_ms FROM usage_hour WHERE key_id = api_key.id ORDER BY hour_ms DESC LIMIT 1)) AS last_used_at_ms`;

export async function listKeyPage(
  db: Db,
  filter: KeyFilter,
  page: { after: KeyCursor | null; limit: number },
): Promise<KeyPage> {
  const values: SqlValue[] = [];
  const mark = (value: SqlValue) => placeholder(db.engine, values.push(value));
  const conditions = buildConditions(filter, mark);
  if (page.after !== null)
    conditions.push(`(created_at_ms, id) < (${mark(page.after.createdAtMs)}, ${mark(page.after.id)})`);
  // The page is found first: the last use is looked up for its keys only.
  const rows = await db.sql.text(
    `SELECT ${KEY_COLUMNS}, ${LAST_USED} FROM api_key WHERE id IN (
       SELECT id FROM api_key WHERE ${conditions.join(" AND ")}
       ORDER BY created_at_ms DESC, id DESC LIMIT ${mark(page.limit + 1)})
     ORDER BY created_at_ms DESC, id DESC`,
    values,
  );
  const found = rows.slice(0, page.limit).map((row) => ({ row, key: toKey(row) }));
  const suspensions = await readSuspensions(
    db,
    found.map(({ key }) => key.id),
  );
  const keys = found.map(({ row, key }) => ({
    ...key,
    lastUsedAtMs: integerOrNull(row, "last_used_at_ms"),
    suspension: suspensions.get(key.id) ?? null,
  }));
  const last = keys.at(-1);
  const next =
    rows.length > page.limit && last !== undefined ? { createdAtMs: last.createdAtMs, id: last.id } : null;
  return { keys, next };
}

function buildConditions(
  { owner, status, search, isWideSearch }: KeyFilter,
  mark: (value: SqlValue) => string,
): string[] {
  const conditions = ["1 = 1"];
  if (owner !== undefined) conditions.push(ownerCondition(owner, mark));
  if (status !== undefined) conditions.push(STATUS_CONDITIONS[status]);
  if (search !== undefined && search !== "") {
    const beginsWith = (column: string) => `${column} LIKE ${mark(`${likeText(search)}%`)} ESCAPE '!'`;
    const matches = [contains("name", search, mark), beginsWith("public_id")];
    if (isWideSearch)
      matches.push(
        beginsWith("id"),
        `user_id IN (SELECT id FROM app_user WHERE ${contains("email", search, mark)})`,
        `group_id IN (SELECT id FROM key_group WHERE ${contains("name", search, mark)})`,
      );
    conditions.push(`(${matches.join(" OR ")})`);
  }
  return conditions;
}

const SUSPENDED = "id IN (SELECT key_id FROM suspended_key)";
const STATUS_CONDITIONS: Readonly<Record<NonNullable<KeyFilter["status"]>, string>> = {
  active: "status = 'active'",
  current: `(status = 'active' OR ${SUSPENDED})`,
  revoked: `status = 'revoked' AND NOT ${SUSPENDED}`,
};

function ownerCondition(owner: NonNullable<KeyFilter["owner"]>, mark: (value: SqlValue) => string): string {
  if ("groupId" in owner) return `group_id = ${mark(owner.groupId)}`;
  return owner.userId === null ? "user_id IS NULL" : `user_id = ${mark(owner.userId)}`;
}

export async function readLastUse(db: Db, keyId: string): Promise<number | null> {
  const [row] = await db.sql.text(
    `SELECT ${LAST_USED} FROM api_key WHERE id = ${placeholder(db.engine, 1)}`,
    [keyId],
  );
  return row === undefined ? null : integerOrNull(row, "last_used_at_ms");
}

const toKeyDay = rowReader({
  keyId: text,
  /** Start of the day. */
  dayMs: integer,
  requests: integer,
  failed: integer,
  refused: integer,
  costNano: nano,
  chargedNano: nano,
});
export type KeyDay = ReturnType<typeof toKeyDay>;

/**
 * Usage of each key on each day, in one query: from the daily roll-up as far as it is complete, and from the hourly
 * roll-up after that. A day without usage has no entry.
 */
export async function listKeyDays(
  db: Db,
  keyIds: readonly string[],
  { fromMs, toMs, foldedBeforeMs }: { fromMs: number; toMs: number; foldedBeforeMs: number },
): Promise<KeyDay[]> {
  if (keyIds.length === 0) return [];
  const splitMs = Math.min(toMs, Math.max(fromMs, foldedBeforeMs));
  const values: SqlValue[] = [];
  const mark = (value: SqlValue) => placeholder(db.engine, values.push(value));
  const ids = () => keyIds.map(mark).join(", ");
  const rows = await db.sql.text(
    `SELECT key_id, at_day_ms AS day_ms, CAST(SUM(requests) AS BIGINT) AS requests, CAST(SUM(failed) AS BIGINT) AS failed,
       CAST(SUM(refused) AS BIGINT) AS refused, CAST(SUM(cost_nano) AS TEXT) AS cost_nano,
       CAST(SUM(charged_nano) AS TEXT) AS charged_nano
     FROM (
       SELECT scope_id AS key_id, day_ms AS at_day_ms, requests, failed, refused, cost_nano, charged_nano
       FROM usage_day
       WHERE scope = 'key_sum' AND scope_id IN (${ids()}) AND day_ms >= ${mark(fromMs)} AND day_ms < ${mark(splitMs)}
       UNION ALL
       SELECT key_id, hour_ms - hour_ms % ${DAY_MS}, requests, failed, refused, cost_nano, charged_nano
       FROM usage_hour
       WHERE key_id IN (${ids()}) AND hour_ms >= ${mark(splitMs)} AND hour_ms < ${mark(toMs)}
     ) AS used GROUP BY key_id, at_day_ms ORDER BY key_id, at_day_ms`,
    values,
  );
  return rows.map(toKeyDay);
}

/** Number of the user's currently valid keys, by group id. */
export async function countKeysByGroup(db: Db, userId: string, nowMs: number): Promise<Map<string, number>> {
  const rows = await db.sql`
    SELECT group_id, COUNT(*) AS many FROM api_key
    WHERE user_id = ${userId} AND status = 'active' AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs})
    GROUP BY group_id`;
  return new Map(rows.map((row) => [text(row, "group_id"), integer(row, "many")]));
}

export async function listNewestKeys(
  db: Db,
  { userId, groupId, nowMs, limit }: { userId: string; groupId: string; nowMs: number; limit: number },
): Promise<{ id: string; name: string }[]> {
  const rows = await db.sql`
    SELECT id, name FROM api_key
    WHERE user_id = ${userId} AND group_id = ${groupId} AND status = 'active'
      AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs})
    ORDER BY id DESC LIMIT ${limit}`;
  return rows.map((row) => ({ id: text(row, "id"), name: text(row, "name") }));
}
