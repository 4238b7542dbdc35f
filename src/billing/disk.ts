/** When a commit has to be on the disk: before anybody hears of it, or soon. */

import type { Log } from "../observe/log.ts";
import type { Db } from "../store/db.ts";

/** `process`: what is booked survives the process. `disk`: it survives a power cut as well. */
export type Durability = "process" | "disk";

export interface DiskOptions {
  db: Pick<Db, "engine" | "flush">;
  log: Log;
  durability: Durability;
  limits: {
    /** How long a commit may be only in the system's memory. */
    flushMs: number;
  };
}

export interface Disk {
  /** Null: nobody has to wait. */
  committed(): Promise<void> | null;
  stop(): void;
}

export function openDisk({ db, log, durability, limits }: DiskOptions): Disk {
  let timer: ReturnType<typeof setTimeout> | null = null;

  /** A disk that fails is told of; the commit is made all the same. */
  function flush(): Promise<void> {
    return db.flush().catch((error) => {
      log.error("flush_failed", { reason: error instanceof Error ? error.message : "unknown" });
    });
  }

  return {
    committed() {
      if (durability === "disk") return flush();
      if (timer !== null || db.engine !== "sqlite") return null;
      timer = setTimeout(() => {
        timer = null;
        void flush();
      }, limits.flushMs);
      timer.unref();
      return null;
    },
    stop() {
      if (timer !== null) clearTimeout(timer);
    },
  };
}
