/**
 * The spans that wait for export, as the bytes of the messages that will carry them. Spans are copied into the message
 * at once, so nothing of a request stays in memory. The queue has a fixed number of messages; when it is full, the
 * oldest message is dropped: a collector that is down must not cost memory.
 */

export interface QueueLimits {
  /** The spans of one message. */
  readonly batchSpansMax: number;
  readonly batchBytesMax: number;
  /** The messages that wait, besides the one that is being filled. */
  readonly batchesMax: number;
}

/** The parts of a message before and after its spans. */
export interface MessageFrame {
  readonly start: string;
  readonly end: string;
}

/** A message with at least one span. */
export class SpanBatch {
  spans = 0;
  #bytes: Buffer;
  #length = 0;
  readonly #end: string;

  constructor(bytes: Buffer, { start, end }: MessageFrame) {
    this.#bytes = bytes;
    this.#end = end;
    this.#length = bytes.write(start, 0, "latin1");
  }

  /** Returns false if the spans do not fit. `text`: JSON objects in ASCII, separated by commas. */
  add(text: string, spans: number): boolean {
    const bytes = this.#bytes;
    const needed = text.length + 1 + this.#end.length;
    if (this.#length + needed > bytes.length) return false;
    if (this.spans > 0) bytes[this.#length++] = COMMA;
    this.#length += bytes.write(text, this.#length, "latin1");
    this.spans += spans;
    return true;
  }

  /** The bytes of the whole message. Nothing can be added any more. */
  finish(): Uint8Array {
    this.#length += this.#bytes.write(this.#end, this.#length, "latin1");
    return this.#bytes.subarray(0, this.#length);
  }

  /** Gives the memory back, for another batch. */
  release(): Buffer {
    const bytes = this.#bytes;
    this.#bytes = NO_BYTES;
    return bytes;
  }
}

const COMMA = 0x2c;
const NO_BYTES = Buffer.alloc(0);

export class SpanQueue {
  readonly #limits: QueueLimits;
  readonly #buildFrame: () => MessageFrame;
  readonly #waiting: SpanBatch[] = [];
  #current: SpanBatch | null = null;
  /** The memory of the last exported batch. */
  #spare: Buffer | null = null;
  #frame: MessageFrame | null = null;

  /** `buildFrame` is called when the first batch begins. */
  constructor(limits: QueueLimits, buildFrame: () => MessageFrame) {
    this.#limits = limits;
    this.#buildFrame = buildFrame;
  }

  get isEmpty(): boolean {
    return this.#current === null && this.#waiting.length === 0;
  }

  /** Whether a batch is complete. */
  get hasFullBatch(): boolean {
    return this.#waiting.length > 0;
  }

  /** Returns the number of spans that were dropped: older ones, or these if they are too large for a message. */
  add(text: string, spans: number): number {
    const { batchSpansMax } = this.#limits;
    let dropped = 0;
    this.#current ??= this.#openBatch();
    if (!this.#current.add(text, spans)) {
      dropped += this.#closeCurrent(this.#current);
      this.#current = this.#openBatch();
      if (!this.#current.add(text, spans)) return dropped + spans;
    }
    return this.#current.spans < batchSpansMax ? dropped : dropped + this.#closeCurrent(this.#current);
  }

  /** Removes the oldest batch, full or not. */
  take(): SpanBatch | null {
    const oldest = this.#waiting.shift();
    if (oldest !== undefined) return oldest;
    const current = this.#current;
    this.#current = null;
    return current === null || current.spans === 0 ? null : current;
  }

  /** Reuses the memory of a batch that was sent or dropped. */
  recycle(batch: SpanBatch): void {
    this.#spare = batch.release();
  }

  #openBatch(): SpanBatch {
    const bytes = this.#spare ?? Buffer.allocUnsafeSlow(this.#limits.batchBytesMax);
    this.#spare = null;
    this.#frame ??= this.#buildFrame();
    return new SpanBatch(bytes, this.#frame);
  }

  #closeCurrent(current: SpanBatch): number {
    this.#current = null;
    if (current.spans === 0) return 0;
    this.#waiting.push(current);
    if (this.#waiting.length <= this.#limits.batchesMax) return 0;
    const oldest = this.#waiting.shift();
    if (oldest === undefined) return 0;
    this.recycle(oldest);
    return oldest.spans;
  }
}
