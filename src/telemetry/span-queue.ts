/**
 * The spans that wait for export. A full batch becomes a message at once, so that requests and responses are not kept
 * in memory by their spans. The queue has a fixed number of messages; when it is full, the oldest message is dropped: a
 * collector that is down must not cost memory.
 */

import { type MessageFrame, type Span, writeMessage } from "./span.ts";

export interface QueueLimits {
  /** The spans of one message. */
  readonly batchSpansMax: number;
  readonly batchBytesMax: number;
  /** The messages that wait, besides the one that is being filled. */
  readonly batchesMax: number;
}

/** A message for a collector, with at least one span. */
export interface SpanBatch {
  readonly message: Uint8Array;
  readonly spans: number;
}

interface SpanQueueOptions {
  readonly limits: QueueLimits;
  /** What all messages have in common. Called when the first message is written. */
  readonly frame: () => MessageFrame;
  /** Spans were dropped: the oldest ones, or spans that are too large for a message. */
  readonly onDrop: (spans: number) => void;
}

export class SpanQueue {
  readonly #options: SpanQueueOptions;
  readonly #waiting: SpanBatch[] = [];
  #current: Span[] = [];
  #frame: MessageFrame | null = null;

  constructor(options: SpanQueueOptions) {
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#current.length === 0 && this.#waiting.length === 0;
  }

  /** Whether a batch is complete. */
  get hasFullBatch(): boolean {
    return this.#waiting.length > 0;
  }

  add(spans: readonly Span[]): void {
    for (const span of spans) this.#current.push(span);
    if (this.#current.length >= this.#options.limits.batchSpansMax) this.#closeCurrent();
  }

  /** Removes the oldest batch, full or not. */
  take(): SpanBatch | null {
    if (this.#waiting.length === 0) this.#closeCurrent();
    return this.#waiting.shift() ?? null;
  }

  #closeCurrent(): void {
    const spans = this.#current;
    this.#current = [];
    if (spans.length > 0) this.#write(spans);
  }

  /** A message that is too large is divided. */
  #write(spans: readonly Span[]): void {
    const { limits, frame, onDrop } = this.#options;
    this.#frame ??= frame();
    const message = writeMessage(this.#frame, spans);
    if (message.length <= limits.batchBytesMax) {
      this.#waiting.push({ message, spans: spans.length });
      if (this.#waiting.length > limits.batchesMax) onDrop(this.#waiting.shift()?.spans ?? 0);
    } else if (spans.length === 1) onDrop(1);
    else {
      const half = spans.length >> 1;
      this.#write(spans.slice(0, half));
      this.#write(spans.slice(half));
    }
  }
}
