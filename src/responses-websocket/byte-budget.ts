/** Limits the bytes of clients that are held in memory, per key and in total. */

export interface ByteLimits {
  readonly bytesMax: number;
  readonly keyBytesMax: number;
}

export class ByteBudget {
  readonly #limits: ByteLimits;
  readonly #byKey = new Map<string, number>();
  #bytes = 0;

  constructor(limits: ByteLimits) {
    this.#limits = limits;
  }

  fits(key: string, bytes: number): boolean {
    return (
      this.#bytes + bytes <= this.#limits.bytesMax && this.#usedBytes(key) + bytes <= this.#limits.keyBytesMax
    );
  }

  take(key: string, bytes: number): void {
    this.#bytes += bytes;
    this.#byKey.set(key, this.#usedBytes(key) + bytes);
  }

  release(key: string, bytes: number): void {
    this.#bytes -= bytes;
    const remainingBytes = this.#usedBytes(key) - bytes;
    if (remainingBytes > 0) this.#byKey.set(key, remainingBytes);
    else this.#byKey.delete(key);
  }

  #usedBytes(key: string): number {
    return this.#byKey.get(key) ?? 0;
  }
}
