/** Parses the frames of one connection in order. A long frame is parsed in a thread, and the frames after it wait. */

import { nextTurn } from "../base/next-turn.ts";
import type { ByteBudget } from "./byte-budget.ts";
import { type ClientFrame, type MessageKind, readClientFrame } from "./client-frame.ts";
import type { FrameInspector } from "./frame-inspector.ts";

interface FrameReadingOptions {
  readonly inspector: FrameInspector;
  /** Budget for the bytes of waiting frames, per key. */
  readonly waitingBytes: ByteBudget;
  readonly key: string;
  readonly depthMax: number;
  readonly inspectInThreadAboveBytes: number;
  onFailure(thrown: unknown): void;
}

export class FrameReading {
  readonly #options: FrameReadingOptions;
  /** Resolves when all frames so far are parsed; null while no frame waits. */
  #last: Promise<void> | null = null;

  constructor(options: FrameReadingOptions) {
    this.#options = options;
  }

  /** Passes the frame on, at once if none waits. False when the budget for waiting ones is exhausted. */
  read(kind: MessageKind, bytes: Uint8Array, handle: (frame: ClientFrame) => void): boolean {
    const { inspector, waitingBytes, key, depthMax, inspectInThreadAboveBytes } = this.#options;
    const { length } = bytes;
    const isLong = kind === "text" && length > inspectInThreadAboveBytes;
    if (!isLong && this.#last === null) {
      handle(readClientFrame(kind, bytes, depthMax));
      return true;
    }
    if (!waitingBytes.fits(key, length)) return false;
    waitingBytes.take(key, length);
    const reading = (this.#last ?? Promise.resolve())
      // Each waiting frame is read in a turn of its own: hundreds of them can wait for one long frame.
      .then(() =>
        isLong ? inspector.read(bytes, key) : nextTurn().then(() => readClientFrame(kind, bytes, depthMax)),
      )
      .finally(() => waitingBytes.release(key, length))
      .then(handle)
      .catch((thrown: unknown) => this.#options.onFailure(thrown))
      .finally(() => {
        if (this.#last === reading) this.#last = null;
      });
    this.#last = reading;
    return true;
  }
}
