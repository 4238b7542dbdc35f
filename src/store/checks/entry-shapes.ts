/** Checks each ledger entry against the shape of its kind, and redemptions against their codes. */

import { BY_HAND } from "../money/entries.ts";
import { ENTRY_KINDS, type EntryKind, REVENUE } from "../money/ledger.ts";

const USER = "'user:' || e.user_id";
/** The account book that pays a charge and receives its refund. */
const PAYER = `COALESCE('subscription:' || e.subscription_id, ${USER})`;
const NO_SUBSCRIPTION_OR_REQUEST = "e.subscription_id IS NULL AND e.request_id IS NULL";

const REQUEST_BOOKS = `(e.debit = ${PAYER} AND e.credit = '${REVENUE}' OR e.debit = '${REVENUE}' AND e.credit = ${PAYER})`;

/** For each kind of entry: its debit and credit books and the ids that it requires. All values are SQL. */
const ENTRY_SHAPES: Readonly<Record<EntryKind, string>> = {
  charge: `e.debit = ${PAYER} AND e.credit = '${REVENUE}' AND SUBSTR(e.id, 1, 7) = 'charge:'
    AND (e.subscription_id IS NULL OR e.request_id IS NOT NULL)`,
  refund: `e.debit = 'refund' AND e.credit = ${PAYER} AND e.request_id IS NOT NULL`,
  topup: `SUBSTR(e.debit, 1, 6) = 'topup:' AND e.credit = ${USER} AND ${NO_SUBSCRIPTION_OR_REQUEST}`,
  adjust: `(e.debit = 'adjust' AND e.credit = ${USER} OR e.debit = ${USER} AND e.credit = 'adjust') AND ${NO_SUBSCRIPTION_OR_REQUEST}`,
  opening: `e.id = 'opening:' || e.user_id AND e.debit = 'adjust' AND e.credit = ${USER} AND ${NO_SUBSCRIPTION_OR_REQUEST}`,
  redeem: `SUBSTR(e.id, 1, 7) = 'redeem:' AND e.debit = 'promo' AND e.credit = ${USER} AND ${NO_SUBSCRIPTION_OR_REQUEST}`,
  correction: `e.id = 'correction:' || e.request_id AND ${REQUEST_BOOKS}`,
};

const SHAPE_CASES = ENTRY_KINDS.map((kind) => `WHEN '${kind}' THEN ${ENTRY_SHAPES[kind]}`).join("\n");

export const WRONG_ENTRIES = `SELECT e.id AS subject, e.debit || ' to ' || e.credit AS is_now, e.kind AS ought
     FROM entry e LEFT JOIN subscription s ON s.id = e.subscription_id
     WHERE CASE WHEN e.user_id IS NOT NULL AND (e.subscription_id IS NULL OR s.user_id = e.user_id)
       AND CASE e.kind ${SHAPE_CASES} END THEN 0 ELSE 1 END = 1`;

export const WRONG_REDEMPTIONS = `SELECT subject, is_now, ought FROM (
       SELECT 'redeem:' || c.digest AS subject, CAST(COALESCE(e.amount_nano, 0) AS TEXT) AS is_now,
         CAST(b.amount_nano AS TEXT) AS ought
       FROM redeem_code c JOIN redeem_batch b ON b.name = c.batch LEFT JOIN entry e ON e.id = 'redeem:' || c.digest
       WHERE c.redeemed_at_ms IS NOT NULL AND b.amount_nano IS NOT NULL
         AND (e.id IS NULL OR e.kind <> 'redeem' OR e.amount_nano <> b.amount_nano
           OR e.user_id IS DISTINCT FROM c.redeemed_by OR e.at_ms <> c.redeemed_at_ms)
       UNION ALL
       SELECT e.id, CAST(e.amount_nano AS TEXT), '0'
       FROM entry e LEFT JOIN redeem_code c ON c.digest = SUBSTR(e.id, 8)
         LEFT JOIN redeem_batch b ON b.name = c.batch
       WHERE e.${BY_HAND} AND e.kind = 'redeem' AND (c.redeemed_at_ms IS NULL OR b.amount_nano IS NULL)
     ) either ORDER BY subject`;
