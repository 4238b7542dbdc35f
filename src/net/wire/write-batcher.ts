/**
 * Batches the small writes of one turn of the event loop and sends them at its end, one after the other. The
 * receiving process then wakes up once for all of them, instead of once for each write.
 */

export interface BatchedWriter {
  /** Sends now. The bytes belong to the write batcher, so what the socket does not accept at once must be copied. */
  send(bytes: Uint8Array, from: number, to: number): void;
}

/** A longer write is not worth the copy. */
const BATCHED_WRITE_BYTES_MAX = 16 * 1024;
const BUFFER_BYTES = 1024 * 1024;
/**
 * After `SINGLE_WRITE_BATCHES_MAX` batches in a row with a single write, the next `UNBATCHED_WRITES` writes are not batched, because the
 * end-of-turn callback has a cost, too.
 */
const SINGLE_WRITE_BATCHES_MAX = 3;
const UNBATCHED_WRITES = 100;

export class WriteBatcher {
  readonly bytes = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  readonly #writers: BatchedWriter[] = [];
  /** End position of each batched write; it starts at the end of the one before it. */
  readonly #ends: number[] = [];
  /** Index of the first write that was not sent. */
  #next = 0;
  #isFlushing = false;
  #singleWriteBatches = 0;
  #unbatchedWritesLeft = 0;
  readonly #atEndOfTurn: (work: () => void) => void;
  readonly #flushAtEndOfTurn = () => this.flush();

  constructor(atEndOfTurn: (work: () => void) => void) {
    this.#atEndOfTurn = atEndOfTurn;
  }

  /** Where `length` bytes fit before `post`; -1 if they are too long or should be sent at once. */
  reserve(length: number): number {
    if (length > BATCHED_WRITE_BYTES_MAX) return -1;
    if (this.#unbatchedWritesLeft > 0 && this.#ends.length === 0) {
      this.#unbatchedWritesLeft--;
      return -1;
    }
    if (this.#end + length > BUFFER_BYTES) this.flush();
    return this.#end + length > BUFFER_BYTES ? -1 : this.#end;
  }

  /** Adds the bytes written at that position, up to `to`. */
  add(writer: BatchedWriter, to: number): void {
    if (this.#ends.length === 0) this.#atEndOfTurn(this.#flushAtEndOfTurn);
    this.#writers.push(writer);
    this.#ends.push(to);
  }

  /** Sends all batched writes in order. The buffer is not reused before the outermost call returns. */
  flush(): void {
    const isNested = this.#isFlushing;
    this.#isFlushing = true;
    while (this.#next < this.#ends.length) {
      const i = this.#next++;
      try {
        this.#writers[i]?.send(this.bytes, this.#ends[i - 1] ?? 0, this.#ends[i] ?? 0);
      } catch (thrown) {
        // Report the bug as an uncaught error. The caller that happened to flush is not affected by it.
        this.#atEndOfTurn(() => {
          throw thrown;
        });
      }
    }
    if (!isNested) this.#reset();
  }

  #reset(): void {
    this.#isFlushing = false;
    this.#countSingleWriteBatches();
    this.#writers.length = 0;
    this.#ends.length = 0;
    this.#next = 0;
  }

  #countSingleWriteBatches(): void {
    if (this.#ends.length > 0)
      this.#singleWriteBatches = this.#ends.length === 1 ? this.#singleWriteBatches + 1 : 0;
    if (this.#singleWriteBatches < SINGLE_WRITE_BATCHES_MAX) return;
    this.#singleWriteBatches = 0;
    this.#unbatchedWritesLeft = UNBATCHED_WRITES;
  }

  get #end(): number {
    return this.#ends.at(-1) ?? 0;
  }
}

export const writeBatcher = new WriteBatcher(setImmediate);
