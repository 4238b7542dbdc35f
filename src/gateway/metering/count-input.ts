/**
 * Counts the input tokens of a request. A long body is parsed in a worker thread, so that it does not block other
 * requests.
 */

import { copyInTurns } from "../../net/wire/next-turn.ts";
import type { EndpointName } from "../../protocols/shared/request.ts";
import { countInputHere } from "./count-request.ts";

/** The job of the thread. */
export interface CountJob {
  readonly bytes: Uint8Array;
  readonly endpoint: EndpointName;
}

/** Parsing this much takes a few milliseconds. */
const INLINE_BYTES_MAX = 256 * 1024;

/** One thread at a time: each loads a tokenizer, and counts are needed rarely. */
let lastCount: Promise<unknown> = Promise.resolve();

/** The input of a JSON request, without earlier turns that the upstream stores. */
export function countInput(body: Uint8Array, endpoint: EndpointName): Promise<number> {
  if (body.length <= INLINE_BYTES_MAX) return countInputHere(body, endpoint);
  const counting = lastCount.then(() => countInThread(body, endpoint));
  lastCount = counting.catch(() => {});
  return counting;
}

async function countInThread(body: Uint8Array, endpoint: EndpointName): Promise<number> {
  // A copy, because the body may still be in transmission to an upstream.
  const bytes = Buffer.allocUnsafeSlow(body.length);
  await copyInTurns(bytes, 0, body);
  const worker = new Worker(new URL("./count-worker.ts", import.meta.url).href);
  try {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    worker.onmessage = ({ data }: MessageEvent<number>) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(`Counting the input tokens failed: ${message}`));
    worker.postMessage({ bytes, endpoint } satisfies CountJob, [bytes.buffer]);
    return await promise;
  } finally {
    worker.terminate();
  }
}
