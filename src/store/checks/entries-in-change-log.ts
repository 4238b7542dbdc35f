/**
 * Money that people moved stands in the ledger and in the log of changes, whose lines cannot be changed one by one: an
 * entry that was changed, removed or put in together with its balance contradicts the log.
 */

import { usdText } from "../../money/nano.ts";
import type { FieldChange } from "../../records.ts";
import { listChanges } from "../change-log/change-log.ts";
import type { Db, Engine } from "../engine/db.ts";
import { BY_HAND } from "../money/entries.ts";
import { findEntry, type Transfer } from "../money/ledger.ts";
import { type Contradiction, findContradictions } from "./ledger.ts";

const LINES_AT_ONCE = 500;

/** What the log says of an entry that somebody asked for by hand. */
export function fieldsOfEntry({ id, credit, amountNano, reason, requestId }: Transfer): FieldChange[] {
  const told = (field: string, to: string | null) => ({ field, from: null, to });
  return [
    told("amount", `${credit === "adjust" ? "-" : ""}$${usdText(amountNano)}`),
    told("reason", reason),
    ...(requestId === null ? [] : [told("request", requestId)]),
    told("entry", id),
  ];
}

const textOf = (fields: readonly FieldChange[]) =>
  fields.map(({ field, to }) => `${field} ${to ?? "-"}`).join(", ");

/** Each entry that the log tells of is there, and is what it tells. Of a log whose chain is whole. */
export async function findWrongLoggedEntries(db: Db, limit: number): Promise<Contradiction[]> {
  const found: Contradiction[] = [];
  let after: number | null = null;
  do {
    const page: Awaited<ReturnType<typeof listChanges>> = await listChanges(
      db,
      { action: "wallet." },
      { after, limit: LINES_AT_ONCE },
    );
    for (const { changes } of page.rows) {
      const id = changes.find(({ field }) => field === "entry")?.to;
      if (id === undefined || id === null || found.length >= limit) continue;
      const entry = await findEntry(db, id);
      const is = entry === null ? "nothing" : textOf(fieldsOfEntry(entry));
      if (is !== textOf(changes)) found.push({ subject: id, is, ought: textOf(changes) });
    }
    after = page.next;
  } while (after !== null && found.length < limit);
  return found;
}

/** The entries that lines of the log name. */
const NAMED: Readonly<Record<Engine, string>> = {
  sqlite: `SELECT json_extract(field.value, '$.to') AS id, audit.at_ms FROM audit, json_each(audit.changes) field
    WHERE audit.action LIKE 'wallet.%' AND json_extract(field.value, '$.field') = 'entry'`,
  postgres: `SELECT field.value ->> 'to' AS id, audit.at_ms
    FROM audit, json_array_elements(CAST(audit.changes AS JSON)) field
    WHERE audit.action LIKE 'wallet.%' AND field.value ->> 'field' = 'entry'`,
};

/** Each entry by hand is told of in the log, from the first one on that is. Of a log whose chain is whole. */
export function findUnloggedEntries(db: Db, limit: number): Promise<Contradiction[]> {
  return findContradictions(
    db,
    `WITH named AS (${NAMED[db.engine]})
     SELECT id AS subject, CAST(amount_nano AS TEXT) AS is_now, kind AS ought FROM entry
     WHERE ${BY_HAND} AND kind IN ('topup', 'adjust', 'refund') AND at_ms > (SELECT MIN(at_ms) FROM named)
       AND id NOT IN (SELECT id FROM named WHERE id IS NOT NULL) ORDER BY id`,
    [],
    limit,
  );
}
