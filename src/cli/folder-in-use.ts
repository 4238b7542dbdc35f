/** Locks the data folder for a server, or for a command that must not run beside one. */

import { mkdirSync } from "node:fs";
import type { Settings } from "../config/installation/environment.ts";
import { parseSqlitePath } from "../store/engine/db.ts";
import { type FolderLock, LockHeld, lockFolder } from "../store/engine/folder-lock.ts";
import { Failure } from "./command.ts";
import { storeFailure } from "./store-access.ts";

export function lockDataFolder(settings: Settings): FolderLock {
  try {
    mkdirSync(settings.nodeDir, { recursive: true, mode: 0o700 });
    return lockFolder(settings.nodeDir, parseSqlitePath(settings.databaseUrl));
  } catch (error) {
    if (!(error instanceof LockHeld)) throw new Failure(...storeFailure(settings, error), 1);
    const { path, holder } = error;
    throw new FolderInUse(
      `${path} is in use by ${holder === null ? "another server" : `process ${holder.pid} on ${holder.host}`}.`,
    );
  }
}

class FolderInUse extends Failure {
  constructor(message: string) {
    super(message, "Stop that server first, or use another data folder and database: --data FOLDER", 1);
  }
}

const RETRY_MS = 100;

/** For one of several: a process of a killed supervisor still finishes its requests in the folder. */
export async function waitForDataFolder(settings: Settings, withinMs: number): Promise<FolderLock> {
  const untilMs = performance.now() + withinMs;
  for (;;) {
    try {
      return lockDataFolder(settings);
    } catch (error) {
      if (!(error instanceof FolderInUse) || performance.now() > untilMs) throw error;
    }
    await Bun.sleep(RETRY_MS);
  }
}
