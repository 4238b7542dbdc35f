/** Sends a long body that is in memory as its client reads it, so that no connection has a copy of the rest. */

import type { Part } from "../../base/parts.ts";
import type { StreamSink, StreamSource } from "../../net/wire/http-message.ts";

const PIECE_BYTES = 64 * 1024;

export class PacedBody implements StreamSource {
  /** In reverse order. */
  readonly #rest: Part[];
  /** Null before the start. */
  #sink: StreamSink | null = null;
  #isPaused = false;
  /** Null after the end. */
  #onEnd: (() => void) | null;

  /** `onEnd` is called once, when the body is written or its client has disconnected. */
  constructor(parts: readonly Part[], onEnd: () => void) {
    this.#rest = parts.toReversed();
    this.#onEnd = onEnd;
  }

  flowTo(sink: StreamSink): void {
    this.#sink = sink;
    this.#send(sink);
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    if (this.#sink !== null) this.#send(this.#sink);
  }

  abort(): void {
    const onEnd = this.#onEnd;
    this.#onEnd = null;
    this.#rest.length = 0;
    onEnd?.();
  }

  #send(sink: StreamSink): void {
    while (!this.#isPaused && this.#onEnd !== null) {
      const piece = this.#takePiece();
      const isLast = this.#rest.length === 0;
      if (isLast) sink.end(piece);
      else sink.data(piece);
      if (isLast) this.abort();
    }
  }

  #takePiece(): Part[] {
    const part = this.#rest.pop();
    if (part === undefined) return [];
    const { bytes, start, end } = part;
    if (end - start <= PIECE_BYTES) return [part];
    const at = start + PIECE_BYTES;
    this.#rest.push({ bytes, start: at, end });
    return [{ bytes, start, end: at }];
  }
}
