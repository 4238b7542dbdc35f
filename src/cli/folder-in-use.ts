/** Locks the data folder for a command that must not run beside a server. */

import { mkdirSync } from "node:fs";
import type { Settings } from "../config/installation/environment.ts";
import { parseSqlitePath } from "../store/engine/db.ts";
import { type FolderLock, LockHeld, lockFolder } from "../store/engine/folder-lock.ts";
import { Failure } from "./command.ts";
import { storeFailure } from "./store-access.ts";

export function lockDataFolder(settings: Settings): FolderLock {
  try {
    mkdirSync(settings.dataDir, { recursive: true, mode: 0o700 });
    return lockFolder(settings.dataDir, parseSqlitePath(settings.databaseUrl));
  } catch (error) {
    if (!(error instanceof LockHeld)) throw new Failure(...storeFailure(settings, error), 1);
    const { path, holder } = error;
    throw new Failure(
      `${path} is in use by ${holder === null ? "another server" : `process ${holder.pid} on ${holder.host}`}.`,
      "Stop that server first, or use another data folder and database: --data FOLDER",
      1,
    );
  }
}
