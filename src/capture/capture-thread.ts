/** The thread that turns drafts into sealed content, so that redaction does not hold up requests. */

import { ThreadPool, type ThreadPoolLimits } from "../threads/thread-pool.ts";
import type { CapturedBytes } from "./capped-bytes.ts";
import type { CaptureDraft } from "./document.ts";
import type { RedactionRules } from "./redact.ts";

export interface CaptureJob {
  readonly requestId: string;
  readonly draft: CaptureDraft;
  readonly rules: RedactionRules;
  readonly dataKey: Uint8Array;
}

/** Starts with the first job: most installations capture nothing. */
export class CaptureThread {
  readonly #pool: ThreadPool<CaptureJob, string>;

  constructor(limits: ThreadPoolLimits, monotonicMs: () => number) {
    this.#pool = new ThreadPool({
      limits,
      startWorker: () => new Worker(new URL("./capture-worker.ts", import.meta.url).href),
      monotonicMs,
    });
  }

  /** Takes ownership of the bodies of the draft. A capture that exceeds a limit is lost with the thread. */
  seal(job: CaptureJob): Promise<string> {
    const transfer = listBuffers(job.draft);
    const bytes = transfer.reduce((sum, { byteLength }) => sum + byteLength, 0);
    return this.#pool.run({ owner: "", bytes, open: async () => ({ job, transfer }) });
  }

  close(): void {
    this.#pool.close();
  }
}

function listBuffers({ request, attempts, response: received }: CaptureDraft): ArrayBuffer[] {
  const bodies = [request.body, received.body, ...attempts.flatMap(({ body, response }) => [body, response])];
  return bodies
    .filter((body): body is CapturedBytes => body !== null)
    .flatMap(({ head, tail }) => [head.buffer, tail.buffer]);
}
