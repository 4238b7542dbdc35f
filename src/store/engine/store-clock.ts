/**
 * The clock of a node that shares its database with others: wall-clock time is the database's. Windows, expiry and
 * retention then agree on all nodes, whatever the clocks of their machines show.
 */

import type { Clock } from "../../base/clock.ts";
import type { Db } from "./db.ts";
import { readServerClock } from "./dialect.ts";

/** A measurement that took longer is too inaccurate. */
const ROUND_TRIP_MS_MAX = 1_000;
/** A smaller difference may come from the round trip alone. It is ignored, so that time does not jitter. */
const STEP_MS_MIN = 50;

export class StoreClock implements Clock {
  readonly #clock: Clock;
  /** The database's time at a moment of the monotonic clock; null before the first measurement. */
  #measured: { storeMs: number; monotonicMs: number } | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Independent of the machine's wall clock after the first measurement. */
  readonly nowMs = (): number => {
    if (this.#measured === null) return this.#clock.nowMs();
    const { storeMs, monotonicMs } = this.#measured;
    return Math.round(storeMs + this.#clock.monotonicMs() - monotonicMs);
  };

  readonly monotonicMs = (): number => this.#clock.monotonicMs();

  /** Measures the database's clock. Does nothing if the database has none. */
  async synchronize(db: Db): Promise<void> {
    const sentMs = this.#clock.monotonicMs();
    const storeMs = await readServerClock(db);
    const receivedMs = this.#clock.monotonicMs();
    if (storeMs === null || receivedMs - sentMs > ROUND_TRIP_MS_MAX) return;
    const monotonicMs = (sentMs + receivedMs) / 2;
    const expectedMs = this.nowMs() - receivedMs + monotonicMs;
    if (this.#measured !== null && Math.abs(storeMs - expectedMs) < STEP_MS_MIN) return;
    this.#measured = { storeMs, monotonicMs };
  }
}
