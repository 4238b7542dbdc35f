/** Reconciliation checks of money and usage rows. Each is one query that passes over its tables once. */

import type { Db, Row, SqlValue } from "../engine/db.ts";
import { placeholder } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import { BY_HAND, chargedNano, correctedNano } from "../money/entries.ts";
import { SET_ASIDE } from "../money/set-aside-holds.ts";
import { requestIdAt } from "../usage/request-id-time.ts";
import { WRONG_ENTRIES, WRONG_REDEMPTIONS } from "./entry-shapes.ts";
import { openStatement } from "./sums.ts";

/** A row that contradicts another record: its id, its value, and the expected value. */
export interface Contradiction {
  subject: string;
  is: string;
  ought: string;
}

/** Runs a query whose columns are `subject`, `is_now` and `ought`, all of them text. */
export async function findContradictions(
  db: Db,
  query: string,
  values: readonly SqlValue[],
  limit: number,
): Promise<Contradiction[]> {
  const rows = await db.sql.text(`${query} LIMIT ${placeholder(db.engine, values.length + 1)}`, [
    ...values,
    limit,
  ]);
  return rows.map((row: Row) => ({
    subject: text(row, "subject"),
    is: text(row, "is_now"),
    ought: text(row, "ought"),
  }));
}

/** A request id is created before its row gets a time, and the clock may be adjusted a little in between. */
const ROW_AFTER_ID_MS = 3_600_000;

/** What the gateway charged for the request of a refund `r`. */
const CHARGED_OF_REFUND = `CASE
    WHEN e.user_id = r.user_id AND e.subscription_id IS NOT DISTINCT FROM r.subscription_id THEN e.amount_nano + ${correctedNano("r.request_id")}
    WHEN e.id IS NULL AND payer.id = r.user_id AND r.subscription_id IS NULL THEN u.charged_nano
    ELSE 0 END`;

interface LedgerCheckOptions {
  /** Usage rows from before this time may have been removed. */
  rowsSinceMs: number;
  /** A hold from before this time is a fault. */
  holdsBeforeMs: number;
  /** Contradictions that are reported. */
  limit: number;
}

/** Returns a query for `findContradictions`. `mark` takes its values in the order in which the text uses them. */
type Check = (mark: (value: SqlValue) => string, options: LedgerCheckOptions) => string;

/**
 * By name, in the order of the report. Both sides of a comparison are summed in one list: SQLite has no index for a
 * full join and would compare every pair.
 */
const CHECKS = {
  /** Balances that differ from the sum of their entries. */
  balance: () =>
    `SELECT book AS subject, CAST(SUM(balance) AS TEXT) AS is_now, CAST(SUM(moved) AS TEXT) AS ought
     FROM (
       SELECT 'user:' || user_id AS book, balance_nano AS balance, 0 AS moved FROM wallet
       UNION ALL
       SELECT credit, 0, amount_nano FROM entry WHERE SUBSTR(credit, 1, 5) = 'user:'
       UNION ALL
       SELECT debit, 0, -amount_nano FROM entry WHERE SUBSTR(debit, 1, 5) = 'user:'
     ) both_sides GROUP BY book HAVING SUM(balance) <> SUM(moved) ORDER BY book`,
  /** Wallets whose held amount differs from the sum of their holds and wallet reservations. */
  held: () =>
    `SELECT user_id AS subject, CAST(SUM(held) AS TEXT) AS is_now, CAST(SUM(aside) AS TEXT) AS ought
     FROM (
       SELECT user_id, held_nano AS held, 0 AS aside FROM wallet
       UNION ALL
       SELECT user_id, 0, amount_nano FROM hold WHERE subscription_id IS NULL
       UNION ALL
       SELECT user_id, 0, amount_nano FROM wallet_reservation
     ) both_sides GROUP BY user_id HAVING SUM(held) <> SUM(aside) ORDER BY user_id`,
  /** Balances below the held amount by more than the recorded debt, and debts that the balance covers. */
  available: () =>
    `SELECT user_id AS subject, CAST(balance_nano + debt_nano AS TEXT) AS is_now, CAST(held_nano AS TEXT) AS ought
     FROM wallet WHERE balance_nano + debt_nano < held_nano
       OR debt_nano > 0 AND balance_nano + debt_nano <> held_nano ORDER BY user_id`,
  /** Debts larger than the unpaid overruns of the user's requests. */
  debt: () =>
    `SELECT w.user_id AS subject, CAST(w.debt_nano AS TEXT) AS is_now, CAST(COALESCE(o.debt, 0) AS TEXT) AS ought
     FROM wallet w LEFT JOIN (
       SELECT user_id, SUM(debt_nano) AS debt FROM overrun
       WHERE debt_nano > 0 AND subscription_id IS NULL GROUP BY user_id
     ) o ON o.user_id = w.user_id
     WHERE w.debt_nano > COALESCE(o.debt, 0) ORDER BY w.user_id`,
  /** Overruns that differ from the charge of their request in user, payer or amount. */
  overrun: () =>
    `SELECT o.request_id AS subject, CAST(o.charged_nano AS TEXT) AS is_now,
       CAST(COALESCE(e.amount_nano, 0) AS TEXT) AS ought
     FROM overrun o LEFT JOIN entry e ON e.id = 'charge:' || o.request_id
     WHERE e.id IS NULL OR e.amount_nano <> o.charged_nano OR e.user_id IS DISTINCT FROM o.user_id
       OR e.subscription_id IS DISTINCT FROM o.subscription_id ORDER BY o.request_id`,
  /** Entries whose books do not match their kind and user, or whose subscription belongs to another user. */
  entry: () => WRONG_ENTRIES,
  /** Redeemed money codes without their entry, and redeem entries without their code. */
  code: () => WRONG_REDEMPTIONS,
  /**
   * Usage rows whose charge differs from their cost. A charge may be lower only if the row was recovered,
   * and is flagged as an overrun. Rows without a payer must not be charged, and only
   * balances share charges.
   */
  row_charge: () =>
    `SELECT request_id AS subject, CAST(charged_nano AS TEXT) AS is_now,
       CAST(CASE WHEN payer IS NULL THEN 0 ELSE cost_nano END AS TEXT) AS ought
     FROM usage
     WHERE charged_nano < 0 OR charged_nano > cost_nano OR payer IS NULL AND charged_nano <> 0
       OR payer IS NOT NULL AND (user_id IS NULL
         OR charged_nano < cost_nano AND ',' || COALESCE(flags, '') || ',' NOT LIKE '%,overrun,%')
       OR charged_with IS NOT NULL AND payer IS DISTINCT FROM 'balance'`,
  /** Individually charged usage rows whose entry is missing or has another amount. */
  row_entry: () =>
    `SELECT u.request_id AS subject, CAST(COALESCE(e.amount_nano, 0) AS TEXT) AS is_now,
       CAST(u.charged_nano AS TEXT) AS ought
     FROM usage_row u LEFT JOIN entry e ON e.id = 'charge:' || u.request_id
     WHERE u.charged_nano <> 0 AND u.charged_with IS NULL
       AND (e.id IS NULL OR e.kind <> 'charge' OR e.request_id IS NULL
         OR e.amount_nano <> u.charged_nano AND e.amount_nano + ${correctedNano("u.request_id")} <> u.charged_nano)`,
  /**
   * Charges of single requests that differ from their usage row in id, user, amount, payer or (for balances)
   * time, or that share a charge. A charge must have a row only as far back as rows are retained. The charge of a
   * subscription has the time of the window that paid it, which can lag far behind if the clock was set back; the time
   * of the request is therefore taken from its id.
   */
  entry_row: (mark, { rowsSinceMs }) =>
    `SELECT e.id AS subject, CAST(COALESCE(u.charged_nano, 0) AS TEXT) AS is_now,
       CAST(e.amount_nano AS TEXT) AS ought
     FROM entry e
     LEFT JOIN usage_row u ON u.request_id = e.request_id
     LEFT JOIN usage_kind kind ON kind.no = u.kind_no
     LEFT JOIN usage_id payer ON payer.no = u.user_no
     WHERE e.kind = 'charge' AND e.request_id IS NOT NULL
       AND (e.id <> 'charge:' || e.request_id OR u.charged_with IS NOT NULL
         OR u.charged_nano <> e.amount_nano AND u.charged_nano <> e.amount_nano + ${correctedNano("e.request_id")}
         OR u.request_id IS NOT NULL AND (payer.id IS DISTINCT FROM e.user_id
           OR kind.payer IS DISTINCT FROM CASE WHEN e.subscription_id IS NULL THEN 'balance' ELSE 'subscription' END
           OR e.subscription_id IS NULL AND u.at_ms <> e.at_ms)
         OR u.request_id IS NULL
           AND CASE WHEN e.subscription_id IS NULL THEN e.at_ms >= ${mark(rowsSinceMs)} ELSE e.request_id >= ${mark(rowsSinceMs === 0 ? "" : requestIdAt(rowsSinceMs + ROW_AFTER_ID_MS))} END)`,
  /** Corrections unlike their request's charge in payer or time, or with another sum than the row's. */
  correction: () =>
    `SELECT k.id AS subject, CAST(COALESCE(u.charged_nano, 0) AS TEXT) AS is_now,
       CAST(COALESCE(e.amount_nano, 0) + ${chargedNano("k")} AS TEXT) AS ought
     FROM entry k
     LEFT JOIN entry e ON e.id = 'charge:' || k.request_id
     LEFT JOIN usage_row u ON u.request_id = k.request_id
     WHERE k.${BY_HAND} AND k.kind = 'correction'
       AND (e.id IS NULL OR e.user_id IS DISTINCT FROM k.user_id
         OR e.subscription_id IS DISTINCT FROM k.subscription_id OR e.at_ms <> k.at_ms
         OR e.amount_nano + ${chargedNano("k")} < 0
         OR u.request_id IS NOT NULL AND u.charged_nano <> e.amount_nano + ${chargedNano("k")})
     ORDER BY k.id`,
  /** Rows of priced requests that have a cost and no payer: the usage could not be charged. */
  unpaid: () =>
    `SELECT u.request_id AS subject, CAST(u.charged_nano AS TEXT) AS is_now, CAST(u.cost_nano AS TEXT) AS ought
     FROM usage_row u JOIN usage_kind kind ON kind.no = u.kind_no
     WHERE kind.payer IS NULL AND kind.tariff_id IS NOT NULL AND u.cost_nano > 0 ORDER BY u.at_ms`,
  /**
   * Shared charges that differ from the sum of their usage rows, all of one user, as far back as rows are
   * retained. The time of a shared charge is that of its earliest row.
   */
  shared_charge: (mark, { rowsSinceMs }) =>
    `SELECT id AS subject, CAST(SUM(charge) AS TEXT) AS is_now, CAST(SUM(charged) AS TEXT) AS ought
     FROM (
       SELECT id, user_id, at_ms, NULL AS row_at_ms, amount_nano AS charge, 0 AS charged FROM entry
       WHERE kind = 'charge' AND request_id IS NULL
       UNION ALL
       SELECT 'charge:' || charged_with, user_id, NULL, at_ms, 0, charged_nano FROM usage
       WHERE charged_with IS NOT NULL
     ) both_sides GROUP BY id, user_id
     HAVING MAX(at_ms) IS NULL OR (MAX(at_ms) >= ${mark(rowsSinceMs)}
       AND (SUM(charge) <> SUM(charged) OR MAX(at_ms) <> MIN(row_at_ms)))`,
  /**
   * Refunds that exceed the charge of their request or go to another payer. For a shared charge, only the usage
   * row records the part of one request. If rows were removed, a missing charge may have been a shared one.
   */
  refund: (mark, { rowsSinceMs }) =>
    `SELECT r.request_id AS subject, CAST(r.back AS TEXT) AS is_now, CAST(${CHARGED_OF_REFUND} AS TEXT) AS ought
     FROM (
       SELECT request_id, user_id, subscription_id, SUM(amount_nano) AS back FROM entry
       WHERE ${BY_HAND} AND kind = 'refund' AND request_id IS NOT NULL
       GROUP BY request_id, user_id, subscription_id
     ) r
     LEFT JOIN entry e ON e.id = 'charge:' || r.request_id AND e.request_id = r.request_id
     LEFT JOIN usage_row u ON u.request_id = r.request_id AND u.charged_with IS NOT NULL
     LEFT JOIN usage_id payer ON payer.no = u.user_no
     WHERE r.back > ${CHARGED_OF_REFUND}
       AND (e.id IS NOT NULL OR u.request_id IS NOT NULL OR ${mark(rowsSinceMs)} = 0)
     ORDER BY r.request_id`,
  hold_lease: (mark, { holdsBeforeMs }) =>
    `SELECT request_id AS subject, CAST(at_ms AS TEXT) AS is_now, CAST(at_ms AS TEXT) AS ought
     FROM hold WHERE at_ms < ${mark(holdsBeforeMs)} ORDER BY at_ms`,
  /** Holds that recovery could not settle, with the reason. */
  set_aside: () =>
    `SELECT h.request_id AS subject, CAST(h.amount_nano AS TEXT) AS is_now, COALESCE(f.detail, 'unknown') AS ought
     FROM hold h LEFT JOIN billing_fault f ON f.id = 'hold ' || h.request_id
     WHERE h.process_id = '${SET_ASIDE}' ORDER BY h.at_ms`,
} as const satisfies Readonly<Record<string, Check>>;

export type LedgerCheck = keyof typeof CHECKS;
export const LEDGER_CHECKS = Object.keys(CHECKS) as readonly LedgerCheck[];

export function runCheck(db: Db, name: LedgerCheck, options: LedgerCheckOptions): Promise<Contradiction[]> {
  const { mark, values } = openStatement(db);
  const buildQuery: Check = CHECKS[name];
  return findContradictions(db, buildQuery(mark, options), values, options.limit);
}

export interface LedgerCounts {
  wallets: number;
  entries: number;
  holds: number;
  rows: number;
}

export async function countLedger(db: Db): Promise<LedgerCounts> {
  const [row] = await db.sql`
    SELECT (SELECT COUNT(*) FROM wallet) AS wallets, (SELECT COUNT(*) FROM entry) AS entries,
      (SELECT COUNT(*) FROM hold) AS holds, (SELECT COUNT(*) FROM usage_row) AS usage_rows`;
  if (row === undefined) throw new Error("A count returned no row.");
  return {
    wallets: integer(row, "wallets"),
    entries: integer(row, "entries"),
    holds: integer(row, "holds"),
    rows: integer(row, "usage_rows"),
  };
}
