/**
 * Reconciliation check of the manual ledger entries against the audit log. Rows of the audit log cannot be altered
 * one by one, so an entry that was changed, deleted or inserted together with its balance contradicts the log.
 */

import { usdText } from "../../money/nano.ts";
import type { FieldChange } from "../../records/policy.ts";
import { listChanges } from "../audit-log/audit-log.ts";
import type { Db } from "../engine/db.ts";
import { jsonElements, jsonMember } from "../engine/dialect.ts";
import { BY_HAND } from "../money/entries.ts";
import { findEntry, type Transfer } from "../money/ledger.ts";
import { type Contradiction, findContradictions } from "./ledger.ts";

const PAGE_ROWS = 500;

/** The fields in the audit log of a ledger entry that a person created. */
export function loggedEntryFields({ id, credit, amountNano, reason, requestId }: Transfer): FieldChange[] {
  const addedField = (field: string, to: string | null) => ({ field, from: null, to });
  return [
    addedField("amount", `${credit === "adjust" ? "-" : ""}$${usdText(amountNano)}`),
    addedField("reason", reason),
    ...(requestId === null ? [] : [addedField("request", requestId)]),
    addedField("entry", id),
  ];
}

const formatFields = (fields: readonly FieldChange[]) =>
  fields.map(({ field, to }) => `${field} ${to ?? "-"}`).join(", ");

/** Finds rows of the audit log whose ledger entry is missing or different. Requires an audit log with an unbroken chain. */
export async function findWrongLoggedEntries(db: Db, limit: number): Promise<Contradiction[]> {
  const found: Contradiction[] = [];
  let after: number | null = null;
  do {
    const page: Awaited<ReturnType<typeof listChanges>> = await listChanges(
      db,
      { action: "wallet." },
      { after, limit: PAGE_ROWS },
    );
    for (const { changes } of page.rows) {
      const id = changes.find(({ field }) => field === "entry")?.to;
      if (id === undefined || id === null || found.length >= limit) continue;
      const entry = await findEntry(db, id);
      const is = entry === null ? "nothing" : formatFields(loggedEntryFields(entry));
      if (is !== formatFields(changes)) found.push({ subject: id, is, ought: formatFields(changes) });
    }
    after = page.next;
  } while (after !== null && found.length < limit);
  return found;
}

const selectLoggedEntries = (db: Db): string =>
  `SELECT ${jsonMember(db, "field", "to")} AS id, audit.at_ms FROM audit, ${jsonElements(db, "audit.changes", "field")}
   WHERE audit.action LIKE 'wallet.%' AND ${jsonMember(db, "field", "field")} = 'entry'`;

/**
 * Finds manual ledger entries without a row of the audit log, after the first entry that the log mentions. Requires an
 * audit log with an unbroken chain.
 */
export function findUnloggedEntries(db: Db, limit: number): Promise<Contradiction[]> {
  return findContradictions(
    db,
    `WITH named AS (${selectLoggedEntries(db)})
     SELECT id AS subject, CAST(amount_nano AS TEXT) AS is_now, kind AS ought FROM entry
     WHERE ${BY_HAND} AND kind IN ('topup', 'adjust', 'refund') AND at_ms > (SELECT MIN(at_ms) FROM named)
       AND id NOT IN (SELECT id FROM named WHERE id IS NOT NULL) ORDER BY id`,
    [],
    limit,
  );
}
