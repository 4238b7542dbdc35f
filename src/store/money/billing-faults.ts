/** Billing faults that no other table shows. */

import type { Db } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";

const toFault = rowReader({
  /** Identifies what is faulty, such as a file name. Each id is recorded once. */
  id: text,
  atMs: integer,
  kind: text,
  /** One sentence. */
  detail: text,
});
type BillingFaultRecord = ReturnType<typeof toFault>;

export async function recordBillingFault(
  db: Db,
  { id, atMs, kind, detail }: BillingFaultRecord,
): Promise<void> {
  await db.sql`
    INSERT INTO billing_fault (id, at_ms, kind, detail) VALUES (${id}, ${atMs}, ${kind}, ${detail})
    ON CONFLICT (id) DO NOTHING`;
}

/** Newest first. */
export async function listBillingFaults(db: Db, limit: number): Promise<BillingFaultRecord[]> {
  const rows = await db.sql`
    SELECT id, at_ms, kind, detail FROM billing_fault ORDER BY at_ms DESC, id LIMIT ${limit}`;
  return rows.map(toFault);
}
