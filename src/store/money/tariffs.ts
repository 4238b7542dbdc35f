/** Tariffs that requests were charged by. They are kept as long as usage rows refer to them. */

import type { Db } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { text } from "../engine/row.ts";

/** The id is a digest of the terms, so an existing row is identical. */
export async function insertTariffs(
  tx: Db,
  tariffs: readonly { id: string; terms: string }[],
): Promise<void> {
  const rows = tariffs.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map(({ id, terms }) => [id, terms]);
  await insertRows(tx, "tariff", ["id", "terms"], rows, "ON CONFLICT (id) DO NOTHING");
}

export async function readTerms(db: Db, tariffId: string): Promise<string | null> {
  const [row] = await db.sql`SELECT terms FROM tariff WHERE id = ${tariffId}`;
  return row === undefined ? null : text(row, "terms");
}
