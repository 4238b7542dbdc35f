/**
 * Parses a large text in a worker thread: the file of an installation with many thousands of users takes
 * seconds, which would block the thread that serves requests. One text is parsed at a time, within bounds of memory and
 * time: short texts exist that take gigabytes.
 */

import { limits } from "../limits/product-limits.ts";
import { buildTree, readTree, type TreeData, type TreeResult } from "./yaml-tree.ts";

export interface TreeRequest {
  text: string;
  environment: Readonly<Record<string, string | undefined>>;
}

/** For shorter texts, starting the thread takes longer than parsing. */
const LARGE_CHARS = 8_000;

let last: Promise<unknown> = Promise.resolve();

export function readTreeInWorker(request: TreeRequest): Promise<TreeResult> {
  if (request.text.length < LARGE_CHARS) return Promise.resolve(readTree(request.text, request.environment));
  const reading = last.then(() => parseInWorker(request));
  last = reading.catch(() => {});
  return reading;
}

async function parseInWorker(request: TreeRequest): Promise<TreeResult> {
  const { baseMemoryBytes, memoryBytesPerChar, memoryBytesMax, timeoutMs, checkMs } = limits.configParsing;
  const memoryBytes = Math.min(baseMemoryBytes + memoryBytesPerChar * request.text.length, memoryBytesMax);
  const rssMax = process.memoryUsage.rss() + memoryBytes;
  const endMs = performance.now() + timeoutMs;
  const { promise, resolve, reject } = Promise.withResolvers<TreeData>();
  const checks = setInterval(() => {
    if (process.memoryUsage.rss() > rssMax || performance.now() > endMs) resolve(TOO_COMPLEX);
  }, checkMs);
  const worker = new Worker(new URL("./yaml-worker.ts", import.meta.url).href);
  try {
    worker.onmessage = (event: MessageEvent<TreeData>) => resolve(event.data);
    worker.onerror = (event) => reject(new Error(`The file could not be read: ${event.message}`));
    worker.postMessage(request satisfies TreeRequest);
    return buildTree(await promise);
  } finally {
    clearInterval(checks);
    worker.terminate();
  }
}

const TOO_COMPLEX: TreeData = {
  ok: false,
  problems: [
    {
      line: 0,
      column: 0,
      message:
        "The file takes too much memory or time to be read. Write shorter texts and lists, or apply it in parts.",
    },
  ],
};
