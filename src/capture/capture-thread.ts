/** The thread that turns drafts into sealed content, so that redaction does not hold up requests. */

import type { KeptBytes } from "./capped-bytes.ts";
import type { CaptureDraft } from "./document.ts";
import type { RedactionRules } from "./redact.ts";

export interface CaptureJob {
  readonly requestId: string;
  readonly draft: CaptureDraft;
  readonly rules: RedactionRules;
  readonly dataKey: Uint8Array;
}

export interface CaptureReply {
  readonly content: string;
}

/** Takes one job at a time. It starts with the first job: most installations capture nothing. */
export class CaptureThread {
  readonly #timeoutMs: number;
  #worker: Worker | null = null;
  #rejectCurrent: ((error: Error) => void) | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Takes ownership of the bodies of the draft. */
  seal(job: CaptureJob): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#rejectCurrent = reject;
      this.#timer = setTimeout(() => this.#stop("A capture took too long to redact."), this.#timeoutMs);
      this.#worker ??= startWorker();
      const worker = this.#worker;
      worker.onmessage = ({ data }: MessageEvent<CaptureReply>) => {
        clearTimeout(this.#timer);
        this.#rejectCurrent = null;
        resolve(data.content);
      };
      // The capture is lost with the thread. The next one starts a new thread.
      worker.onerror = ({ message }) => this.#stop(`The thread for captures failed: ${message}`);
      worker.postMessage(job, listBuffers(job.draft));
    });
  }

  close(): void {
    this.#stop("The gateway stopped before a capture was stored.");
  }

  #stop(reason: string): void {
    clearTimeout(this.#timer);
    this.#worker?.terminate();
    this.#worker = null;
    this.#rejectCurrent?.(new Error(reason));
    this.#rejectCurrent = null;
  }
}

function startWorker(): Worker {
  const worker = new Worker(new URL("./capture-worker.ts", import.meta.url).href);
  // An idle thread must not keep the process alive.
  worker.unref();
  return worker;
}

function listBuffers({ request, attempts, response: received }: CaptureDraft): ArrayBuffer[] {
  const bodies = [request.body, received.body, ...attempts.flatMap(({ body, response }) => [body, response])];
  return bodies
    .filter((body): body is KeptBytes => body !== null)
    .flatMap(({ head, tail }) => [head.buffer, tail.buffer]);
}
