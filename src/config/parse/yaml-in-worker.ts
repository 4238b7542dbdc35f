/**
 * Parses a large text in a worker thread: the file of an installation with many thousands of users takes
 * seconds, which would block the thread that serves requests.
 */

import { buildTree, readTree, type TreeData, type TreeResult } from "./yaml-tree.ts";

export interface TreeRequest {
  text: string;
  environment: Readonly<Record<string, string | undefined>>;
}

/** For shorter texts, starting the thread takes longer than parsing. */
const LARGE_CHARS = 8_000;

export async function readTreeInWorker({ text, environment }: TreeRequest): Promise<TreeResult> {
  if (text.length < LARGE_CHARS) return readTree(text, environment);
  const worker = new Worker(new URL("./yaml-worker.ts", import.meta.url).href);
  try {
    const { promise, resolve, reject } = Promise.withResolvers<TreeData>();
    worker.onmessage = (event: MessageEvent<TreeData>) => resolve(event.data);
    worker.onerror = (event) => reject(new Error(`The file could not be read: ${event.message}`));
    worker.postMessage({ text, environment } satisfies TreeRequest);
    return buildTree(await promise);
  } finally {
    worker.terminate();
  }
}
