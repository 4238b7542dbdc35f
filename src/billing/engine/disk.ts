/** When a commit has to be on the disk: before anybody hears of it, or soon. */

import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { errorReason } from "./store-faults.ts";

/** `process`: what is booked survives the process. `disk`: it survives a power cut as well. */
export type Durability = "process" | "disk";

export interface DiskOptions {
  db: Pick<Db, "engine" | "flush">;
  log: Log;
  durability: Durability;
  limits: {
    /** How long a commit may be only in the system's memory. */
    flushMs: number;
    /** How long after a flush that failed the next one is tried. */
    retryMs: number;
  };
}

export interface Disk {
  /** Null: nobody has to wait. Also resolves when the flush failed, because the commit is made all the same. */
  committed(): Promise<void> | null;
  /** False after a flush that failed, until one succeeds: nothing new should be promised meanwhile. */
  isWell(): boolean;
  stop(): void;
}

export function openDisk({ db, log, durability, limits }: DiskOptions): Disk {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let isWell = true;
  let stopped = false;

  async function flush(): Promise<void> {
    try {
      await db.flush();
    } catch (error) {
      if (isWell) log.error("flush_failed", { reason: errorReason(error) });
      isWell = false;
      flushIn(limits.retryMs);
      return;
    }
    if (!isWell) log.info("flush_succeeded");
    isWell = true;
  }

  function flushIn(ms: number): void {
    if (timer !== null || stopped) return;
    timer = setTimeout(() => {
      timer = null;
      void flush();
    }, ms);
    timer.unref();
  }

  return {
    committed() {
      if (durability === "disk") return flush();
      if (db.engine === "sqlite") flushIn(limits.flushMs);
      return null;
    },
    isWell: () => isWell,
    stop() {
      stopped = true;
      if (timer !== null) clearTimeout(timer);
    },
  };
}
