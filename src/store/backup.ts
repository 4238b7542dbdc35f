import { closeSync, openSync, rmSync, statSync } from "node:fs";
import type { Db } from "./db.ts";

/** A whole copy as of one moment, also while others write. For SQLite: PostgreSQL brings tools of its own. */
export async function copyStore(db: Db, path: string): Promise<{ bytes: number }> {
  // Made first, and only by us: it must not be readable by others at any moment, nor replace an older backup.
  closeSync(openSync(path, "wx", 0o600));
  try {
    await db.sql`VACUUM INTO ${path}`;
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  }
  return { bytes: statSync(path).size };
}
