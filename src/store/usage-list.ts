/**
 * Single requests, newest first, page by page. A page begins where the last one ended, so new rows shift nothing.
 *
 * Rows have an index by key and one by time. Lists of a user or a group ask the hourly roll-up first, which hours and
 * which keys have something to show: an index of their own would cost every request more than these few lists are worth.
 */

import { type Db, placeholder, type Value } from "./db.ts";
import { integer, text } from "./row.ts";
import { HOUR_MS } from "./usage-day.ts";
import { SELECT_USAGE, toUsageRow, type UsageOutcome, type UsageRow } from "./usage-row.ts";

export interface UsageFilter {
  keyId?: string;
  /** By this user's keys, which never change hands. */
  userId?: string;
  groupId?: string;
  model?: string;
  outcome?: UsageOutcome;
  fromMs?: number;
  /** Before it. */
  toMs?: number;
}

/** The last row of the page before. */
export interface UsageCursor {
  atMs: number;
  requestId: string;
}

export interface UsagePage {
  rows: UsageRow[];
  /** Null at the end. */
  next: UsageCursor | null;
}

/** So many hours with use at first, and four times as many each time the page is still not full. */
const HOURS_AT_FIRST = 8;
const HOURS_MAX = 512;
/** With more keys than that, going through all rows of those hours is quicker. */
const KEYS_MAX = 200;

export async function listUsage(
  db: Db,
  filter: UsageFilter,
  page: { after: UsageCursor | null; limit: number },
): Promise<UsagePage> {
  const wanted = page.limit + 1;
  const isGuided =
    filter.keyId === undefined && (filter.userId !== undefined || filter.groupId !== undefined);
  const found = await (isGuided ? guided : direct)(db, filter, page.after, wanted);
  const rows = found.slice(0, page.limit);
  const last = rows.at(-1);
  const more = found.length > page.limit && last !== undefined;
  return { rows, next: more ? { atMs: last.atMs, requestId: last.requestId } : null };
}

async function direct(
  db: Db,
  filter: UsageFilter,
  after: UsageCursor | null,
  wanted: number,
  keyIds: readonly string[] = [],
): Promise<UsageRow[]> {
  const { where, clause, values } = openConditions(db);
  if (keyIds.length > 0) where(`key_id IN (${keyIds.map(() => "?").join(", ")})`, ...keyIds);
  if (filter.keyId !== undefined) where("key_id = ?", filter.keyId);
  if (filter.userId !== undefined) where("user_id = ?", filter.userId);
  if (filter.groupId !== undefined) where("group_id = ?", filter.groupId);
  if (filter.model !== undefined) where("public_model = ?", filter.model);
  if (filter.outcome !== undefined) where("outcome = ?", filter.outcome);
  if (filter.fromMs !== undefined) where("at_ms >= ?", filter.fromMs);
  if (filter.toMs !== undefined) where("at_ms < ?", filter.toMs);
  if (after !== null) where("(at_ms, request_id) < (?, ?)", after.atMs, after.requestId);
  const text = `${SELECT_USAGE} ${clause()} ORDER BY at_ms DESC, request_id DESC LIMIT ${wanted}`;
  return (await db.sql.text(text, values)).map(toUsageRow);
}

async function guided(
  db: Db,
  filter: UsageFilter,
  after: UsageCursor | null,
  wanted: number,
): Promise<UsageRow[]> {
  const rows: UsageRow[] = [];
  const endMs = Math.min(filter.toMs ?? Number.MAX_SAFE_INTEGER, after === null ? Infinity : after.atMs + 1);
  let toMs = Math.min(endMs, Number.MAX_SAFE_INTEGER);
  const fromMs = filter.fromMs ?? 0;
  for (let hoursMax = HOURS_AT_FIRST; rows.length < wanted && fromMs < toMs; hoursMax *= 4) {
    const span = await spanWithUse(db, filter, fromMs, toMs, {
      requests: wanted - rows.length,
      hours: Math.min(hoursMax, HOURS_MAX),
    });
    if (span === null) break;
    const part = { ...filter, fromMs: Math.max(fromMs, span.fromMs), toMs };
    const keyIds = await keysWithUse(db, filter, span.fromMs, toMs);
    rows.push(
      ...(await direct(db, part, after, wanted - rows.length, keyIds.length > KEYS_MAX ? [] : keyIds)),
    );
    toMs = part.fromMs;
  }
  return rows;
}

/** Whole hours back from `toMs`, until there were enough requests or hours. Null: there were none at all. */
async function spanWithUse(
  db: Db,
  filter: UsageFilter,
  fromMs: number,
  toMs: number,
  wanted: { requests: number; hours: number },
): Promise<{ fromMs: number } | null> {
  const { clause, values } = hourConditions(db, filter, fromMs, toMs);
  const hours = await db.sql.text(
    `SELECT hour_ms, CAST(SUM(requests + refused) AS BIGINT) AS many FROM usage_hour ${clause()}
     GROUP BY hour_ms ORDER BY hour_ms DESC LIMIT ${wanted.hours}`,
    values,
  );
  let many = 0;
  for (const [i, hour] of hours.entries()) {
    many += integer(hour, "many");
    if (many >= wanted.requests || i === hours.length - 1) return { fromMs: integer(hour, "hour_ms") };
  }
  return null;
}

async function keysWithUse(db: Db, filter: UsageFilter, fromMs: number, toMs: number): Promise<string[]> {
  const { clause, values } = hourConditions(db, filter, fromMs, toMs);
  const rows = await db.sql.text(
    `SELECT DISTINCT key_id FROM usage_hour ${clause()} LIMIT ${KEYS_MAX + 1}`,
    values,
  );
  return rows.map((row) => text(row, "key_id"));
}

function hourConditions(db: Db, filter: UsageFilter, fromMs: number, toMs: number) {
  const conditions = openConditions(db);
  const { where } = conditions;
  if (filter.groupId !== undefined) where("group_id = ?", filter.groupId);
  if (filter.userId !== undefined) {
    where("key_id IN (SELECT id FROM api_key WHERE user_id = ?)", filter.userId);
  }
  if (filter.model !== undefined) where("public_model = ?", filter.model);
  where("hour_ms >= ? AND hour_ms < ?", Math.floor(fromMs / HOUR_MS) * HOUR_MS, toMs);
  return conditions;
}

function openConditions(db: Db) {
  const conditions: string[] = [];
  const values: Value[] = [];
  return {
    values,
    /** `?` stands for a value on both engines. */
    where(condition: string, ...wanted: Value[]): void {
      let next = 0;
      const numbered = condition.replaceAll("?", () => placeholder(db.engine, values.length + ++next));
      values.push(...wanted);
      conditions.push(numbered);
    },
    clause: () => (conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`),
  };
}
