/** Limits the bytes that many connections occupy together. */

/** A connection that occupies memory beyond its own object. */
export interface BytesHolder {
  /** Frees what it occupies, at once. */
  yieldBytes(): void;
}

/**
 * One budget for all connections of one kind. When it is exceeded, connections must free their memory in the order in
 * which they began to occupy some. A legitimate head or body is complete long before it is the oldest.
 */
export class ConnectionBytes {
  #total = 0;
  readonly #bytesMax: number;
  readonly #holders = new Set<BytesHolder>();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get occupiedBytes(): number {
    return this.#total;
  }

  /** Records that a holder with `before` bytes now has `after` bytes. */
  change(holder: BytesHolder, before: number, after: number): void {
    this.#total += after - before;
    if (after === 0) this.#holders.delete(holder);
    else if (before === 0) this.#holders.add(holder);
    while (this.#total > this.#bytesMax) {
      const [oldest] = this.#holders;
      if (oldest === undefined) return;
      this.#holders.delete(oldest);
      oldest.yieldBytes();
    }
  }
}
