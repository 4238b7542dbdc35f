/** The hourly roll-up: sums of usage rows by hour, key, group, model and interface. */

import { HOUR_MS } from "../../base/time.ts";
import type { Nano } from "../../money/nano.ts";
import type { TokenCounts } from "../../money/token-counts.ts";
import { compile } from "../engine/compile-fields.ts";
import { type Db, placeholder, type Row, type SqlValue } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { integer, nano, text, textOrNull } from "../engine/row.ts";
import { nanoValue } from "./storable-values.ts";
import { USAGE_FIELDS, type UsageOutcome, type UsageRow } from "./usage-row.ts";

/** The other parts of input and output, and the searches, are stored in usage rows only. */
type SummedTokens = Pick<
  TokenCounts,
  "inputTokens" | "cachedTokens" | "cacheWriteTokens" | "outputTokens" | "reasoningTokens" | "images"
>;

export interface UsageTotals extends SummedTokens {
  /** Admitted requests. Rejected ones are counted separately. */
  requests: number;
  refused: number;
  /** Of the requests: those that failed at the upstream or were cut off by it. */
  failed: number;
  /** The requests with a first byte. Both times are sums over them, so that their means can be compared. */
  firstBytes: number;
  firstByteMs: number;
  durationMs: number;
  costNano: Nano;
  chargedNano: Nano;
  upstreamNano: Nano;
}

type NanoField = "costNano" | "chargedNano" | "upstreamNano";
type CountField = Exclude<keyof UsageTotals, NanoField>;
/** The sums that add up the row's field of the same name. */
type RowField = Exclude<keyof UsageTotals & keyof UsageRow, NanoField | "firstByteMs" | "durationMs">;

export interface RollUpEntry {
  dimensions: Pick<UsageRow, "atMs" | "keyId" | "groupId" | "publicModel" | "interface">;
  totals: UsageTotals;
}

/** A sum of the roll-up: its column, and the SQL of what one usage row adds to it. */
interface Sum {
  column: string;
  rowValue: string;
}

const sumField = (field: keyof UsageRow): Sum => {
  const { column } = USAGE_FIELDS[field];
  return { column, rowValue: column };
};

const ROW_SUMS: Readonly<Record<RowField, Sum>> = {
  inputTokens: sumField("inputTokens"),
  cachedTokens: sumField("cachedTokens"),
  cacheWriteTokens: sumField("cacheWriteTokens"),
  outputTokens: sumField("outputTokens"),
  reasoningTokens: sumField("reasoningTokens"),
  images: sumField("images"),
};
const COUNT_SUMS: Readonly<Record<CountField, Sum>> = {
  requests: {
    column: "requests",
    rowValue: "CASE WHEN outcome = 'refused' THEN 0 ELSE request_count END",
  },
  refused: {
    column: "refused",
    rowValue: "CASE WHEN outcome = 'refused' THEN request_count ELSE 0 END",
  },
  failed: { column: "failed", rowValue: "CASE WHEN outcome IN ('failed', 'upstream_cut') THEN 1 ELSE 0 END" },
  ...ROW_SUMS,
  firstBytes: { column: "first_bytes", rowValue: "CASE WHEN first_byte_ms IS NULL THEN 0 ELSE 1 END" },
  firstByteMs: { column: "first_byte_ms", rowValue: "COALESCE(first_byte_ms, 0)" },
  durationMs: {
    column: "duration_ms",
    rowValue: "CASE WHEN first_byte_ms IS NULL THEN 0 ELSE duration_ms END",
  },
};
const NANO_SUMS: Readonly<Record<NanoField, Sum>> = {
  costNano: sumField("costNano"),
  chargedNano: sumField("chargedNano"),
  upstreamNano: sumField("upstreamNano"),
};

const ROW_FIELDS = Object.keys(ROW_SUMS) as readonly RowField[];
const COUNT_FIELDS = Object.keys(COUNT_SUMS) as readonly CountField[];
const NANO_FIELDS = Object.keys(NANO_SUMS) as readonly NanoField[];
const SUMS: readonly Sum[] = [...Object.values(COUNT_SUMS), ...Object.values(NANO_SUMS)];

/** Every sum of a roll-up, in the order of ROW_VALUES. Reconciliation compares them with the rows. */
export const SUM_COLUMNS: readonly string[] = SUMS.map(({ column }) => column);
/** SQL of what one usage row adds to each sum. */
export const ROW_VALUES: readonly string[] = SUMS.map(({ rowValue }) => rowValue);
const KEY_COLUMNS = ["key_id", "hour_ms", "group_id", "public_model", "interface"];
const COLUMNS = [...KEY_COLUMNS, ...SUM_COLUMNS];
const ADD_TO_PRESENT = `ON CONFLICT (${KEY_COLUMNS.join(", ")}) DO UPDATE SET ${SUM_COLUMNS.map(
  (column) => `${column} = usage_hour.${column} + excluded.${column}`,
).join(", ")}`;

type RowFigures = Pick<UsageRow, RowField | NanoField | "requestCount" | "firstByteMs" | "durationMs">;

/** The totals of a single row. */
export function computeTotals(used: RowFigures, outcome: UsageOutcome): UsageTotals {
  const totals = buildEmptyTotals();
  addTo(totals, used, outcome);
  return totals;
}

const EMPTY_TOTALS = {
  ...Object.fromEntries(COUNT_FIELDS.map((field) => [field, 0])),
  ...Object.fromEntries(NANO_FIELDS.map((field) => [field, 0n])),
} as Readonly<UsageTotals>;

export const buildEmptyTotals = (): UsageTotals => ({ ...EMPTY_TOTALS });

/** Money is skipped where it is zero, as for every unpaid request: adding bigints allocates. */
const addRowFields = compile<(sum: UsageTotals, used: RowFigures) => void>(
  `(sum, used) => {
    ${ROW_FIELDS.map((field) => `sum.${field} += used.${field};`).join(" ")}
    ${NANO_FIELDS.map((field) => `if (used.${field} !== 0n) sum.${field} += used.${field};`).join(" ")}
  }`,
);

/** Counts one row as `ROW_VALUES` does. */
function addTo(sum: UsageTotals, used: RowFigures, outcome: UsageOutcome): void {
  if (outcome === "refused") sum.refused += used.requestCount;
  else sum.requests += used.requestCount;
  if (outcome === "failed" || outcome === "upstream_cut") sum.failed += 1;
  if (used.firstByteMs !== null) {
    sum.firstBytes += 1;
    sum.firstByteMs += used.firstByteMs;
    sum.durationMs += used.durationMs;
  }
  addRowFields(sum, used);
}

export function difference(after: UsageTotals, before: UsageTotals): UsageTotals {
  const result = { ...after };
  for (const field of COUNT_FIELDS) result[field] -= before[field];
  for (const field of NANO_FIELDS) result[field] -= before[field];
  return result;
}

export function plus(one: UsageTotals, other: UsageTotals): UsageTotals {
  const result = { ...one };
  for (const field of COUNT_FIELDS) result[field] += other[field];
  for (const field of NANO_FIELDS) result[field] += other[field];
  return result;
}

/** Sums of usage rows. */
export class RollUp {
  /** Most keys have one or two lines in a batch: a linear search costs less than building a map key for every row. */
  readonly #byKey = new Map<string, RollUpEntry[]>();

  add(row: UsageRow): void {
    if (row.requestCount === 0) return;
    addTo(this.#findLine(row).totals, row, row.outcome);
  }

  /** Adds totals that were summed elsewhere. */
  merge(lines: readonly RollUpEntry[]): void {
    for (const { dimensions: of, totals } of lines) {
      const line = this.#findLine(of);
      line.totals = plus(line.totals, totals);
    }
  }

  #findLine(row: RollUpEntry["dimensions"]): RollUpEntry {
    let lines = this.#byKey.get(row.keyId);
    if (lines === undefined) {
      lines = [];
      this.#byKey.set(row.keyId, lines);
    }
    return findOrAddLine(lines, row);
  }

  /**
   * One entry for each line of the roll-up. The order is the same everywhere, so that two nodes that update the same
   * lines wait for each other instead of deadlocking.
   */
  entries(): RollUpEntry[] {
    const keys = [...this.#byKey].sort(([a], [b]) => (a < b ? -1 : 1));
    return keys.flatMap(([, lines]) => (lines.length === 1 ? lines : sortLines(lines)));
  }
}

/** Adds a row to its line. A linear search: there are few lines. */
export function addToLines(lines: RollUpEntry[], row: UsageRow): void {
  if (row.requestCount === 0) return;
  addTo(findOrAddLine(lines, row).totals, row, row.outcome);
}

/** Returns the line of a row, and creates it if it is new. */
function findOrAddLine(lines: RollUpEntry[], row: RollUpEntry["dimensions"]): RollUpEntry {
  for (const line of lines) {
    const { dimensions: of } = line;
    if (
      of.keyId === row.keyId &&
      of.publicModel === row.publicModel &&
      of.groupId === row.groupId &&
      of.interface === row.interface &&
      startOfHour(of.atMs) === startOfHour(row.atMs)
    )
      return line;
  }
  // Not the row itself: the line would keep the whole row from being garbage collected.
  const { atMs, keyId, groupId, publicModel, interface: family } = row;
  const created = {
    dimensions: { atMs, keyId, groupId, publicModel, interface: family },
    totals: buildEmptyTotals(),
  };
  lines.push(created);
  return created;
}

function sortLines(lines: readonly RollUpEntry[]): RollUpEntry[] {
  const keyedLines = lines.map((line) => [buildLineKey(line.dimensions), line] as const);
  return keyedLines.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, line]) => line);
}

/** Identifies a line among those of one key. */
function buildLineKey({ atMs, groupId, interface: family, publicModel }: RollUpEntry["dimensions"]): string {
  return `${startOfHour(atMs)} ${groupId} ${family} ${publicModel}`;
}

export async function addToRollUp(tx: Db, entries: readonly RollUpEntry[]): Promise<void> {
  const rows = entries.map(({ dimensions: of, totals }) => {
    const line: SqlValue[] = [of.keyId, startOfHour(of.atMs), of.groupId, of.publicModel, of.interface];
    for (const field of COUNT_FIELDS) line.push(totals[field]);
    for (const field of NANO_FIELDS) line.push(nanoValue(totals[field]));
    return line;
  });
  await insertRows(tx, "usage_hour", COLUMNS, rows, ADD_TO_PRESENT);
}

/** Read by `toTotals`. SUM of BIGINT is NUMERIC on PostgreSQL. */
export const TOTALS = [
  ...Object.values(COUNT_SUMS).map(
    ({ column }) => `CAST(COALESCE(SUM(${column}), 0) AS BIGINT) AS ${column}`,
  ),
  ...Object.values(NANO_SUMS).map(({ column }) => `CAST(COALESCE(SUM(${column}), 0) AS TEXT) AS ${column}`),
].join(", ");

/** Counts whole hours, including the hour that contains `fromMs`. Null: since the beginning. */
export async function readKeyTotals(db: Db, keyId: string, fromMs: number | null): Promise<UsageTotals> {
  const [row] = await db.sql.text(
    `SELECT ${TOTALS} FROM usage_hour WHERE key_id = ${placeholder(db.engine, 1)} AND hour_ms >= ${placeholder(db.engine, 2)}`,
    [keyId, fromMs === null ? 0 : startOfHour(fromMs)],
  );
  if (row === undefined) throw new Error("A sum returned no row.");
  return toTotals(row);
}

export function toTotals(row: Row): UsageTotals {
  const totals = buildEmptyTotals();
  for (const field of COUNT_FIELDS) totals[field] = integer(row, COUNT_SUMS[field].column);
  for (const field of NANO_FIELDS) totals[field] = nano(row, NANO_SUMS[field].column);
  return totals;
}

export interface KeyHour {
  keyId: string;
  /** Also set for a revoked key: its usage still counts for its user. */
  userId: string | null;
  groupId: string;
  /** Last millisecond of the hour. For the current hour it is in the future. */
  atMs: number;
  requests: number;
  /** Input and output. */
  tokens: number;
  costNano: bigint;
}

/**
 * Usage of each key since then, by hour, so that a window that began before this process continues. An hour counts
 * as used at its end: after a restart a limit may apply up to an hour too long, but never too short.
 */
export async function readUsageByHour(db: Db, sinceMs: number): Promise<KeyHour[]> {
  const rows = await db.sql`
    SELECT key_id, user_id, usage_hour.group_id, hour_ms, CAST(SUM(requests) AS BIGINT) AS requests,
      CAST(SUM(input_tokens + output_tokens) AS BIGINT) AS tokens, CAST(SUM(cost_nano) AS TEXT) AS cost_nano
    FROM usage_hour LEFT JOIN api_key ON api_key.id = key_id
    WHERE hour_ms >= ${startOfHour(sinceMs)}
    GROUP BY key_id, user_id, usage_hour.group_id, hour_ms
    HAVING SUM(requests) > 0 OR SUM(input_tokens + output_tokens) > 0 OR SUM(cost_nano) > 0
    ORDER BY hour_ms, key_id, usage_hour.group_id`;
  return rows.map((row) => ({
    keyId: text(row, "key_id"),
    userId: textOrNull(row, "user_id"),
    groupId: text(row, "group_id"),
    atMs: integer(row, "hour_ms") + HOUR_MS - 1,
    requests: integer(row, "requests"),
    tokens: integer(row, "tokens"),
    costNano: nano(row, "cost_nano"),
  }));
}

function startOfHour(atMs: number): number {
  return Math.floor(atMs / HOUR_MS) * HOUR_MS;
}
