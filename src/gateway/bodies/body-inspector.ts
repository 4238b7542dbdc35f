/**
 * Checks and measures long JSON bodies in worker threads, so that they do not block other requests. The bytes are
 * transferred to the thread and back without a copy.
 */

import { ApiError, type ApiErrorCode } from "../../errors.ts";
import type { RequestInspection } from "../../protocols/read-request.ts";
import type { JsonRequestLimits } from "../../protocols/shared/json-request.ts";
import type { Endpoint } from "../../protocols/shared/request.ts";

export interface InspectionJob {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly endpoint: Endpoint;
  readonly limits: JsonRequestLimits;
}

export type InspectionOutcome =
  | { readonly kind: "inspected"; readonly inspection: RequestInspection }
  | {
      readonly kind: "refused";
      readonly code: ApiErrorCode;
      readonly message: string;
      readonly param: string | null;
    };

export interface InspectionReply {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly outcome: InspectionOutcome;
}

export interface InspectedBody {
  readonly bytes: Uint8Array;
  readonly inspection: RequestInspection;
}

interface PendingJob {
  readonly job: InspectionJob;
  resolve(reply: InspectionReply): void;
  reject(error: Error): void;
}

/** One thread takes only bodies up to this size, so that they do not wait for the largest ones. */
const SHORT_JOB_BYTES_MAX = 8 * 1024 * 1024;

export class BodyInspector {
  private readonly limits: JsonRequestLimits;
  private readonly threads = [
    new InspectionThread(Number.POSITIVE_INFINITY),
    new InspectionThread(SHORT_JOB_BYTES_MAX),
  ];
  private readonly waiting: PendingJob[] = [];

  constructor(limits: JsonRequestLimits) {
    this.limits = limits;
  }

  /**
   * Takes ownership of `bytes`: the array is detached, and the result holds the same bytes. The array must cover its
   * whole buffer. Rejects with the error of a body that cannot be served.
   */
  async inspect(bytes: Uint8Array<ArrayBuffer>, endpoint: Endpoint): Promise<InspectedBody> {
    const job: InspectionJob = { bytes, endpoint, limits: this.limits };
    const reply = await new Promise<InspectionReply>((resolve, reject) => {
      this.waiting.push({ job, resolve, reject });
      this.startNext();
    });
    const { outcome } = reply;
    if (outcome.kind === "refused") {
      throw new ApiError(outcome.code, outcome.message, { param: outcome.param });
    }
    const { buffer, byteOffset, byteLength } = reply.bytes;
    return { bytes: Buffer.from(buffer, byteOffset, byteLength), inspection: outcome.inspection };
  }

  close(): void {
    for (const thread of this.threads) thread.close();
  }

  private startNext(): void {
    for (const thread of this.threads) {
      if (thread.isBusy) continue;
      const at = this.waiting.findIndex(({ job }) => job.bytes.length <= thread.bytesMax);
      const [next] = at === -1 ? [] : this.waiting.splice(at, 1);
      if (next !== undefined) thread.run(next, () => this.startNext());
    }
  }
}

/** Starts with its first job and stays alive, because starting a thread takes longer than most jobs. */
class InspectionThread {
  readonly bytesMax: number;
  private worker: Worker | null = null;
  private current: PendingJob | null = null;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  get isBusy(): boolean {
    return this.current !== null;
  }

  run(pending: PendingJob, onEnd: () => void): void {
    this.current = pending;
    this.worker ??= startWorker();
    const { worker } = this;
    worker.onmessage = ({ data }: MessageEvent<InspectionReply>) => {
      this.current = null;
      pending.resolve(data);
      onEnd();
    };
    // The body is lost with the thread. The next job starts a new one.
    worker.onerror = ({ message }) => {
      this.close();
      pending.reject(new Error(`The inspection of a body failed: ${message}`));
      onEnd();
    };
    worker.postMessage(pending.job, [pending.job.bytes.buffer]);
  }

  close(): void {
    this.current?.reject(new Error("The gateway stopped during the inspection of a body."));
    this.current = null;
    this.worker?.terminate();
    this.worker = null;
  }
}

function startWorker(): Worker {
  const worker = new Worker(new URL("./body-inspector-worker.ts", import.meta.url).href);
  // An idle thread must not keep the process alive.
  worker.unref();
  return worker;
}
