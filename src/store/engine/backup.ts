import { closeSync, openSync, rmSync, statSync } from "node:fs";
import type { Db } from "./db.ts";

/** A whole copy as of one moment, also while others write. For SQLite: PostgreSQL brings tools of its own. */
export async function copyStore(db: Db, path: string): Promise<{ bytes: number }> {
  // The file is made first, and exclusively: nobody else may ever read it, and it must not replace an older backup.
  closeSync(openSync(path, "wx", 0o600));
  try {
    await db.sql`VACUUM INTO ${path}`;
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  }
  return { bytes: statSync(path).size };
}
