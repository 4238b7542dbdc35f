/** Public documents: none is built again for each client, and none is copied for a slow client. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type AttackTarget, cpuMs, measureAttack, startAttackTarget } from "./attack-setup.ts";

let target: AttackTarget;
beforeAll(async () => {
  target = await startAttackTarget();
});
afterAll(() => target.stop());

const REQUESTS = 200;
/** About what the client of the tests sends as the head of a request. */
const HEAD_BYTES = 150;

async function ask(path: string, headers: Record<string, string> = {}): Promise<Response> {
  const response = await fetch(`${target.url}${path}`, { headers });
  await response.arrayBuffer();
  return response;
}

async function cpuMsPerRequest(path: string, headers: Record<string, string> = {}): Promise<number> {
  const before = cpuMs(target.pid);
  for (let i = 0; i < REQUESTS; i++) await ask(path, headers);
  return (cpuMs(target.pid) - before) / REQUESTS;
}

test.each(["/openapi.json", "/api/openapi.json"])(
  "%s costs little more than the smallest response",
  async (path) => {
    // The first request loads and builds the document.
    const etag = (await ask(path)).headers.get("etag") ?? "";
    expect(etag).not.toBe("");
    await measureAttack(`${4 * REQUESTS} requests for ${path}`, target, {
      bytes: 4 * REQUESTS * HEAD_BYTES,
      async run() {
        await cpuMsPerRequest("/healthz");
        const smallest = await cpuMsPerRequest("/healthz");
        const whole = await cpuMsPerRequest(path);
        const known = await cpuMsPerRequest(path, { "if-none-match": etag });
        console.log(
          `${path}: ${whole.toFixed(2)} ms of CPU, 304 ${known.toFixed(2)} ms, /healthz ${smallest.toFixed(2)} ms`,
        );
        // Building them took 6 ms and 2.5 ms for each request.
        expect(whole).toBeLessThan(smallest + 1.5);
        expect(known).toBeLessThan(smallest + 0.75);
      },
    });
  },
);
