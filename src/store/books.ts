/** The books compared with each other, a question each, answered by the engine in one pass over the tables. */

import type { Db, Row, Value } from "./db.ts";
import { placeholder } from "./db.ts";
import { integer, text } from "./row.ts";
import { SUM_COLUMNS } from "./usage-hour.ts";

/** What contradicts something else: the id of the row, and what it says against what it should. */
export interface Contradiction {
  subject: string;
  is: string;
  ought: string;
}

async function ask(
  db: Db,
  question: string,
  values: readonly Value[],
  limit: number,
): Promise<Contradiction[]> {
  const rows = await db.sql.text(`${question} LIMIT ${placeholder(db.engine, values.length + 1)}`, [
    ...values,
    limit,
  ]);
  return rows.map((row: Row) => ({
    subject: text(row, "subject"),
    is: text(row, "is_now"),
    ought: text(row, "ought"),
  }));
}

/** Each balance is the sum of its book's entries. */
export function wrongBalances(db: Db, limit: number): Promise<Contradiction[]> {
  return ask(
    db,
    `SELECT COALESCE(w.book, b.book) AS subject, CAST(COALESCE(w.balance, 0) AS TEXT) AS is_now,
       CAST(COALESCE(b.total, 0) AS TEXT) AS ought
     FROM (SELECT 'user:' || user_id AS book, balance_nano AS balance FROM wallet) w
     FULL JOIN (
       SELECT book, SUM(amount) AS total FROM (
         SELECT credit AS book, amount_nano AS amount FROM entry WHERE SUBSTR(credit, 1, 5) = 'user:'
         UNION ALL
         SELECT debit AS book, -amount_nano AS amount FROM entry WHERE SUBSTR(debit, 1, 5) = 'user:'
       ) moves GROUP BY book
     ) b ON b.book = w.book
     WHERE COALESCE(w.balance, 0) <> COALESCE(b.total, 0) ORDER BY subject`,
    [],
    limit,
  );
}

/** What is held of each wallet is the sum of its holds, and of what processes have set aside for holds to come. */
export function wrongHeld(db: Db, limit: number): Promise<Contradiction[]> {
  return ask(
    db,
    `SELECT COALESCE(w.user_id, h.user_id) AS subject, CAST(COALESCE(w.held_nano, 0) AS TEXT) AS is_now,
       CAST(COALESCE(h.total, 0) AS TEXT) AS ought
     FROM wallet w FULL JOIN (
       SELECT user_id, SUM(amount_nano) AS total FROM (
         SELECT user_id, amount_nano FROM hold WHERE subscription_id IS NULL
         UNION ALL
         SELECT user_id, amount_nano FROM lease
       ) aside GROUP BY user_id
     ) h ON h.user_id = w.user_id
     WHERE COALESCE(w.held_nano, 0) <> COALESCE(h.total, 0) ORDER BY subject`,
    [],
    limit,
  );
}

/** Nobody has less than what is held of it. */
export function overspent(db: Db, limit: number): Promise<Contradiction[]> {
  return ask(
    db,
    `SELECT user_id AS subject, CAST(balance_nano AS TEXT) AS is_now, CAST(held_nano AS TEXT) AS ought
     FROM wallet WHERE balance_nano < held_nano ORDER BY user_id`,
    [],
    limit,
  );
}

/** Each row that was charged by itself has its entry, of the same amount. */
export function rowsWithoutEntry(db: Db, limit: number): Promise<Contradiction[]> {
  return ask(
    db,
    `SELECT u.request_id AS subject, CAST(COALESCE(e.amount_nano, 0) AS TEXT) AS is_now,
       CAST(u.charged_nano AS TEXT) AS ought
     FROM usage u LEFT JOIN entry e ON e.id = 'charge:' || u.request_id
     WHERE u.charged_nano <> 0 AND u.charged_with IS NULL
       AND (e.id IS NULL OR e.request_id IS NULL OR e.amount_nano <> u.charged_nano)`,
    [],
    limit,
  );
}

/** Each charge of one request has its row, of the same amount, as far back as rows are kept. */
export function entriesWithoutRow(db: Db, rowsSinceMs: number, limit: number): Promise<Contradiction[]> {
  return ask(
    db,
    `SELECT e.id AS subject, CAST(COALESCE(u.charged_nano, 0) AS TEXT) AS is_now,
       CAST(e.amount_nano AS TEXT) AS ought
     FROM entry e LEFT JOIN usage u ON u.request_id = e.request_id
     WHERE e.kind = 'charge' AND e.request_id IS NOT NULL AND e.at_ms >= ${placeholder(db.engine, 1)}
       AND (u.request_id IS NULL OR u.charged_nano = 0)`,
    [rowsSinceMs],
    limit,
  );
}

/**
 * Each charge of many requests is the sum of their rows, all of them its user's, as far back as rows are kept. Its time
 * is that of the earliest of them.
 */
export function wrongSharedCharges(db: Db, rowsSinceMs: number, limit: number): Promise<Contradiction[]> {
  return ask(
    db,
    `SELECT COALESCE(e.id, 'charge:' || u.charged_with) AS subject,
       CAST(COALESCE(e.amount_nano, 0) AS TEXT) AS is_now, CAST(COALESCE(u.total, 0) AS TEXT) AS ought
     FROM (
       SELECT charged_with, user_id, SUM(charged_nano) AS total FROM usage
       WHERE charged_with IS NOT NULL GROUP BY charged_with, user_id
     ) u
     FULL JOIN (
       SELECT id, user_id, amount_nano, at_ms FROM entry WHERE kind = 'charge' AND request_id IS NULL
     ) e ON e.id = 'charge:' || u.charged_with AND e.user_id = u.user_id
     WHERE e.id IS NULL OR (e.at_ms >= ${placeholder(db.engine, 1)} AND COALESCE(u.total, 0) <> e.amount_nano)`,
    [rowsSinceMs],
    limit,
  );
}

/** What one row counts for in each sum of its roll-up. */
const ROW_VALUES: Readonly<Record<string, string>> = {
  requests: "CASE WHEN outcome = 'refused' THEN 0 ELSE 1 END",
  refused: "CASE WHEN outcome = 'refused' THEN 1 ELSE 0 END",
  failed: "CASE WHEN outcome IN ('failed', 'upstream_cut') THEN 1 ELSE 0 END",
  first_byte_ms: "COALESCE(first_byte_ms, 0)",
  first_bytes: "CASE WHEN first_byte_ms IS NULL THEN 0 ELSE 1 END",
};

/** Each sum of each hour is the sum of its rows, as far back as rows are kept. */
export function wrongRollUps(db: Db, rowsSinceMs: number, limit: number): Promise<Contradiction[]> {
  const sums = SUM_COLUMNS.map((column) => `SUM(${ROW_VALUES[column] ?? column}) AS ${column}`).join(", ");
  const differs = SUM_COLUMNS.map((column) => `COALESCE(h.${column}, 0) <> COALESCE(r.${column}, 0)`).join(
    " OR ",
  );
  const list = (from: string) =>
    SUM_COLUMNS.map((column) => `CAST(COALESCE(${from}.${column}, 0) AS TEXT)`).join(" || ' ' || ");
  const keys = ["key_id", "hour_ms", "group_id", "public_model", "interface"];
  const either = keys.map((key) => `CAST(COALESCE(h.${key}, r.${key}) AS TEXT)`).join(" || ' ' || ");
  const since = placeholder(db.engine, 1);
  return ask(
    db,
    `SELECT ${either} AS subject, ${list("h")} AS is_now, ${list("r")} AS ought
     FROM (SELECT * FROM usage_hour WHERE hour_ms >= ${since}) h
     FULL JOIN (
       SELECT key_id, at_ms - at_ms % 3600000 AS hour_ms, group_id, public_model, interface, ${sums}
       FROM usage WHERE at_ms >= ${db.engine === "postgres" ? since : "?"}
       GROUP BY key_id, at_ms - at_ms % 3600000, group_id, public_model, interface
     ) r ON ${keys.map((key) => `h.${key} = r.${key}`).join(" AND ")}
     WHERE ${differs}`,
    db.engine === "postgres" ? [wholeHour(rowsSinceMs)] : [wholeHour(rowsSinceMs), wholeHour(rowsSinceMs)],
    limit,
  );
}

/** Of the hour in which rows were removed some are gone; the next one is whole. */
function wholeHour(sinceMs: number): number {
  return Math.ceil(sinceMs / 3_600_000) * 3_600_000;
}

export function oldHolds(db: Db, beforeMs: number, limit: number): Promise<Contradiction[]> {
  return ask(
    db,
    `SELECT request_id AS subject, CAST(at_ms AS TEXT) AS is_now, CAST(at_ms AS TEXT) AS ought
     FROM hold WHERE at_ms < ${placeholder(db.engine, 1)} ORDER BY at_ms`,
    [beforeMs],
    limit,
  );
}

export interface BookCounts {
  wallets: number;
  entries: number;
  holds: number;
  rows: number;
}

export async function countBooks(db: Db): Promise<BookCounts> {
  const [row] = await db.sql`
    SELECT (SELECT COUNT(*) FROM wallet) AS wallets, (SELECT COUNT(*) FROM entry) AS entries,
      (SELECT COUNT(*) FROM hold) AS holds, (SELECT COUNT(*) FROM usage) AS usage_rows`;
  if (row === undefined) throw new Error("Counting gives one row.");
  return {
    wallets: integer(row, "wallets"),
    entries: integer(row, "entries"),
    holds: integer(row, "holds"),
    rows: integer(row, "usage_rows"),
  };
}
