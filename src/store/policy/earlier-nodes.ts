/** Records that nodes of an earlier version would not understand. */

import { StoreConflict } from "../engine/conflict.ts";
import type { Db } from "../engine/db.ts";
import { findProcessesBefore } from "../engine/migrate.ts";

/** Rejects a record while a node runs that does not know this schema. `what` names the record. */
export async function rejectEarlierNodes(tx: Db, schema: number, what: string): Promise<void> {
  const [earlier] = await findProcessesBefore(tx, schema);
  if (earlier === undefined) return;
  throw new StoreConflict(
    "referenced",
    `${what} cannot be saved while the node ${earlier} runs an earlier version, which would ignore it. Upgrade or stop the node first.`,
  );
}

/** The migration that adds fallback steps. A program that does not know it would serve without them. */
const SCHEMA_WITH_FALLBACK = 12;

export async function rejectUnknownFallback(
  tx: Db,
  what: string,
  { fallback }: { readonly fallback: readonly unknown[] },
): Promise<void> {
  if (fallback.length > 0) await rejectEarlierNodes(tx, SCHEMA_WITH_FALLBACK, `The fallback of ${what}`);
}
