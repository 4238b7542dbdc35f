/** Decides when a commit must reach the disk: before it is acknowledged, or within a short time after it. */

import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { errorReason } from "./store-faults.ts";

/**
 * `process`: bookings survive the death of the process. `disk`: they also survive a power failure. `store`: settlements
 * are in the database, so they also survive the loss of this machine.
 */
export type Durability = "process" | "disk" | "store";

interface DiskOptions {
  db: Pick<Db, "engine" | "flush">;
  log: Log;
  durability: Durability;
  limits: {
    /** How long a commit may exist only in the memory of the operating system. */
    flushMs: number;
    /** Delay before a failed flush is retried. */
    retryMs: number;
  };
}

export interface Disk {
  /** Null: no wait is needed. Also resolves when the flush failed, because the commit stands anyway. */
  flushCommit(): Promise<void> | null;
  /** False after a failed flush, until one succeeds. New holds must be rejected meanwhile. */
  isWorking(): boolean;
  stop(): void;
}

export function openDisk({ db, log, durability, limits }: DiskOptions): Disk {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let isWorking = true;
  let stopped = false;

  async function flush(): Promise<void> {
    try {
      await db.flush();
    } catch (error) {
      if (isWorking) log.error("flush_failed", { reason: errorReason(error) });
      isWorking = false;
      flushIn(limits.retryMs);
      return;
    }
    if (!isWorking) log.info("flush_succeeded");
    isWorking = true;
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
    flushCommit() {
      if (durability !== "process") return flush();
      if (db.engine === "sqlite") flushIn(limits.flushMs);
      return null;
    },
    isWorking: () => isWorking,
    stop() {
      stopped = true;
      if (timer !== null) clearTimeout(timer);
    },
  };
}
