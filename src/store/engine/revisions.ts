/**
 * Two counters that say "something changed": whoever holds compiled records polls them. A write bumps one in
 * its own transaction, which also makes it wait for other writers: the counters share one row.
 */

import type { Db } from "./db.ts";
import { integer } from "./row.ts";

export async function readRevisions(db: Db): Promise<{ policy: number; keys: number }> {
  const [row] = await db.sql`SELECT policy, keys FROM revision WHERE id = 1`;
  if (row === undefined) throw new Error("The revision row is missing from the database.");
  return { policy: integer(row, "policy"), keys: integer(row, "keys") };
}

/** Call it before the checks and writes it stands for: from here to the commit no other writer gets in. */
export async function bumpPolicyRevision(tx: Db): Promise<number> {
  return bumped(await tx.sql`UPDATE revision SET policy = policy + 1 WHERE id = 1 RETURNING policy AS value`);
}

export async function bumpKeyRevision(tx: Db): Promise<number> {
  return bumped(await tx.sql`UPDATE revision SET keys = keys + 1 WHERE id = 1 RETURNING keys AS value`);
}

function bumped([row]: Awaited<ReturnType<Db["sql"]>>): number {
  if (row === undefined) throw new Error("The revision row is missing from the database.");
  return integer(row, "value");
}
