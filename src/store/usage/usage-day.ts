/**
 * The daily roll-up, folded from the hourly one. A fold overwrites sums with the current sums of the hours, so it
 * can be repeated and interrupted. Hours never lose requests, so no row has to be deleted.
 */

import { nextTurn } from "../../base/next-turn.ts";
import { DAY_MS, HOUR_MS, WEEK_MS } from "../../base/time.ts";
import { type Db, placeholder, type SqlValue, transaction } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { integer, text } from "../engine/row.ts";
import { SUM_COLUMNS } from "./usage-hour.ts";

/** SQLite folds within this process, so each step has to be short. */
const KEYS_PER_STEP = 20;

export function startOfDay(atMs: number): number {
  return Math.floor(atMs / DAY_MS) * DAY_MS;
}

/** Monday: the epoch was a Thursday. */
export function startOfWeek(atMs: number): number {
  return Math.floor((atMs + 3 * DAY_MS) / WEEK_MS) * WEEK_MS - 3 * DAY_MS;
}

interface FoldState {
  /** All hours up to this time are folded, except for late rows. 0 if nothing was folded yet. */
  foldedAtMs: number;
  marks: { requestId: string; dayMs: number }[];
}

export async function readFoldState(db: Db): Promise<FoldState> {
  const [fold] = await db.sql`SELECT folded_at_ms FROM usage_fold WHERE id = 1`;
  const marks = await db.sql`SELECT request_id, day_ms FROM usage_day_mark ORDER BY day_ms, request_id`;
  return {
    foldedAtMs: fold === undefined ? 0 : integer(fold, "folded_at_ms"),
    marks: marks.map((row) => ({ requestId: text(row, "request_id"), dayMs: integer(row, "day_ms") })),
  };
}

/** Before this time the daily roll-up equals the hourly one, including late rows. */
export async function readFoldedBefore(db: Db): Promise<number> {
  const { foldedAtMs, marks } = await readFoldState(db);
  const settledMs = Math.max(0, startOfDay(foldedAtMs) - DAY_MS);
  return Math.min(settledMs, ...marks.map(({ dayMs }) => dayMs));
}

/**
 * Marks days to be folded again. Call it in the transaction that changes an hour long past: a settlement days later,
 * or a recovery.
 */
export async function markDays(
  tx: Db,
  requests: readonly { requestId: string; atMs: number }[],
): Promise<void> {
  const rows = requests.map(({ requestId, atMs }) => [requestId, startOfDay(atMs)]);
  await insertRows(tx, "usage_day_mark", ["request_id", "day_ms"], rows, "ON CONFLICT DO NOTHING");
}

/** How far each fold looks back beyond the previous one. */
export const FOLD_GRACE_MS = 3 * HOUR_MS;
/** The rest of the grace period covers clock differences and slow commits. */
const LATE_AFTER_MS = 2 * HOUR_MS;

export function isLate(atMs: number, nowMs: number): boolean {
  return atMs < nowMs - LATE_AFTER_MS;
}

/** Marks the days of rows written late: by a recovery, from a spool, or after a very long response. */
export async function markLate(
  tx: Db,
  rows: readonly { requestId: string; atMs: number }[],
  nowMs: number,
): Promise<void> {
  const late = rows.filter(({ atMs }) => isLate(atMs, nowMs));
  if (late.length > 0) await markDays(tx, late);
}

/** Deletes the marks that were read before and whose days have been folded since. Later marks stay. */
export async function writeFolded(db: Db, atMs: number, marks: FoldState["marks"]): Promise<void> {
  await transaction(db, async (tx) => {
    await tx.sql`UPDATE usage_fold SET folded_at_ms = ${atMs} WHERE id = 1 AND folded_at_ms < ${atMs}`;
    for (let start = 0; start < marks.length; start += 500) {
      const ids = marks.slice(start, start + 500).map(({ requestId }) => requestId);
      await tx.sql.text(
        `DELETE FROM usage_day_mark WHERE request_id IN (${placeholderList(tx, ids.length)})`,
        ids,
      );
    }
  });
}

export async function readFirstHour(db: Db): Promise<number | null> {
  const [row] = await db.sql`SELECT hour_ms FROM usage_hour ORDER BY hour_ms LIMIT 1`;
  return row === undefined ? null : integer(row, "hour_ms");
}

/** Folds the day of every key and group with usage since `sinceMs`, the start of an hour. */
export async function foldDay(db: Db, dayMs: number, sinceMs: number): Promise<boolean> {
  const keyIds = new Set<string>();
  const groupIds = new Set<string>();
  const hours: number[] = [];
  for (let hourMs = Math.max(dayMs, sinceMs); hourMs < dayMs + DAY_MS; hourMs += HOUR_MS) {
    const touched = await db.sql`SELECT DISTINCT key_id, group_id FROM usage_hour WHERE hour_ms = ${hourMs}`;
    if (touched.length === 0) continue;
    hours.push(hourMs);
    for (const row of touched) {
      keyIds.add(text(row, "key_id"));
      groupIds.add(text(row, "group_id"));
    }
    await nextTurn();
  }
  if (hours.length === 0) return false;
  const keys = [...keyIds].sort();
  for (let start = 0; start < keys.length; start += KEYS_PER_STEP) {
    await foldKeys(db, dayMs, keys.slice(start, start + KEYS_PER_STEP));
    await nextTurn();
  }
  for (const groupId of groupIds) {
    await foldGroup(db, dayMs, groupId);
    await nextTurn();
  }
  for (const hourMs of hours) {
    await foldHour(db, hourMs);
    await nextTurn();
  }
  await withFoldLock(db, (tx) =>
    fold(
      tx,
      "'all', '', CAST(? AS BIGINT), public_model",
      "usage_day WHERE scope = 'all_hour' AND scope_id = '' AND day_ms >= ? AND day_ms < ? GROUP BY public_model",
      [dayMs, dayMs, dayMs + DAY_MS],
    ),
  );
  return true;
}

async function foldKeys(db: Db, dayMs: number, keyIds: readonly string[]): Promise<void> {
  const keys = keyIds.map(() => "?").join(", ");
  await withFoldLock(db, async (tx) => {
    await fold(
      tx,
      "'key', key_id, CAST(? AS BIGINT), public_model",
      `usage_hour WHERE key_id IN (${keys}) AND hour_ms >= ? AND hour_ms < ? GROUP BY key_id, public_model`,
      [dayMs, ...keyIds, dayMs, dayMs + DAY_MS],
    );
    await foldSums(tx, "key", dayMs, keyIds);
    const users = await tx.sql.text(
      `SELECT DISTINCT user_id FROM api_key WHERE user_id IS NOT NULL AND id IN (${placeholderList(tx, keyIds.length)})`,
      keyIds,
    );
    if (users.length === 0) return;
    const userIds = users.map((row) => text(row, "user_id")).sort();
    const placeholders = userIds.map(() => "?").join(", ");
    await fold(
      tx,
      "'user', user_id, day_ms, public_model",
      `usage_day JOIN api_key ON api_key.id = scope_id
        WHERE scope = 'key' AND user_id IN (${placeholders}) AND day_ms = ? GROUP BY user_id, day_ms, public_model`,
      [...userIds, dayMs],
    );
    await foldSums(tx, "user", dayMs, userIds);
  });
}

async function foldGroup(db: Db, dayMs: number, groupId: string): Promise<void> {
  await withFoldLock(db, async (tx) => {
    await fold(
      tx,
      "'group', group_id, CAST(? AS BIGINT), public_model",
      "usage_hour WHERE group_id = ? AND hour_ms >= ? AND hour_ms < ? GROUP BY group_id, public_model",
      [dayMs, groupId, dayMs, dayMs + DAY_MS],
    );
    await foldSums(tx, "group", dayMs, [groupId]);
  });
}

/** The hour of all callers together: the only hourly chart that would otherwise read too many rows. */
async function foldHour(db: Db, hourMs: number): Promise<void> {
  await withFoldLock(db, (tx) =>
    fold(
      tx,
      "'all_hour', '', hour_ms, public_model",
      "usage_hour WHERE hour_ms = ? GROUP BY hour_ms, public_model",
      [hourMs],
    ),
  );
}

/** Sums over all models of a day, and of its week. */
async function foldSums(tx: Db, scope: string, dayMs: number, ids: readonly string[]): Promise<void> {
  const placeholders = ids.map(() => "?").join(", ");
  await fold(
    tx,
    `'${scope}_sum', scope_id, day_ms, ''`,
    `usage_day WHERE scope = '${scope}' AND scope_id IN (${placeholders}) AND day_ms = ? GROUP BY scope_id, day_ms`,
    [...ids, dayMs],
  );
  const weekMs = startOfWeek(dayMs);
  await fold(
    tx,
    `'${scope}_week', scope_id, CAST(? AS BIGINT), ''`,
    `usage_day WHERE scope = '${scope}_sum' AND scope_id IN (${placeholders}) AND day_ms >= ? AND day_ms < ?
      GROUP BY scope_id`,
    [weekMs, ...ids, weekMs, weekMs + WEEK_MS],
  );
}

const SUMS = SUM_COLUMNS.map((column) => `SUM(${column})`).join(", ");
const REPLACE = SUM_COLUMNS.map((column) => `${column} = excluded.${column}`).join(", ");

/** `?` stands for a value on both engines. */
async function fold(tx: Db, target: string, from: string, values: readonly SqlValue[]): Promise<void> {
  let next = 1;
  const statement = `INSERT INTO usage_day (scope, scope_id, day_ms, public_model, ${SUM_COLUMNS.join(", ")})
    SELECT ${target}, ${SUMS} FROM ${from}
    ON CONFLICT (scope, scope_id, day_ms, public_model) DO UPDATE SET ${REPLACE}`;
  await tx.sql.text(
    statement.replaceAll("?", () => placeholder(tx.engine, next++)),
    values,
  );
}

/** Under the lock, everything read is newer than any earlier write of another node. */
async function withFoldLock(db: Db, work: (tx: Db) => Promise<void>): Promise<void> {
  await transaction(db, async (tx) => {
    await tx.sql`UPDATE usage_fold SET folded_at_ms = folded_at_ms WHERE id = 1`;
    await work(tx);
  });
}

function placeholderList(db: Db, length: number): string {
  return Array.from({ length }, (_, i) => placeholder(db.engine, i + 1)).join(", ");
}
