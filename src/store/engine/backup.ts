/** Backup of a SQLite store. */

import { closeSync, openSync, rmSync, statSync } from "node:fs";
import type { Db } from "./db.ts";

/** PostgreSQL has its own backup tools. */
export function canCopyStore(db: Pick<Db, "engine">): boolean {
  return db.engine === "sqlite";
}

/** Writes a complete copy of one moment, also during writes. Only where `canCopyStore`. */
export async function copyStore(db: Db, path: string): Promise<{ bytes: number }> {
  // Creates the file exclusively before the copy: only its owner may ever read it, and it must not replace an older
  // backup.
  closeSync(openSync(path, "wx", 0o600));
  try {
    await db.sql`VACUUM INTO ${path}`;
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  }
  return { bytes: statSync(path).size };
}
