/** The hourly roll-up: sums of usage rows by hour, key, group, model and interface. */

import type { Nano } from "../../money/nano.ts";
import { type Db, placeholder, type Row, type SqlValue } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { integer, nano, text, textOrNull } from "../engine/row.ts";
import type { UsageOutcome, UsageRow, UsageTokens } from "./usage-row.ts";
import { nanoValue } from "./usage-values.ts";

const HOUR_MS = 3_600_000;

/** Image and audio tokens are included in input and output. Only usage rows store them separately. */
type SummedTokens = Omit<UsageTokens, "imageInputTokens" | "audioInputTokens" | "audioOutputTokens">;

export interface UsageTotals extends SummedTokens {
  /** Admitted requests. Refused ones are counted separately. */
  requests: number;
  refused: number;
  /** Of the requests: those that failed at the upstream or were cut off by it. */
  failed: number;
  durationMs: number;
  /** Sum over the requests with a first byte, whose number is `firstBytes`. */
  firstByteMs: number;
  firstBytes: number;
  costNano: Nano;
  chargedNano: Nano;
  upstreamNano: Nano;
}

type NanoField = "costNano" | "chargedNano" | "upstreamNano";

export interface RollUpEntry {
  of: Pick<UsageRow, "atMs" | "keyId" | "groupId" | "publicModel" | "interface">;
  totals: UsageTotals;
}

const SUMS: readonly (readonly [column: string, field: Exclude<keyof UsageTotals, NanoField>])[] = [
  ["requests", "requests"],
  ["refused", "refused"],
  ["failed", "failed"],
  ["input_tokens", "inputTokens"],
  ["cached_tokens", "cachedTokens"],
  ["cache_write_tokens", "cacheWriteTokens"],
  ["output_tokens", "outputTokens"],
  ["reasoning_tokens", "reasoningTokens"],
  ["images", "images"],
  ["duration_ms", "durationMs"],
  ["first_byte_ms", "firstByteMs"],
  ["first_bytes", "firstBytes"],
];
const NANO_SUMS: readonly (readonly [column: string, field: NanoField])[] = [
  ["cost_nano", "costNano"],
  ["charged_nano", "chargedNano"],
  ["upstream_nano", "upstreamNano"],
];
/** Every sum of a roll-up, in no particular order. Reconciliation compares them with the rows. */
export const SUM_COLUMNS: readonly string[] = [...SUMS, ...NANO_SUMS].map(([column]) => column);
const KEY_COLUMNS = ["key_id", "hour_ms", "group_id", "public_model", "interface"];
const COLUMNS = [...KEY_COLUMNS, ...SUM_COLUMNS];
const ADD_TO_PRESENT = `ON CONFLICT (${KEY_COLUMNS.join(", ")}) DO UPDATE SET ${SUM_COLUMNS.map(
  (column) => `${column} = usage_hour.${column} + excluded.${column}`,
).join(", ")}`;

/** The totals of a single row. */
export function computeTotals(
  used: SummedTokens & Pick<UsageRow, NanoField | "requestCount" | "durationMs" | "firstByteMs">,
  outcome: UsageOutcome,
): UsageTotals {
  const totals = noUse();
  addTo(totals, used, outcome);
  return totals;
}

export const noUse = (): UsageTotals => ({
  requests: 0,
  refused: 0,
  failed: 0,
  inputTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  images: 0,
  durationMs: 0,
  firstByteMs: 0,
  firstBytes: 0,
  costNano: 0n,
  chargedNano: 0n,
  upstreamNano: 0n,
});

/** Field by field: a loop over the field names takes several times as long, and this runs for every request. */
function addTo(
  sum: UsageTotals,
  used: SummedTokens & Pick<UsageRow, NanoField | "requestCount" | "durationMs" | "firstByteMs">,
  outcome: UsageOutcome,
): void {
  if (outcome === "refused") sum.refused += used.requestCount;
  else sum.requests += used.requestCount;
  if (outcome === "failed" || outcome === "upstream_cut") sum.failed += 1;
  sum.inputTokens += used.inputTokens;
  sum.cachedTokens += used.cachedTokens;
  sum.cacheWriteTokens += used.cacheWriteTokens;
  sum.outputTokens += used.outputTokens;
  sum.reasoningTokens += used.reasoningTokens;
  sum.images += used.images;
  sum.durationMs += used.durationMs;
  if (used.firstByteMs !== null) {
    sum.firstByteMs += used.firstByteMs;
    sum.firstBytes += 1;
  }
  if (used.costNano !== 0n) sum.costNano += used.costNano;
  if (used.chargedNano !== 0n) sum.chargedNano += used.chargedNano;
  if (used.upstreamNano !== 0n) sum.upstreamNano += used.upstreamNano;
}

export function difference(after: UsageTotals, before: UsageTotals): UsageTotals {
  const result = { ...after };
  for (const [, field] of SUMS) result[field] -= before[field];
  for (const [, field] of NANO_SUMS) result[field] -= before[field];
  return result;
}

export function plus(one: UsageTotals, other: UsageTotals): UsageTotals {
  const result = { ...one };
  for (const [, field] of SUMS) result[field] += other[field];
  for (const [, field] of NANO_SUMS) result[field] += other[field];
  return result;
}

/** Sums of usage rows. */
export class RollUp {
  /** Most keys have one or two lines in a batch: a linear search costs less than building a map key for every row. */
  private readonly byKey = new Map<string, RollUpEntry[]>();

  add(row: UsageRow): void {
    if (row.requestCount === 0) return;
    addTo(this.lineOf(row).totals, row, row.outcome);
  }

  /** Adds totals that were summed elsewhere. */
  merge(lines: readonly RollUpEntry[]): void {
    for (const { of, totals } of lines) {
      const line = this.lineOf(of);
      line.totals = plus(line.totals, totals);
    }
  }

  private lineOf(row: RollUpEntry["of"]): RollUpEntry {
    let lines = this.byKey.get(row.keyId);
    if (lines === undefined) {
      lines = [];
      this.byKey.set(row.keyId, lines);
    }
    return findOrAddLine(lines, row);
  }

  /**
   * One entry for each line of the roll-up. The order is the same everywhere, so that two nodes that update the same
   * lines wait for each other instead of deadlocking.
   */
  entries(): RollUpEntry[] {
    const keys = [...this.byKey].sort(([a], [b]) => (a < b ? -1 : 1));
    return keys.flatMap(([, lines]) => (lines.length === 1 ? lines : sortLines(lines)));
  }
}

/** Adds a row to its line. A linear search: there are few lines. */
export function addToLines(lines: RollUpEntry[], row: UsageRow): void {
  if (row.requestCount === 0) return;
  addTo(findOrAddLine(lines, row).totals, row, row.outcome);
}

/** Returns the line of a row, and creates it if it is new. */
function findOrAddLine(lines: RollUpEntry[], row: RollUpEntry["of"]): RollUpEntry {
  for (const line of lines) {
    const { of } = line;
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
  const created = { of: { atMs, keyId, groupId, publicModel, interface: family }, totals: noUse() };
  lines.push(created);
  return created;
}

function sortLines(lines: readonly RollUpEntry[]): RollUpEntry[] {
  const keyedLines = lines.map((line) => [buildLineKey(line.of), line] as const);
  return keyedLines.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, line]) => line);
}

/** Identifies a line among those of one key. */
function buildLineKey({ atMs, groupId, interface: family, publicModel }: RollUpEntry["of"]): string {
  return `${startOfHour(atMs)} ${groupId} ${family} ${publicModel}`;
}

export async function addToRollUp(tx: Db, entries: readonly RollUpEntry[]): Promise<void> {
  const rows = entries.map(({ of, totals }) => {
    const line: SqlValue[] = [of.keyId, startOfHour(of.atMs), of.groupId, of.publicModel, of.interface];
    for (const [, field] of SUMS) line.push(totals[field]);
    for (const [, field] of NANO_SUMS) line.push(nanoValue(totals[field]));
    return line;
  });
  await insertRows(tx, "usage_hour", COLUMNS, rows, ADD_TO_PRESENT);
}

/** Read by `toTotals`. SUM of BIGINT is NUMERIC on PostgreSQL. */
export const TOTALS = [
  ...SUMS.map(([column]) => `CAST(COALESCE(SUM(${column}), 0) AS BIGINT) AS ${column}`),
  ...NANO_SUMS.map(([column]) => `CAST(COALESCE(SUM(${column}), 0) AS TEXT) AS ${column}`),
].join(", ");

/** Counts whole hours, including the hour that contains `fromMs`. Null: since the beginning. */
export async function keyTotals(db: Db, keyId: string, fromMs: number | null): Promise<UsageTotals> {
  const [row] = await db.sql.text(
    `SELECT ${TOTALS} FROM usage_hour WHERE key_id = ${placeholder(db.engine, 1)} AND hour_ms >= ${placeholder(db.engine, 2)}`,
    [keyId, fromMs === null ? 0 : startOfHour(fromMs)],
  );
  if (row === undefined) throw new Error("A sum without rows is still one row.");
  return toTotals(row);
}

export function toTotals(row: Row): UsageTotals {
  return {
    requests: integer(row, "requests"),
    refused: integer(row, "refused"),
    failed: integer(row, "failed"),
    inputTokens: integer(row, "input_tokens"),
    cachedTokens: integer(row, "cached_tokens"),
    cacheWriteTokens: integer(row, "cache_write_tokens"),
    outputTokens: integer(row, "output_tokens"),
    reasoningTokens: integer(row, "reasoning_tokens"),
    images: integer(row, "images"),
    durationMs: integer(row, "duration_ms"),
    firstByteMs: integer(row, "first_byte_ms"),
    firstBytes: integer(row, "first_bytes"),
    costNano: nano(row, "cost_nano"),
    chargedNano: nano(row, "charged_nano"),
    upstreamNano: nano(row, "upstream_nano"),
  };
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
export async function useByHour(db: Db, sinceMs: number): Promise<KeyHour[]> {
  const rows = await db.sql`
    SELECT key_id, user_id, usage_hour.group_id, hour_ms, CAST(SUM(requests) AS BIGINT) AS requests,
      CAST(SUM(input_tokens + output_tokens) AS BIGINT) AS tokens, CAST(SUM(cost_nano) AS TEXT) AS cost_nano
    FROM usage_hour LEFT JOIN api_key ON api_key.id = key_id
    WHERE hour_ms >= ${startOfHour(sinceMs)}
    GROUP BY key_id, user_id, usage_hour.group_id, hour_ms
    HAVING SUM(requests) > 0 ORDER BY hour_ms, key_id, usage_hour.group_id`;
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
