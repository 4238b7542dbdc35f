/** Measures whether paid requests arrive often enough for write-behind billing to pay off. */

const SPAN_MS = 100;

export class LoadMeter {
  readonly #busyHolds: number;
  #spanStartMs = 0;
  #spanHolds = 0;
  #lastSpanHolds = 0;

  /** `busyHolds`: the number of holds within 100 ms from which the gateway is under load. */
  constructor(busyHolds: number) {
    this.#busyHolds = busyHolds;
  }

  /** Counts a hold. Returns whether the gateway is under load. */
  countHold(nowMs: number): boolean {
    const elapsedMs = nowMs - this.#spanStartMs;
    if (elapsedMs >= SPAN_MS) {
      this.#lastSpanHolds = elapsedMs < 2 * SPAN_MS ? this.#spanHolds : 0;
      this.#spanHolds = 0;
      this.#spanStartMs = nowMs;
    }
    this.#spanHolds++;
    return Math.max(this.#spanHolds, this.#lastSpanHolds) >= this.#busyHolds;
  }
}
