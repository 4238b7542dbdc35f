/**
 * Single requests, newest first, page by page. A page begins where the last one ended, so new rows shift nothing.
 *
 * Rows have an index by key and one by time. Lists of a user or a group ask the hourly roll-up first, which hours and
 * which keys have something to show: an index of their own would cost every request more than these few lists are worth.
 * What no index tells (an outcome, an account) is looked for in so many rows at most: then the page ends as it is, even
 * empty, and the next one goes on from there.
 */

import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import { HOUR_MS } from "../usage/usage-day.ts";
import { toUsageRow, type UsageOutcome, type UsageRow } from "../usage/usage-row.ts";
import { SELECT_USAGE } from "../usage/usage-values.ts";

export interface UsageFilter {
  keyId?: string;
  /** By this user's keys, which never change hands. */
  userId?: string;
  groupId?: string;
  accountId?: string;
  model?: string;
  outcome?: UsageOutcome;
  /** The first digit of the status. */
  statusClass?: 2 | 4 | 5;
  fromMs?: number;
  /** Before it. */
  toMs?: number;
}

/** The last row that was looked at for the page before. */
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

/** SQLite answers within this process, so no single look may be long; and no page may look for ever. */
interface Bounds {
  rowsPerLook: number;
  looksMax: number;
}
const BOUNDS: Bounds = { rowsPerLook: 10_000, looksMax: 10 };

interface Found {
  rows: UsageRow[];
  /** Up to here everything was looked at; null: to the end, or until there was enough. */
  lookedTo: UsageCursor | null;
}

export async function listUsage(
  db: Db,
  filter: UsageFilter,
  page: { after: UsageCursor | null; limit: number },
  bounds: Bounds = BOUNDS,
): Promise<UsagePage> {
  const wanted = page.limit + 1;
  const found = await wayOf(filter)(db, filter, page.after, wanted, bounds);
  const rows = found.rows.slice(0, page.limit);
  const last = rows.at(-1);
  const more = found.rows.length > page.limit && last !== undefined;
  return { rows, next: more ? { atMs: last.atMs, requestId: last.requestId } : found.lookedTo };
}

type Way = (
  db: Db,
  filter: UsageFilter,
  after: UsageCursor | null,
  wanted: number,
  bounds: Bounds,
) => Promise<Found>;

function wayOf({ keyId, userId, groupId, accountId, model, outcome, statusClass }: UsageFilter): Way {
  if (keyId === undefined && (userId !== undefined || groupId !== undefined)) return guided;
  const isRare = [accountId, model, outcome, statusClass, keyId && userId, keyId && groupId];
  return isRare.some((one) => one !== undefined) ? searched : along;
}

/** An index has just these rows, in this order. */
async function along(db: Db, filter: UsageFilter, after: UsageCursor | null, wanted: number): Promise<Found> {
  return { rows: await direct(db, filter, after, wanted), lookedTo: null };
}

/** So many rows of the index at a time, whether they match or not. */
async function searched(
  db: Db,
  filter: UsageFilter,
  after: UsageCursor | null,
  wanted: number,
  { rowsPerLook, looksMax }: Bounds,
): Promise<Found> {
  const rows: UsageRow[] = [];
  let from = after;
  for (let look = 0; look < looksMax; look += 1) {
    const to = await rowsBehind(db, filter, from, rowsPerLook);
    rows.push(...(await direct(db, filter, from, wanted - rows.length, { to })));
    if (to === null || rows.length >= wanted) return { rows, lookedTo: null };
    from = to;
  }
  return { rows, lookedTo: from };
}

/**
 * Where so many rows more were looked at, by what the index knows, which is their instants; null if there are fewer.
 * Rows of one instant are looked at together, for the id that is below every other stands behind them all.
 */
async function rowsBehind(
  db: Db,
  { keyId, fromMs, toMs }: UsageFilter,
  after: UsageCursor | null,
  many: number,
): Promise<UsageCursor | null> {
  const { where, clause, values } = openConditions(db);
  if (keyId !== undefined) where(`key_no = ${numberOf}`, keyId);
  if (fromMs !== undefined) where("at_ms >= ?", fromMs);
  if (toMs !== undefined) where("at_ms < ?", toMs);
  if (after !== null) where(`at_ms ${after.requestId === "" ? "<" : "<="} ?`, after.atMs);
  const [row] = await db.sql.text(
    `SELECT at_ms FROM usage_row ${clause()} ORDER BY at_ms DESC LIMIT 1 OFFSET ${many - 1}`,
    values,
  );
  return row === undefined ? null : { atMs: integer(row, "at_ms"), requestId: "" };
}

async function direct(
  db: Db,
  filter: UsageFilter,
  after: UsageCursor | null,
  wanted: number,
  { keyIds = [], to = null }: { keyIds?: readonly string[]; to?: UsageCursor | null } = {},
): Promise<UsageRow[]> {
  const { where, clause, values } = openConditions(db);
  if (keyIds.length > 0) {
    const marks = keyIds.map(() => "?").join(", ");
    where(`key_no IN (SELECT no FROM usage_id WHERE id IN (${marks}))`, ...keyIds);
  }
  if (filter.keyId !== undefined) where(`key_no = ${numberOf}`, filter.keyId);
  if (filter.userId !== undefined) where(`user_no = ${numberOf}`, filter.userId);
  if (filter.groupId !== undefined) where(`group_no = ${numberOf}`, filter.groupId);
  if (filter.accountId !== undefined) where(`account_no = ${numberOf}`, filter.accountId);
  if (filter.model !== undefined) where("public_model = ?", filter.model);
  if (filter.outcome !== undefined) where("outcome = ?", filter.outcome);
  if (filter.statusClass !== undefined) {
    where("status >= ? AND status < ?", filter.statusClass * 100, filter.statusClass * 100 + 100);
  }
  if (filter.fromMs !== undefined) where("at_ms >= ?", filter.fromMs);
  if (filter.toMs !== undefined) where("at_ms < ?", filter.toMs);
  if (after !== null) where("(at_ms, request_id) < (?, ?)", after.atMs, after.requestId);
  if (to !== null) where("(at_ms, request_id) >= (?, ?)", to.atMs, to.requestId);
  const text = `${SELECT_USAGE} ${clause()} ORDER BY at_ms DESC, request_id DESC LIMIT ${wanted}`;
  return (await db.sql.text(text, values)).map(toUsageRow);
}

async function guided(
  db: Db,
  filter: UsageFilter,
  after: UsageCursor | null,
  wanted: number,
  { rowsPerLook, looksMax }: Bounds,
): Promise<Found> {
  const rows: UsageRow[] = [];
  // No id is below the empty one: of the cursor's own millisecond nothing is left.
  const afterMs = after === null ? Infinity : after.requestId === "" ? after.atMs : after.atMs + 1;
  const endMs = Math.min(filter.toMs ?? Number.MAX_SAFE_INTEGER, afterMs);
  let toMs = Math.min(endMs, Number.MAX_SAFE_INTEGER);
  const fromMs = filter.fromMs ?? 0;
  let looked = 0;
  for (let hoursMax = HOURS_AT_FIRST; rows.length < wanted && fromMs < toMs; hoursMax *= 4) {
    if (looked >= rowsPerLook * looksMax) return { rows, lookedTo: { atMs: toMs, requestId: "" } };
    const span = await spanWithUse(db, filter, fromMs, toMs, {
      requests: isUntold(filter) ? rowsPerLook : wanted - rows.length,
      hours: Math.min(hoursMax, HOURS_MAX),
    });
    if (span === null) break;
    const part = { ...filter, fromMs: Math.max(fromMs, span.fromMs), toMs };
    const keyIds = await keysWithUse(db, filter, span.fromMs, toMs);
    const keys = { keyIds: keyIds.length > KEYS_MAX ? [] : keyIds };
    rows.push(...(await direct(db, part, after, wanted - rows.length, keys)));
    toMs = part.fromMs;
    looked += span.many;
  }
  return { rows, lookedTo: null };
}

/** The roll-up does not tell how many of its requests match. */
function isUntold({ accountId, outcome, statusClass }: UsageFilter): boolean {
  return accountId !== undefined || outcome !== undefined || statusClass !== undefined;
}

/** Whole hours back from `toMs`, until there were enough requests or hours. Null: there were none at all. */
async function spanWithUse(
  db: Db,
  filter: UsageFilter,
  fromMs: number,
  toMs: number,
  wanted: { requests: number; hours: number },
): Promise<{ fromMs: number; many: number } | null> {
  const { clause, values } = hourConditions(db, filter, fromMs, toMs);
  const hours = await db.sql.text(
    `SELECT hour_ms, CAST(SUM(requests + refused) AS BIGINT) AS many FROM usage_hour ${clause()}
     GROUP BY hour_ms ORDER BY hour_ms DESC LIMIT ${wanted.hours}`,
    values,
  );
  let many = 0;
  for (const [i, hour] of hours.entries()) {
    many += integer(hour, "many");
    if (many >= wanted.requests || i === hours.length - 1) return { fromMs: integer(hour, "hour_ms"), many };
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

/** Of an id, so that an index of rows finds them in the order that is asked for. */
const numberOf = "(SELECT no FROM usage_id WHERE id = ?)";

function openConditions(db: Db) {
  const conditions: string[] = [];
  const values: SqlValue[] = [];
  return {
    values,
    /** `?` stands for a value on both engines. */
    where(condition: string, ...wanted: SqlValue[]): void {
      let next = 0;
      const numbered = condition.replaceAll("?", () => placeholder(db.engine, values.length + ++next));
      values.push(...wanted);
      conditions.push(numbered);
    },
    clause: () => (conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`),
  };
}
