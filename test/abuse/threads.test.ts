/**
 * Work in threads: no long request or response holds the event loop, whatever it contains, and one that takes too long
 * is ended while the gateway lives.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

setDefaultTimeout(120_000);

const MiB = 1024 * 1024;
/** The host of a virtual machine can stop it, which counts as CPU time. What the gateway does itself shows each time. */
const TRIES = 3;
/** Bytes of living objects for each byte of the budget. Objects instead of bytes took 17 times as much. */
const LIVE_BYTES_MAX = 2.5;

let upstream: Bun.Server<undefined>;
let target: AttackTarget;
/** The text of the next response. */
let responseText = "Hello";

beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    maxRequestBodySize: 128 * MiB,
    async fetch(request) {
      await request.arrayBuffer();
      return Response.json({
        id: "chatcmpl-1",
        object: "chat.completion",
        created: 1,
        model: "m",
        choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: responseText } }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      });
    },
  });
  target = await startAttackTarget({ file: file(`${upstream.url.origin}/v1`) });
  // Starts the threads, loads modules and compiles code before the measurement.
  expect(await send(`"${"a".repeat(300_000)}"`)).toBe(200);
});

afterAll(async () => {
  await target.stop();
  await upstream.stop(true);
});

/** An account with Chat Completions only, so that Responses are translated. */
function file(url: string): string {
  return JSON.stringify({
    models: [{ id: "m", interfaces: ["chat", "responses", "messages"] }],
    accounts: [
      {
        name: "chat-only",
        kind: "openai",
        base_url: url,
        credential: "credential",
        private_network: true,
        interfaces: ["chat"],
        models: { m: "m" },
      },
    ],
    groups: [
      {
        name: "default",
        interfaces: ["chat", "responses", "messages"],
        models: ["m"],
        accounts: ["chat-only"],
      },
    ],
    keys: [{ name: "test", group: "default", secret: TEST_KEY }],
  });
}

async function send(input: string, url = target.url, more = '"store":false'): Promise<number> {
  const response = await fetch(`${url}/v1/responses`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${TEST_KEY}` },
    body: `{"model":"m",${more},"input":${input}}`,
  });
  await response.arrayBuffer();
  return response.status;
}

/** Fails if the gateway has a slow turn each time. */
async function measure(name: string, bytes: number, run: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await measureAttack(name, target, { bytes, run });
      return;
    } catch (error) {
      if (tries === TRIES) throw error;
    }
  }
}

const message = (content: string) => `[{"role":"user","content":[${content}]}]`;

const BODIES: readonly (readonly [name: string, status: number, build: () => string])[] = [
  ["20 MiB of text", 200, () => `"${"a word ".repeat((20 * MiB) / 7)}"`],
  [
    "a picture of 60 MiB",
    200,
    () =>
      message(
        `{"type":"input_image","image_url":"data:image/png;base64,${"iVBORw0K".repeat((60 * MiB) / 8)}"}`,
      ),
  ],
  ["60 MiB of escaped quotes", 200, () => `"${'\\"'.repeat((60 * MiB) / 2)}"`],
  [
    "200,000 short values",
    200,
    () => message(`{"type":"input_text","text":"x","x":[${"1,".repeat(200_000)}1]}`),
  ],
  [
    "16,000 messages",
    200,
    () => `[${'{"role":"user","content":"Hello there"},'.repeat(16_000)}{"role":"user","content":"x"}]`,
  ],
  [
    "numbers of 20 digits",
    200,
    () => message(`{"type":"input_text","text":"x","x":[${"12345678901234567890,".repeat(200_000)}1]}`),
  ],
];

test.each(BODIES)(
  "a translated request with %s holds the event loop for no turn over 50 ms",
  async (name, status, build) => {
    const input = build();
    await measure(`translated: ${name}`, input.length, async () => {
      expect(await send(input)).toBe(status);
    });
  },
);

test("a whole response of 20 MiB is translated without a turn over 50 ms", async () => {
  responseText = "a word ".repeat((20 * MiB) / 7);
  await measure("translated: a response of 20 MiB", responseText.length, async () => {
    expect(await send('"Hello"')).toBe(200);
  });
  responseText = "Hello";
});

test("a translation that takes too long is rejected with 413, and the gateway serves the next request", async () => {
  const gateway = await startTestGateway({
    file: file(`${upstream.url.origin}/v1`),
    limits: { translationThreads: { ...limits.translationThreads, jobCpuMs: 20, checkMs: 2 } },
  });
  try {
    const slow = await fetch(`${gateway.url}/v1/responses`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${TEST_KEY}` },
      body: JSON.stringify({ model: "m", input: '"'.repeat(20 * MiB) }),
    });
    expect([slow.status, await slow.json()]).toMatchObject([413, { error: { code: "request_too_large" } }]);
    expect(await send('"Hello"', gateway.url)).toBe(200);
    expect(await send(`"${"a".repeat(300_000)}"`, gateway.url)).toBe(200);
  } finally {
    await gateway.stop();
  }
});

test("stored conversations of a key take about as much memory as their budget", async () => {
  const items = `[${'{"role":"user","content":"x"},'.repeat(8_000)}{"role":"user","content":"x"}]`;
  const attack = async (store: boolean) => {
    for (let count = 0; count < 160; count++)
      expect(await send(items, target.url, `"store":${store}`)).toBe(200);
  };
  // What parsing takes for a moment is the same if nothing is stored.
  const bytes = 160 * items.length;
  const unstored = await measureAttack("160 conversations, not stored", target, {
    bytes,
    run: () => attack(false),
  });
  const stored = await measureAttack("160 conversations, stored", target, { bytes, run: () => attack(true) });
  const growth = stored.memory.live - unstored.memory.live;
  expect(growth).toBeLessThan(LIVE_BYTES_MAX * limits.storedConversationKeyBytesMax);
});
