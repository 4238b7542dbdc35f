/**
 * The spans that wait for export, as the bytes of the messages that will carry them. Spans are written into the message
 * at once, so nothing of a request stays in memory. The queue has a fixed number of messages; when it is full, the
 * oldest message is dropped: a collector that is down must not cost memory.
 */

import { toBytes } from "./span-text.ts";
import { type SpanSource, SpanWriter } from "./span-writer.ts";

export interface QueueLimits {
  /** The spans of one message. */
  readonly batchSpansMax: number;
  readonly batchBytesMax: number;
  /** The messages that wait, besides the one that is being filled. */
  readonly batchesMax: number;
}

/** The parts of a message before and after its spans, in ASCII. */
export interface MessageFrame {
  readonly start: string;
  readonly end: string;
}

/** A message with at least one span. */
export class SpanBatch {
  spans = 0;
  readonly #memory: Buffer;
  readonly #writer: SpanWriter;
  readonly #end: Uint8Array;

  /** `memory` is larger than the frame. */
  constructor(memory: Buffer, { start, end }: MessageFrame) {
    this.#memory = memory;
    this.#writer = new SpanWriter(memory);
    this.#end = toBytes(end);
    this.#writer.piece(toBytes(start));
  }

  /** Returns false if the spans do not fit. */
  add(source: SpanSource, spans: number): boolean {
    const writer = this.#writer;
    const lengthBefore = writer.length;
    if (this.spans > 0) writer.comma();
    source.writeSpans(writer);
    if (writer.isFull || writer.length + this.#end.length > this.#memory.length) {
      writer.rewind(lengthBefore);
      return false;
    }
    this.spans += spans;
    return true;
  }

  /** The bytes of the whole message. Nothing can be added any more. */
  finish(): Uint8Array {
    this.#writer.piece(this.#end);
    return this.#writer.written();
  }

  /** The memory of a batch that is not used any more, for another batch. */
  get memory(): Buffer {
    return this.#memory;
  }
}

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
  add(source: SpanSource, spans: number): number {
    const { batchSpansMax } = this.#limits;
    let dropped = 0;
    this.#current ??= this.#openBatch();
    if (!this.#current.add(source, spans)) {
      dropped += this.#closeCurrent(this.#current);
      this.#current = this.#openBatch();
      if (!this.#current.add(source, spans)) return dropped + spans;
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
    this.#spare = batch.memory;
  }

  #openBatch(): SpanBatch {
    const memory = this.#spare ?? Buffer.allocUnsafeSlow(this.#limits.batchBytesMax);
    this.#spare = null;
    this.#frame ??= this.#buildFrame();
    return new SpanBatch(memory, this.#frame);
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
