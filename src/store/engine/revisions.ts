/**
 * Two revision counters, polled by every component that holds compiled records. A write increases one of them in its
 * own transaction. Both counters share one row, so writers also wait for each other.
 */

import type { Db } from "./db.ts";
import { notifyNodes } from "./notify.ts";
import { integer } from "./row.ts";

export async function readRevisions(db: Db): Promise<{ policy: number; keys: number }> {
  const [row] = await db.sql`SELECT policy, keys FROM revision WHERE id = 1`;
  if (row === undefined) throw new Error("The revision row is missing from the database.");
  return { policy: integer(row, "policy"), keys: integer(row, "keys") };
}

/** Call it before the checks and writes that it covers: until the commit, other writers wait. */
export async function bumpPolicyRevision(tx: Db): Promise<number> {
  const bumped = await tx.sql`UPDATE revision SET policy = policy + 1 WHERE id = 1 RETURNING policy AS value`;
  await notifyNodes(tx, "policy");
  return readBumped(bumped);
}

export async function bumpKeyRevision(tx: Db): Promise<number> {
  const bumped = await tx.sql`UPDATE revision SET keys = keys + 1 WHERE id = 1 RETURNING keys AS value`;
  await notifyNodes(tx, "policy");
  return readBumped(bumped);
}

function readBumped([row]: Awaited<ReturnType<Db["sql"]>>): number {
  if (row === undefined) throw new Error("The revision row is missing from the database.");
  return integer(row, "value");
}
