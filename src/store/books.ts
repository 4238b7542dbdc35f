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

/**
 * Each balance is the sum of its book's entries. Both sides are added up in one list, here and below: SQLite has no
 * index for a full join, and would compare each with each.
 */
export function wrongBalances(db: Db, limit: number): Promise<Contradiction[]> {
  return ask(
    db,
    `SELECT book AS subject, CAST(SUM(balance) AS TEXT) AS is_now, CAST(SUM(moved) AS TEXT) AS ought
     FROM (
       SELECT 'user:' || user_id AS book, balance_nano AS balance, 0 AS moved FROM wallet
       UNION ALL
       SELECT credit, 0, amount_nano FROM entry WHERE SUBSTR(credit, 1, 5) = 'user:'
       UNION ALL
       SELECT debit, 0, -amount_nano FROM entry WHERE SUBSTR(debit, 1, 5) = 'user:'
     ) both_sides GROUP BY book HAVING SUM(balance) <> SUM(moved) ORDER BY book`,
    [],
    limit,
  );
}

/** What is held of each wallet is the sum of its holds, and of what processes have set aside for holds to come. */
export function wrongHeld(db: Db, limit: number): Promise<Contradiction[]> {
  return ask(
    db,
    `SELECT user_id AS subject, CAST(SUM(held) AS TEXT) AS is_now, CAST(SUM(aside) AS TEXT) AS ought
     FROM (
       SELECT user_id, held_nano AS held, 0 AS aside FROM wallet
       UNION ALL
       SELECT user_id, 0, amount_nano FROM hold WHERE subscription_id IS NULL
       UNION ALL
       SELECT user_id, 0, amount_nano FROM lease
     ) both_sides GROUP BY user_id HAVING SUM(held) <> SUM(aside) ORDER BY user_id`,
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
       AND (e.id IS NULL OR e.kind <> 'charge' OR e.request_id IS NULL OR e.amount_nano <> u.charged_nano)`,
    [],
    limit,
  );
}

/** A subscription's charge has the time of its hold, and that comes some time after the beginning of its row. */
const HOLD_AFTER_MS = 3_600_000;

/**
 * Each charge of one request is the only one, for it bears the request's id, and is what its row says: paid by itself,
 * of the same user and amount. Only as far back as rows are kept has each of them its row.
 */
export function entriesWithoutRow(db: Db, rowsSinceMs: number, limit: number): Promise<Contradiction[]> {
  const since = (number: number) => placeholder(db.engine, number);
  return ask(
    db,
    `SELECT e.id AS subject, CAST(COALESCE(u.charged_nano, 0) AS TEXT) AS is_now,
       CAST(e.amount_nano AS TEXT) AS ought
     FROM entry e LEFT JOIN usage u ON u.request_id = e.request_id
     WHERE e.kind = 'charge' AND e.request_id IS NOT NULL
       AND (e.id <> 'charge:' || e.request_id OR u.charged_nano <> e.amount_nano OR u.charged_with IS NOT NULL
         OR u.user_id <> e.user_id
         OR u.request_id IS NULL
           AND e.at_ms >= CASE WHEN e.subscription_id IS NULL THEN ${since(1)} ELSE ${since(2)} END)`,
    [rowsSinceMs, rowsSinceMs === 0 ? 0 : rowsSinceMs + HOLD_AFTER_MS],
    limit,
  );
}

/**
 * Nobody gets more back for a request than was charged for it. What one paid of a charge that it shared its row alone
 * tells: where rows were removed, a charge that cannot be found may have been such a one.
 */
export function refundedTooMuch(db: Db, rowsSinceMs: number, limit: number): Promise<Contradiction[]> {
  return ask(
    db,
    `SELECT r.request_id AS subject, CAST(r.back AS TEXT) AS is_now,
       CAST(COALESCE(e.amount_nano, u.charged_nano, 0) AS TEXT) AS ought
     FROM (
       SELECT request_id, SUM(amount_nano) AS back FROM entry
       WHERE kind = 'refund' AND request_id IS NOT NULL GROUP BY request_id
     ) r
     LEFT JOIN entry e ON e.id = 'charge:' || r.request_id AND e.request_id = r.request_id
     LEFT JOIN usage u ON u.request_id = r.request_id AND u.charged_with IS NOT NULL
     WHERE r.back > COALESCE(e.amount_nano, u.charged_nano, 0)
       AND (e.id IS NOT NULL OR u.request_id IS NOT NULL OR ${placeholder(db.engine, 1)} = 0)
     ORDER BY r.request_id`,
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
    `SELECT id AS subject, CAST(SUM(charge) AS TEXT) AS is_now, CAST(SUM(charged) AS TEXT) AS ought
     FROM (
       SELECT id, user_id, at_ms, amount_nano AS charge, 0 AS charged FROM entry
       WHERE kind = 'charge' AND request_id IS NULL
       UNION ALL
       SELECT 'charge:' || charged_with, user_id, NULL, 0, charged_nano FROM usage
       WHERE charged_with IS NOT NULL
     ) both_sides GROUP BY id, user_id
     HAVING MAX(at_ms) IS NULL OR (MAX(at_ms) >= ${placeholder(db.engine, 1)} AND SUM(charge) <> SUM(charged))`,
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
  const values = SUM_COLUMNS.map((column) => `SUM(${ROW_VALUES[column] ?? column}) AS ${column}`).join(", ");
  // Of two lines at most, the roll-up's and the one of its rows.
  const sumOf = (side: 0 | 1, column: string) => `SUM(CASE side WHEN ${side} THEN ${column} ELSE 0 END)`;
  const differs = SUM_COLUMNS.map((column) => `${sumOf(0, column)} <> ${sumOf(1, column)}`).join(" OR ");
  const list = (side: 0 | 1) =>
    SUM_COLUMNS.map((column) => `CAST(${sumOf(side, column)} AS TEXT)`).join(" || ' ' || ");
  const keys = ["key_id", "hour_ms", "group_id", "public_model", "interface"];
  const since = placeholder(db.engine, 1);
  return ask(
    db,
    `SELECT ${keys.map((key) => `CAST(${key} AS TEXT)`).join(" || ' ' || ")} AS subject,
       ${list(0)} AS is_now, ${list(1)} AS ought
     FROM (
       SELECT 0 AS side, ${keys.join(", ")}, ${SUM_COLUMNS.join(", ")} FROM usage_hour WHERE hour_ms >= ${since}
       UNION ALL
       SELECT 1, key_id, at_ms - at_ms % 3600000, group_id, public_model, interface, ${values}
       FROM usage WHERE at_ms >= ${db.engine === "postgres" ? since : "?"}
       GROUP BY key_id, at_ms - at_ms % 3600000, group_id, public_model, interface
     ) both_sides GROUP BY ${keys.join(", ")} HAVING ${differs}`,
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
