/**
 * Decides whether the wallet reservations of this process may be used. Other processes take this one for dead when its
 * heartbeat stays unchanged for long. So a process that was stopped, or cannot reach the database, must not use its
 * reservations any more before the others may recover them.
 */

import type { Log } from "../../observe/log.ts";
import { errorReason } from "../engine/store-faults.ts";

interface HeartbeatAgeOptions {
  log: Log;
  /** While the last heartbeat is older, reservations are not used. */
  heartbeatAgeMaxMs: number;
  /** Checks that the reservations still belong to this process, and recovers what is on them if not. */
  verify(): Promise<void>;
}

export class HeartbeatAge {
  readonly #options: HeartbeatAgeOptions;
  /** When the last heartbeat was sent that the database has; null if this process sends none. */
  #sentAtMs: number | null = null;

  constructor(options: HeartbeatAgeOptions) {
    this.#options = options;
  }

  isFresh(nowMs: number): boolean {
    return this.#sentAtMs === null || nowMs - this.#sentAtMs < this.#options.heartbeatAgeMaxMs;
  }

  /** After a gap, the reservations are used again when the database has confirmed them. */
  record(sentAtMs: number): void {
    if (this.isFresh(sentAtMs)) {
      this.#sentAtMs = sentAtMs;
      return;
    }
    const { log, verify } = this.#options;
    verify().then(
      () => {
        this.#sentAtMs = sentAtMs;
      },
      (error: unknown) => log.error("wallet_reservation_failed", { reason: errorReason(error) }),
    );
  }
}
