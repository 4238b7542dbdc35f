/** Parses long frames in a worker thread, so that other turns and requests are not delayed. */

import { ApiError, type ApiErrorCode } from "../errors.ts";
import type { ClientFrame, CreateFrame } from "./client-frame.ts";

export interface FrameJob {
  readonly id: number;
  readonly bytes: Uint8Array;
  readonly depthMax: number;
}

export type FrameReply =
  | { readonly id: number; readonly kind: "create"; readonly frame: CreateFrame }
  /** The input is not sent back, because it may be as long as the frame. */
  | { readonly id: number; readonly kind: "steer"; readonly previousId: string | null }
  | {
      readonly id: number;
      readonly kind: "bad";
      readonly streamId: string | null;
      readonly code: ApiErrorCode;
      readonly message: string;
      readonly param: string | null;
    };

/**
 * A socket delivers at most this much at once. A longer message was collected in a buffer of its own, which is moved to
 * the thread and not copied.
 */
const CHUNK_BYTES_MAX = 512 * 1024;

/** Starts its thread with the first long frame and keeps it running. */
export class FrameInspector {
  private readonly depthMax: number;
  private worker: Worker | null = null;
  private readonly pending = new Map<number, PromiseWithResolvers<FrameReply>>();
  private lastId = 0;

  constructor(depthMax: number) {
    this.depthMax = depthMax;
  }

  /** Takes ownership of the bytes of a text message. */
  async read(bytes: Uint8Array): Promise<ClientFrame> {
    const reply = await this.send(bytes);
    switch (reply.kind) {
      case "create":
        return reply.frame;
      case "steer":
        return { kind: "steer", streamId: null, previousId: reply.previousId, input: null };
      case "bad": {
        const error = new ApiError(reply.code, reply.message, { param: reply.param });
        return { kind: "bad", streamId: reply.streamId, error };
      }
    }
  }

  close(): void {
    this.fail("the gateway stopped");
  }

  private send(bytes: Uint8Array): Promise<FrameReply> {
    const id = ++this.lastId;
    const reply = Promise.withResolvers<FrameReply>();
    this.pending.set(id, reply);
    this.worker ??= this.start();
    const { buffer } = bytes;
    const isOwn =
      buffer instanceof ArrayBuffer && (buffer.byteLength === bytes.length || bytes.length > CHUNK_BYTES_MAX);
    const job: FrameJob = { id, bytes, depthMax: this.depthMax };
    this.worker.postMessage(job, isOwn ? [buffer] : []);
    return reply.promise;
  }

  private start(): Worker {
    const worker = new Worker(new URL("./frame-inspector-worker.ts", import.meta.url).href);
    worker.onmessage = ({ data }: MessageEvent<FrameReply>) => {
      this.pending.get(data.id)?.resolve(data);
      this.pending.delete(data.id);
    };
    worker.onerror = ({ message }) => this.fail(message);
    // An idle thread must not keep the process alive.
    worker.unref();
    return worker;
  }

  private fail(reason: string): void {
    this.worker?.terminate();
    this.worker = null;
    for (const { reject } of this.pending.values()) reject(new Error(`Reading a message failed: ${reason}`));
    this.pending.clear();
  }
}
