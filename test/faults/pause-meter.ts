/**
 * Measures for how long this process got no turn. On a machine without free CPU time the gateway pauses as well, and a
 * deadline then shows the machine, not the gateway.
 */

const SAMPLE_MS = 10;

export class PauseMeter {
  readonly #timer: ReturnType<typeof setInterval>;
  #lastMs = performance.now();
  #longestMs = 0;

  constructor() {
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS);
  }

  /** The longest pause since the last call. */
  takeLongestMs(): number {
    this.#sample();
    const longestMs = this.#longestMs;
    this.#longestMs = 0;
    return longestMs;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #sample(): void {
    const nowMs = performance.now();
    this.#longestMs = Math.max(this.#longestMs, nowMs - this.#lastMs - SAMPLE_MS);
    this.#lastMs = nowMs;
  }
}
