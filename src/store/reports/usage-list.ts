/**
 * Lists usage rows, newest first, paged by cursor, so that new rows do not shift pages.
 *
 * Rows are indexed by key and by time. Lists of a user or a group first query the hourly roll-up for the hours and
 * keys with matching requests: a separate index would cost more on every request than these few lists are
 * worth. Filters without an index (an outcome, an account) scan a limited number of rows. At the limit the page ends
 * as it is, even empty, and the next page continues from there.
 */

import { HOUR_MS } from "../../base/time.ts";
import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import { toUsageRow, type UsageOutcome, type UsageRow } from "../usage/usage-row.ts";
import { SELECT_USAGE } from "../usage/usage-values.ts";

export interface UsageFilter {
  keyId?: string;
  /** Rows of this user's keys. A key never changes its user. */
  userId?: string;
  groupId?: string;
  accountId?: string;
  model?: string;
  outcome?: UsageOutcome;
  /** The first digit of the HTTP status. */
  statusClass?: 2 | 4 | 5;
  fromMs?: number;
  /** Exclusive. */
  toMs?: number;
}

/** The last row scanned for the previous page. */
export interface UsageCursor {
  atMs: number;
  requestId: string;
}

interface UsagePage {
  rows: UsageRow[];
  /** Null on the last page. */
  next: UsageCursor | null;
}

/** Number of hours with usage in the first scan. It is multiplied by four each time the page is not full. */
const HOURS_INITIAL = 8;
const HOURS_MAX = 512;
/** With more keys than this, scanning all rows of those hours is faster. */
const KEYS_MAX = 200;

/** SQLite runs within this process, so each scan must be short, and a page must not scan without end. */
interface ScanBounds {
  rowsPerScan: number;
  scansMax: number;
}
const SCAN_BOUNDS: ScanBounds = { rowsPerScan: 10_000, scansMax: 10 };

interface ScanResult {
  rows: UsageRow[];
  /** Everything up to here was scanned; null if the scan reached the end or found enough rows. */
  scannedTo: UsageCursor | null;
}

export async function listUsage(
  db: Db,
  filter: UsageFilter,
  page: { after: UsageCursor | null; limit: number },
  bounds: ScanBounds = SCAN_BOUNDS,
): Promise<UsagePage> {
  const rowsWanted = page.limit + 1;
  const found = await chooseStrategy(filter)({ db, filter, after: page.after, rowsWanted, bounds });
  const rows = found.rows.slice(0, page.limit);
  const last = rows.at(-1);
  const more = found.rows.length > page.limit && last !== undefined;
  return { rows, next: more ? { atMs: last.atMs, requestId: last.requestId } : found.scannedTo };
}

interface Scan {
  db: Db;
  filter: UsageFilter;
  after: UsageCursor | null;
  rowsWanted: number;
  bounds: ScanBounds;
}

type ScanStrategy = (scan: Scan) => Promise<ScanResult>;

function chooseStrategy({
  keyId,
  userId,
  groupId,
  accountId,
  model,
  outcome,
  statusClass,
}: UsageFilter): ScanStrategy {
  if (keyId === undefined && (userId !== undefined || groupId !== undefined)) return scanByRollUp;
  const unindexedFilters = [accountId, model, outcome, statusClass, keyId && userId, keyId && groupId];
  return unindexedFilters.some((one) => one !== undefined) ? scanInBatches : scanIndex;
}

/** An index holds exactly these rows, in this order. */
async function scanIndex(scan: Scan): Promise<ScanResult> {
  return { rows: await selectRows(scan), scannedTo: null };
}

/** Scans the index in batches of `rowsPerScan` rows, whether they match or not. */
async function scanInBatches(scan: Scan): Promise<ScanResult> {
  const { db, filter, after, rowsWanted, bounds } = scan;
  const rows: UsageRow[] = [];
  let from = after;
  for (let count = 0; count < bounds.scansMax; count += 1) {
    const to = await findBatchEnd(db, filter, from, bounds.rowsPerScan);
    rows.push(...(await selectRows({ db, filter, after: from, rowsWanted: rowsWanted - rows.length, to })));
    if (to === null || rows.length >= rowsWanted) return { rows, scannedTo: null };
    from = to;
  }
  return { rows, scannedTo: from };
}

/**
 * The position after `batchRows` more rows, by the index, which has only their times; null if there are fewer rows.
 * Rows of one time are scanned together: in descending order the empty request id comes after all others.
 */
async function findBatchEnd(
  db: Db,
  { keyId, fromMs, toMs }: UsageFilter,
  after: UsageCursor | null,
  batchRows: number,
): Promise<UsageCursor | null> {
  const { where, clause, values } = openConditions(db);
  if (keyId !== undefined) where(`key_no = ${ID_NUMBER}`, keyId);
  if (fromMs !== undefined) where("at_ms >= ?", fromMs);
  if (toMs !== undefined) where("at_ms < ?", toMs);
  if (after !== null) where(`at_ms ${after.requestId === "" ? "<" : "<="} ?`, after.atMs);
  const [row] = await db.sql.text(
    `SELECT at_ms FROM usage_row ${clause()} ORDER BY at_ms DESC LIMIT 1 OFFSET ${batchRows - 1}`,
    values,
  );
  return row === undefined ? null : { atMs: integer(row, "at_ms"), requestId: "" };
}

interface Selection extends Omit<Scan, "bounds"> {
  /** Empty: of all keys. */
  keyIds?: readonly string[];
  to?: UsageCursor | null;
}

async function selectRows(selection: Selection): Promise<UsageRow[]> {
  const { db, filter, after, rowsWanted, keyIds = [], to = null } = selection;
  const { where, clause, values } = openConditions(db);
  if (keyIds.length > 0) {
    const marks = keyIds.map(() => "?").join(", ");
    where(`key_no IN (SELECT no FROM usage_id WHERE id IN (${marks}))`, ...keyIds);
  }
  if (filter.keyId !== undefined) where(`key_no = ${ID_NUMBER}`, filter.keyId);
  if (filter.userId !== undefined) where(`user_no = ${ID_NUMBER}`, filter.userId);
  if (filter.groupId !== undefined) where(`group_no = ${ID_NUMBER}`, filter.groupId);
  if (filter.accountId !== undefined) where(`account_no = ${ID_NUMBER}`, filter.accountId);
  if (filter.model !== undefined) where("public_model = ?", filter.model);
  if (filter.outcome !== undefined) where("outcome = ?", filter.outcome);
  if (filter.statusClass !== undefined) {
    where("status >= ? AND status < ?", filter.statusClass * 100, filter.statusClass * 100 + 100);
  }
  if (filter.fromMs !== undefined) where("at_ms >= ?", filter.fromMs);
  if (filter.toMs !== undefined) where("at_ms < ?", filter.toMs);
  if (after !== null) where("(at_ms, request_id) < (?, ?)", after.atMs, after.requestId);
  if (to !== null) where("(at_ms, request_id) >= (?, ?)", to.atMs, to.requestId);
  const text = `${SELECT_USAGE} ${clause()} ORDER BY at_ms DESC, request_id DESC LIMIT ${rowsWanted}`;
  return (await db.sql.text(text, values)).map(toUsageRow);
}

async function scanByRollUp(scan: Scan): Promise<ScanResult> {
  const { db, filter, after, rowsWanted, bounds } = scan;
  const rows: UsageRow[] = [];
  // No id sorts before the empty one, so nothing is left of the cursor's own millisecond.
  const afterMs = after === null ? Infinity : after.requestId === "" ? after.atMs : after.atMs + 1;
  const endMs = Math.min(filter.toMs ?? Number.MAX_SAFE_INTEGER, afterMs);
  let toMs = Math.min(endMs, Number.MAX_SAFE_INTEGER);
  const fromMs = filter.fromMs ?? 0;
  let scannedRows = 0;
  for (let hoursMax = HOURS_INITIAL; rows.length < rowsWanted && fromMs < toMs; hoursMax *= 4) {
    if (scannedRows >= bounds.rowsPerScan * bounds.scansMax)
      return { rows, scannedTo: { atMs: toMs, requestId: "" } };
    const span = await findSpanWithUse(db, filter, fromMs, toMs, {
      requests: needsRowScan(filter) ? bounds.rowsPerScan : rowsWanted - rows.length,
      hours: Math.min(hoursMax, HOURS_MAX),
    });
    if (span === null) break;
    const part = { ...filter, fromMs: Math.max(fromMs, span.fromMs), toMs };
    const keyIds = await findKeysWithUse(db, filter, span.fromMs, toMs);
    const keys = { keyIds: keyIds.length > KEYS_MAX ? [] : keyIds };
    const left = rowsWanted - rows.length;
    rows.push(...(await selectRows({ db, filter: part, after, rowsWanted: left, ...keys })));
    toMs = part.fromMs;
    scannedRows += span.many;
  }
  return { rows, scannedTo: null };
}

/** Whether the roll-up cannot count the matching requests. */
function needsRowScan({ accountId, outcome, statusClass }: UsageFilter): boolean {
  return accountId !== undefined || outcome !== undefined || statusClass !== undefined;
}

/** Whole hours back from `toMs`, until there are enough requests or hours; null if there are none. */
async function findSpanWithUse(
  db: Db,
  filter: UsageFilter,
  fromMs: number,
  toMs: number,
  wanted: { requests: number; hours: number },
): Promise<{ fromMs: number; many: number } | null> {
  const { clause, values } = buildHourConditions(db, filter, fromMs, toMs);
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

async function findKeysWithUse(db: Db, filter: UsageFilter, fromMs: number, toMs: number): Promise<string[]> {
  const { clause, values } = buildHourConditions(db, filter, fromMs, toMs);
  const rows = await db.sql.text(
    `SELECT DISTINCT key_id FROM usage_hour ${clause()} LIMIT ${KEYS_MAX + 1}`,
    values,
  );
  return rows.map((row) => text(row, "key_id"));
}

function buildHourConditions(db: Db, filter: UsageFilter, fromMs: number, toMs: number) {
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

/** Looks up the number of an id, so that the row index can return rows in the requested order. */
const ID_NUMBER = "(SELECT no FROM usage_id WHERE id = ?)";

function openConditions(db: Db) {
  const conditions: string[] = [];
  const values: SqlValue[] = [];
  return {
    values,
    /** `?` stands for a value on both engines. */
    where(condition: string, ...params: SqlValue[]): void {
      let next = 0;
      const numbered = condition.replaceAll("?", () => placeholder(db.engine, values.length + ++next));
      values.push(...params);
      conditions.push(numbered);
    },
    clause: () => (conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`),
  };
}
