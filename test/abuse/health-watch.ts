/**
 * The longest waits for `/healthz`, measured in a separate thread: a test that sends and receives large bodies is busy,
 * and would report its own waits as the gateway's.
 */

/** Resolves with the five longest waits while `attack` ran, the longest first. */
export async function watchHealth(url: string, attack: () => Promise<unknown>): Promise<number[]> {
  const worker = new Worker(new URL("./health-watch-worker.ts", import.meta.url).href);
  try {
    const { promise, resolve, reject } = Promise.withResolvers<number[]>();
    worker.onmessage = ({ data }: MessageEvent<number[]>) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.postMessage(url);
    await Bun.sleep(100);
    await attack();
    worker.postMessage("stop");
    return await promise;
  } finally {
    worker.terminate();
  }
}
