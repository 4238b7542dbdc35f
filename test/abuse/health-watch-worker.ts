/** Asks `/healthz` without a pause until it is stopped, and reports the longest wait. See `health-watch.ts`. */

declare const self: Worker;

let isStopped = false;

self.onmessage = ({ data }: MessageEvent<string>) => {
  if (data === "stop") isStopped = true;
  else void watch(data);
};

async function watch(url: string): Promise<void> {
  const waitsMs: number[] = [];
  while (!isStopped) {
    const startedMs = performance.now();
    await (await fetch(`${url}/healthz`)).arrayBuffer();
    waitsMs.push(performance.now() - startedMs);
    await Bun.sleep(2);
  }
  waitsMs.sort((a, b) => b - a);
  self.postMessage(waitsMs.slice(0, 5));
}
