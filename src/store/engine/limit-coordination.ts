/** Calls of the functions by which nodes lend limits to each other: see migrations/0008-limit-coordinator.sql. */

import type { Db, Row, SqlValue } from "./db.ts";
import { type Listener, listen } from "./notify.ts";
import { integer, integerOrNull, text, textOrNull } from "./row.ts";

export const COORDINATION_KIND = "postgres";

/** Lists as the server writes arrays. */
export function toArrayText(values: readonly (string | number)[]): string {
  const elements = values.map((value) =>
    typeof value === "number" ? String(value) : `"${value.replaceAll(/["\\]/g, "\\$&")}"`,
  );
  return `{${elements.join(",")}}`;
}

async function callFunction(db: Db, statement: string, values: readonly SqlValue[]): Promise<Row> {
  const [row] = await db.sql.text(statement, values);
  if (row === undefined) throw new Error("A function of the coordinator returned no row.");
  return row;
}

/** SQL of a call with these types of parameters. */
function buildCall(name: string, types: readonly string[]): string {
  return `SELECT * FROM ${name}(${types.map((type, i) => `$${i + 1}::${type}`).join(", ")})`;
}

const RECORDS = ["TEXT[]", "BIGINT[]", "BIGINT[]", "BIGINT[]"];
const NUMBERS = "BIGINT[]";
const BOUNDS = ["BIGINT", "BIGINT", "BIGINT"];
const OPEN_TERM = buildCall("limit_open_term", ["TEXT", "TEXT", "TEXT", ...BOUNDS, "TEXT", "BIGINT"]);
const OPEN_EPOCH = "SELECT limit_open_epoch($1::TEXT, $2::TEXT[], $3::BIGINT, $4::BIGINT) AS is_open";
const EXCHANGE = buildCall("limit_exchange", [
  "TEXT",
  "BIGINT",
  ...BOUNDS,
  NUMBERS,
  ...RECORDS,
  NUMBERS,
  NUMBERS,
  NUMBERS,
  NUMBERS,
  NUMBERS,
  "TEXT[]",
  NUMBERS,
  NUMBERS,
]);
const DECLARE = buildCall("limit_declare", [
  "TEXT",
  "BIGINT",
  ...BOUNDS,
  "BIGINT",
  ...RECORDS,
  NUMBERS,
  NUMBERS,
  "BIGINT",
  "TEXT",
  "BIGINT",
]);

const SWEEP = "SELECT limit_sweep($1::BIGINT, $2::BIGINT, $3::BIGINT) AS windows";

interface SweepBounds {
  readonly endedTermMs: number;
  readonly termMs: number;
  readonly windowsPerSweepMax: number;
}

export async function openLimitTerm(db: Db, values: readonly SqlValue[]) {
  const row = await callFunction(db, OPEN_TERM, values);
  return {
    nowMs: integer(row, "now_ms"),
    epoch: text(row, "epoch"),
    beat: integerOrNull(row, "beat"),
    hasUnknownUse: row.has_unknown_use === 1,
  };
}

export async function exchangeLimits(db: Db, values: readonly SqlValue[]) {
  const row = await callFunction(db, EXCHANGE, values);
  const [states, results] = [textOrNull(row, "states") ?? "", textOrNull(row, "results") ?? ""];
  return { ...readReply(row), states, results };
}

export async function declareLimits(db: Db, values: readonly SqlValue[]) {
  return readReply(await callFunction(db, DECLARE, values));
}

function readReply(row: Row) {
  const nowMs = integerOrNull(row, "now_ms") ?? 0;
  return { status: text(row, "status"), nowMs, isOpen: row.is_open === 1 };
}

export async function openLimitEpoch(db: Db, values: readonly SqlValue[]): Promise<boolean> {
  const row = await callFunction(db, OPEN_EPOCH, values);
  return row.is_open === 1;
}

export async function endLimitTerm(db: Db, term: string): Promise<void> {
  await db.sql`UPDATE limit_term SET state = 1 WHERE id = ${term} AND state = 0`;
}

export async function buryLimitProcess(db: Db, process: string): Promise<void> {
  await db.sql`UPDATE limit_term SET state = 2 WHERE process = ${process} AND state = 0`;
}

export async function listLimitProcesses(db: Db): Promise<string[]> {
  const rows = await db.sql`SELECT DISTINCT process FROM limit_term WHERE state = 0`;
  return rows.map((row) => text(row, "process"));
}

/** The stored sums have use that was not reported: every window is read again at its next call. */
export async function markWindowsUnread(db: Db): Promise<void> {
  await db.sql`UPDATE limit_window SET used = NULL`;
}

/** The same for all windows of these subjects, which are the beginnings of the names of records. */
export async function markSubjectsUnread(db: Db, subjects: readonly string[]): Promise<void> {
  // Locked in the order of the calls of nodes. The table has a row for each window in use: few enough to scan.
  await db.sql.text(
    `WITH unread AS (
       SELECT id FROM limit_window WHERE EXISTS (SELECT 1 FROM unnest($1::TEXT[]) AS s WHERE starts_with(id, s))
       ORDER BY id FOR UPDATE)
     UPDATE limit_window w SET used = NULL FROM unread WHERE w.id = unread.id`,
    [toArrayText(subjects)],
  );
}

/** One statement for some of the windows, until all that are idle are deleted. */
export async function sweepLimits(
  db: Db,
  { endedTermMs, termMs, windowsPerSweepMax }: SweepBounds,
): Promise<void> {
  const values = [endedTermMs, termMs, windowsPerSweepMax];
  let row: Row;
  do row = await callFunction(db, SWEEP, values);
  while (integer(row, "windows") === windowsPerSweepMax);
}

/** Notes for the terms of a process. */
export function listenForLimitNotes(process: string, listener: Omit<Listener, "channel">) {
  return listen({ ...listener, channel: `limits_${process}` });
}
