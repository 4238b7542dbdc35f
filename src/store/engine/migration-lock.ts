/** The lock that orders migrations, moves of a store, and the registration of processes. */

import type { Db } from "./db.ts";
import { isSharedServer } from "./dialect.ts";

/** Id of PostgreSQL's advisory lock for migrations; any fixed number. */
const ADVISORY_LOCK_ID = 6_034_270_118;

/** One process migrates at a time. The others wait for it, however long it takes. */
export async function lockMigrations(tx: Db): Promise<void> {
  if (!isSharedServer(tx)) return;
  await tx.sql.script(
    "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0",
  );
  await tx.sql`SELECT pg_advisory_xact_lock(${ADVISORY_LOCK_ID})`;
}

/** Until the commit no migration runs, and no move begins. */
export async function lockAgainstMigrations(tx: Db): Promise<void> {
  if (isSharedServer(tx)) await tx.sql`SELECT pg_advisory_xact_lock_shared(${ADVISORY_LOCK_ID})`;
}
