/** The thread's side of a pool: runs one job after the other. See `thread-pool.ts`. */

import { readlinkSync } from "node:fs";
import { ApiError, type ApiErrorCode } from "../errors.ts";

declare const self: Worker;

export type ThreadMessage<Result> =
  /** The modules are loaded. `taskId` is the number of the thread in the operating system, if it has one. */
  | { readonly kind: "ready"; readonly taskId: string | null }
  | { readonly kind: "result"; readonly result: Result }
  | {
      readonly kind: "rejected";
      readonly code: ApiErrorCode;
      readonly message: string;
      readonly param: string | null;
      readonly rule: string | null;
    };

/** Collecting garbage takes about as long. */
const LONG_JOB_MS = 20;

/** The result of a job, with the buffers that move to the main thread. */
export interface JobResult<Result> {
  readonly result: Result;
  readonly transfer: readonly ArrayBuffer[];
}

/**
 * An `ApiError` of a job is its outcome. Any other error ends the thread. What the jobs need is `prepared` first, which is
 * not work of the first job.
 */
export function serveJobs<Job, Result>(
  run: (job: Job) => JobResult<Result> | Promise<JobResult<Result>>,
  prepared: Promise<unknown> = Promise.resolve(),
): void {
  const send = (message: ThreadMessage<Result>, transfer: readonly ArrayBuffer[] = []) =>
    self.postMessage(message, [...transfer]);
  self.onmessage = async ({ data }: MessageEvent<Job>) => {
    let startedMs = 0;
    try {
      await prepared;
      startedMs = performance.now();
      const { result, transfer } = await run(data);
      send({ kind: "result", result }, transfer);
    } catch (cause) {
      if (!(cause instanceof ApiError)) {
        // A rejected promise alone would not end the thread.
        setTimeout(() => {
          throw cause;
        });
        return;
      }
      const { code, message, param, rule } = cause;
      send({ kind: "rejected", code, message, param, rule });
    }
    // A long job leaves hundreds of megabytes, which an idle thread would keep.
    if (performance.now() - startedMs > LONG_JOB_MS) Bun.gc(true);
  };
  // A job reports what fails here.
  prepared.then(() => send({ kind: "ready", taskId: readTaskId() })).catch(() => {});
}

function readTaskId(): string | null {
  try {
    return readlinkSync("/proc/thread-self").split("/").at(-1) ?? null;
  } catch {
    return null;
  }
}
