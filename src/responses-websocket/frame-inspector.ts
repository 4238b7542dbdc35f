/** Parses long frames in a thread, so that other turns and requests are not delayed. */

import { type ApiErrorCode, paramError } from "../errors.ts";
import { ThreadPool, type ThreadPoolLimits } from "../threads/thread-pool.ts";
import type { ClientFrame, CreateFrame } from "./client-frame.ts";

export interface FrameJob {
  readonly bytes: Uint8Array;
  readonly depthMax: number;
  /** Settings of a warm-up that its response repeats. */
  readonly echoBytesMax: number;
}

export type InspectedFrame =
  | { readonly kind: "create"; readonly frame: CreateFrame }
  /** The input is not sent back, because it may be as long as the frame. */
  | { readonly kind: "steer"; readonly previousId: string | null }
  | {
      readonly kind: "bad";
      readonly streamId: string | null;
      readonly code: ApiErrorCode;
      readonly message: string;
      readonly param: string | null;
    };

interface FrameInspectorOptions {
  readonly depthMax: number;
  readonly echoBytesMax: number;
  readonly threadLimits: ThreadPoolLimits;
  monotonicMs(): number;
}

/**
 * A socket delivers at most this much at once. A longer message was collected in a buffer of its own, which is moved to
 * the thread and not copied.
 */
const CHUNK_BYTES_MAX = 512 * 1024;

const LIMIT_TEXTS = {
  tooLarge: "The message is too large or too complex to be checked. Shorten it.",
  overloaded: "Too many long messages wait to be checked. Try again in 1 s.",
};

export class FrameInspector {
  readonly #terms: Pick<FrameJob, "depthMax" | "echoBytesMax">;
  readonly #pool: ThreadPool<FrameJob, InspectedFrame>;

  constructor({ depthMax, echoBytesMax, threadLimits, monotonicMs }: FrameInspectorOptions) {
    this.#terms = { depthMax, echoBytesMax };
    this.#pool = new ThreadPool({
      limits: threadLimits,
      startWorker: () => new Worker(new URL("./frame-inspector-worker.ts", import.meta.url).href),
      monotonicMs,
    });
  }

  /** Takes ownership of the bytes of a text message. Frames of different owners take turns. */
  async read(bytes: Uint8Array, owner: string): Promise<ClientFrame> {
    const inspected = await this.#inspect(bytes, owner);
    switch (inspected.kind) {
      case "create":
        return inspected.frame;
      case "steer":
        return { kind: "steer", streamId: null, previousId: inspected.previousId, input: null };
      case "bad": {
        const error = paramError(inspected.param, inspected.code, inspected.message);
        return { kind: "bad", streamId: inspected.streamId, error };
      }
    }
  }

  close(): void {
    this.#pool.close();
  }

  #inspect(bytes: Uint8Array, owner: string): Promise<InspectedFrame> {
    const { buffer, length } = bytes;
    const isOwn = buffer instanceof ArrayBuffer && (buffer.byteLength === length || length > CHUNK_BYTES_MAX);
    const message = { job: { bytes, ...this.#terms }, transfer: isOwn ? [buffer] : [] };
    return this.#pool.runForClient({ owner, bytes: length, open: async () => message }, LIMIT_TEXTS);
  }
}
