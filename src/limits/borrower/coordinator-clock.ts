/** What a node knows about the time of a coordinator. The wall clocks of nodes are never used. */

import type { ClockBounds } from "../coordinator/protocol.ts";

/** The clocks of two computers differ in speed by less. */
const CLOCK_DRIFT = 0.000_5;
/** Within this time, all other processes that are in contact have called twice: they have corrected the server's clock. */
const CORRECTED_MS = 3_000;

interface ClockReading {
  /** By the server's clock. */
  readonly nowMs: number;
  /** When the call was sent and answered, by the monotonic clock of this process. */
  readonly sentMs: number;
  readonly receivedMs: number;
}

/** The coordinator's time was `nowMs` when the monotonic clock of this process was `atMs`, at the latest or the earliest. */
interface Anchor {
  readonly nowMs: number;
  readonly atMs: number;
}

export class CoordinatorClock {
  /** From these the time is extrapolated, slowly or fast. */
  #earliest: Anchor;
  #latest: Anchor;
  #aheadMs: number | null = null;
  #roundTripMs: number;
  readonly #certainFromMs: number;

  /** `beat`: the time is at least this, and `nowMs` may be wrong; null if it is right. */
  constructor({ nowMs, sentMs, receivedMs }: ClockReading, beat: number | null) {
    this.#earliest = { nowMs: beat ?? nowMs, atMs: receivedMs };
    this.#latest = { nowMs: Math.max(beat ?? nowMs, nowMs), atMs: sentMs };
    this.#certainFromMs = beat === null ? receivedMs : receivedMs + CORRECTED_MS;
    this.#roundTripMs = receivedMs - sentMs;
  }

  get roundTripMs(): number {
    return this.#roundTripMs;
  }

  /** The tightest of all readings count: otherwise the time could jump by the length of a slow call. */
  note({ nowMs, sentMs, receivedMs }: ClockReading): void {
    this.#roundTripMs = 0.8 * this.#roundTripMs + 0.2 * (receivedMs - sentMs);
    const { lo, hi } = this.computeBounds(receivedMs);
    this.#aheadMs = nowMs > hi ? nowMs - hi : null;
    if (nowMs > hi) return;
    const latest = { nowMs, atMs: sentMs };
    // The time has gone back: earlier readings mean nothing.
    const isBehind = computeLatest(latest, receivedMs) < lo;
    if (isBehind || (nowMs > lo && receivedMs >= this.#certainFromMs))
      this.#earliest = { nowMs, atMs: receivedMs };
    if (isBehind || computeLatest(latest, receivedMs) < hi) this.#latest = latest;
  }

  computeBounds(atMs: number): ClockBounds {
    const { nowMs, atMs: sinceMs } = this.#earliest;
    const lo = nowMs + (atMs - sinceMs) * (1 - CLOCK_DRIFT);
    return { lo, hi: computeLatest(this.#latest, atMs), aheadMs: this.#aheadMs };
  }
}

function computeLatest({ nowMs, atMs: sinceMs }: Anchor, atMs: number): number {
  return nowMs + (atMs - sinceMs) * (1 + CLOCK_DRIFT);
}
