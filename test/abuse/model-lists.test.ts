/**
 * Lists of models are thousands of times as long as their requests. Clients that request many at once and read none of
 * them occupy little memory, and hold the event loop for no turn over 50 ms.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { SIMULATOR } from "../support/paid-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

setDefaultTimeout(120_000);

const MIB = 1024 * 1024;
const MODELS = 1_000;
const REQUESTS = limits.readsOfKey.burst;
/** Of the buffers of the kernel nothing counts here. */
const MEMORY_MAX = 48 * MIB;

const LISTS: Readonly<Record<string, { readonly path: string; readonly header: string }>> = {
  "all models": { path: "/v1/models", header: "authorization: Bearer " },
  "a page of 999 models": { path: "/v1/models?limit=999", header: "authorization: Bearer " },
  "the models for Codex": { path: "/v1/models?client_version=1", header: "authorization: Bearer " },
  "a page of Gemini models": { path: "/v1beta/models?pageSize=999", header: "x-goog-api-key: " },
};
const NAMES = Object.keys(LISTS);
/** Each list has a key of its own: the rate of calls is that of a key. */
const secret = (name: string) => `key-of-the-test-of-model-lists-${NAMES.indexOf(name)}-0123456789`;

let target: AttackTarget;

beforeAll(async () => {
  const ids = Array.from({ length: MODELS }, (_, at) => `vendor/model-${at}`);
  const interfaces = ["chat", "responses", "gemini"];
  const account = {
    name: "sim",
    kind: "openai",
    base_url: SIMULATOR,
    credential: "credential",
    private_network: true,
    models: { "*": "*" },
  };
  const file = {
    models: ids.map((id) => ({ id, interfaces, context_tokens: 200_000 })),
    accounts: [account],
    groups: [{ name: "default", interfaces, models: ids, accounts: ["sim"] }],
    keys: NAMES.map((name, at) => ({ name: `k${at}`, group: "default", secret: secret(name) })),
  };
  target = await startAttackTarget({ file: JSON.stringify(file) });
  // The first requests compile the code.
  for (let run = 0; run < 20; run++) for (const name of NAMES) expect(await read(name)).toBeGreaterThan(100);
});
afterAll(() => target?.stop());

function head(name: string): string {
  const { path, header } = LISTS[name] ?? { path: "", header: "" };
  return `GET ${path} HTTP/1.1\r\nhost: test\r\n${header}${secret(name)}\r\n\r\n`;
}

async function read(name: string): Promise<number> {
  const { path, header } = LISTS[name] ?? { path: "", header: "" };
  const [field = "", start = ""] = header.split(": ");
  const response = await fetch(target.url + path, { headers: { [field]: `${start}${secret(name)}` } });
  const text = await response.text();
  expect(response.status).toBe(200);
  return (text.match(/"vendor\/model-\d+"|"models\/vendor\/model-\d+"/g) ?? []).length;
}

test.each(NAMES)("%s, requested 300 times at once and not read", async (name) => {
  // The bucket of the key is full again.
  await Bun.sleep(1_500);
  const sockets: Bun.Socket[] = [];
  const request = head(name);
  const { hostname, port } = new URL(target.url);
  const { memoryGrowthBytes } = await measureAttack(`${REQUESTS} × ${name}`, target, {
    bytes: REQUESTS * request.length,
    async run() {
      for (let at = 0; at < REQUESTS; at++)
        sockets.push(
          await Bun.connect({
            hostname,
            port: Number(port),
            socket: {
              open(socket) {
                socket.pause();
              },
              data() {},
              error() {},
            },
          }),
        );
      for (const socket of sockets) socket.write(request);
      await Bun.sleep(2_000);
    },
  });
  for (const socket of sockets) socket.terminate();
  expect(memoryGrowthBytes).toBeLessThan(MEMORY_MAX);
});
