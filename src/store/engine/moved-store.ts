/**
 * The mark of a store whose installation was moved to another one. A server on both would charge the same balances
 * twice. The mark is a table of its own: it is not part of the schema, and a copy of the store does not contain it.
 */

import { type Db, transaction } from "./db.ts";
import { hasTable } from "./dialect.ts";
import { lockMigrations } from "./migration-lock.ts";
import { integer, text } from "./row.ts";

export const MOVE_TABLE = "moved_store";
/** Exists in the target of a move until the copy is complete. */
export const COPY_PROGRESS_TABLE = "migrate_store_progress";
const INCOMPLETE_COPY = "The copy of another database into this one is not complete.";

/** `moving`: the copy is not complete. `moved`: the other store is the installation. */
export interface StoreMove {
  readonly state: "moving" | "moved";
  /** The other store, without a password. */
  readonly target: string;
  readonly atMs: number;
}

/** The installation was moved to another store, or a move has begun. */
export class StoreMoved extends Error {
  override readonly name = "StoreMoved";
  /** Null for the target of a move, while the copy is not complete. */
  readonly move: StoreMove | null;
  constructor(move: StoreMove | null) {
    super(move === null ? INCOMPLETE_COPY : describeMove(move));
    this.move = move;
  }
}

export function describeMove({ state, target, atMs }: StoreMove): string {
  const at = new Date(atMs).toISOString().slice(0, 16).replace("T", " ");
  return state === "moved"
    ? `This database was moved to ${target} on ${at} UTC and is no longer used.`
    : `A move of this database to ${target} began on ${at} UTC and is not complete.`;
}

/** Null for a store that did not move. */
export async function readMove(db: Db): Promise<StoreMove | null> {
  if (!(await hasTable(db, MOVE_TABLE))) return null;
  const [row] = await db.sql`SELECT state, target, at_ms FROM moved_store`;
  return row === undefined
    ? null
    : {
        state: text(row, "state") === "moved" ? "moved" : "moving",
        target: text(row, "target"),
        atMs: integer(row, "at_ms"),
      };
}

/** Null for a store in use. */
export async function findMove(db: Db): Promise<StoreMoved | null> {
  const move = await readMove(db);
  return move !== null || (await hasTable(db, COPY_PROGRESS_TABLE)) ? new StoreMoved(move) : null;
}

/** Throws `StoreMoved` if no server may run on the store and no command may change it. */
export async function requireUnmoved(db: Db): Promise<void> {
  const moved = await findMove(db);
  if (moved !== null) throw moved;
}

/** False if a process is registered. Afterwards none can register: both take the same lock. */
export function markMove(db: Db, move: StoreMove): Promise<boolean> {
  return transaction(db, async (tx) => {
    await lockMigrations(tx);
    const processes = await tx.sql`SELECT id FROM process LIMIT 1`;
    if (processes.length > 0) return false;
    await tx.sql.script(
      `CREATE TABLE IF NOT EXISTS ${MOVE_TABLE} (id BIGINT PRIMARY KEY, state TEXT NOT NULL, target TEXT NOT NULL, at_ms BIGINT NOT NULL)`,
    );
    await tx.sql`DELETE FROM moved_store`;
    await tx.sql`
      INSERT INTO moved_store (id, state, target, at_ms) VALUES (1, ${move.state}, ${move.target}, ${move.atMs})`;
    return true;
  });
}

export async function clearMove(db: Db): Promise<void> {
  await db.sql.script(`DROP TABLE IF EXISTS ${MOVE_TABLE}`);
}
