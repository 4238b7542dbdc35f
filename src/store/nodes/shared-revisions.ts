/** Revisions of the tables by which nodes share facts. */

import type { Db } from "../engine/db.ts";
import { integer } from "../engine/row.ts";

type SharedTable = "account_fact" | "throttle_use";

export async function readSharedRevision(db: Db, table: SharedTable): Promise<number> {
  const [row] = await db.sql`SELECT revision FROM shared_revision WHERE name = ${table}`;
  return row === undefined ? 0 : integer(row, "revision");
}

/** Until the commit, other writers of the table wait, so revisions are visible in their order. */
export async function bumpSharedRevision(tx: Db, table: SharedTable): Promise<number> {
  const [row] = await tx.sql`
    UPDATE shared_revision SET revision = revision + 1 WHERE name = ${table} RETURNING revision`;
  if (row === undefined) throw new Error("The row of a shared revision is missing from the database.");
  return integer(row, "revision");
}
