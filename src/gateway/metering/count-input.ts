/** Tokens of a request's input. A long body is parsed in a thread of its own, so that other requests do not wait. */

import { putInTurns } from "../../net/wire/next-turn.ts";
import type { EndpointName } from "../../protocols/shared/request.ts";
import { countInputHere } from "./count-request.ts";

/** What the thread is asked to count. */
export interface CountOrder {
  readonly bytes: Uint8Array;
  readonly endpoint: EndpointName;
}

/** Parsing so much takes a few milliseconds. */
const PARSED_HERE_BYTES_MAX = 256 * 1024;

/** One thread at a time: each loads a tokenizer, and the counts are needed rarely. */
let last: Promise<unknown> = Promise.resolve();

/** Input of a JSON request; earlier turns that the upstream keeps are not in it. */
export function countInput(body: Uint8Array, endpoint: EndpointName): Promise<number> {
  if (body.length <= PARSED_HERE_BYTES_MAX) return countInputHere(body, endpoint);
  const counting = last.then(() => countInThread(body, endpoint));
  last = counting.catch(() => {});
  return counting;
}

async function countInThread(body: Uint8Array, endpoint: EndpointName): Promise<number> {
  // A copy: the body itself may still be on its way to an upstream.
  const bytes = Buffer.allocUnsafeSlow(body.length);
  await putInTurns(bytes, 0, body);
  const worker = new Worker(new URL("./count-worker.ts", import.meta.url).href);
  try {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    worker.onmessage = ({ data }: MessageEvent<number>) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(`The input could not be counted: ${message}`));
    worker.postMessage({ bytes, endpoint } satisfies CountOrder, [bytes.buffer]);
    return await promise;
  } finally {
    worker.terminate();
  }
}
