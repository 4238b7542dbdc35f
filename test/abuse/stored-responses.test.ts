/**
 * Calls on long stored responses: their requests and mostly their responses are short, so a client could request many.
 * None holds the event loop, and the memory of all of them is bounded.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, buildAttackFile, measureAttack, startAttackTarget } from "./attack-setup.ts";

setDefaultTimeout(180_000);

const MiB = 1024 * 1024;
const RESPONSE_BYTES = 7.5 * MiB;
const HEADERS = { "content-type": "application/json", authorization: `Bearer ${TEST_KEY}` };

/** A picture. */
const LONG_RESPONSE = JSON.stringify({
  id: "resp_long",
  object: "response",
  status: "completed",
  model: "responses1",
  output: [{ type: "image_generation_call", id: "ig", status: "completed", result: "a".repeat(10_000_000) }],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
});

let upstream: Bun.Server<undefined>;
let target: AttackTarget;
/** Each is longer than the memory of a key has room for besides the others. */
const ids: string[] = [];

beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    maxRequestBodySize: 128 * MiB,
    async fetch(request) {
      await request.arrayBuffer();
      if (new URL(request.url).pathname.startsWith("/v1/responses"))
        return new Response(LONG_RESPONSE, { headers: { "content-type": "application/json" } });
      return Response.json({
        id: "chatcmpl-1",
        object: "chat.completion",
        created: 1,
        model: "chat1",
        choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "Hello" } }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      });
    },
  });
  const accounts = (["chat", "responses"] as const).map((name) => {
    return { name, kind: "openai", interfaces: [name], models: [`${name}1`] } as const;
  });
  target = await startAttackTarget({
    file: buildAttackFile(`http://127.0.0.1:${upstream.port}`, ["chat", "responses"], accounts),
  });
  for (let count = 0; count < 5; count++) ids.push(await store());
  // They are written behind the response, the newest ones last. The first ones are then in the database only.
  await Bun.sleep(2_000);
  await Promise.all(ids.map((id) => get(`/${id}`)));
});

afterAll(async () => {
  await target.stop();
  await upstream.stop(true);
});

/** Base64 of random bytes, which is compressed by a quarter only. */
const longText = () => randomBytes(Math.floor(RESPONSE_BYTES * 0.75)).toString("base64");

async function post(body: object): Promise<{ status: number; json: { id?: unknown } }> {
  const response = await fetch(`${target.url}/v1/responses`, {
    method: "POST",
    headers: HEADERS,
    body: JSON.stringify({ model: "chat1", ...body }),
  });
  return { status: response.status, json: (await response.json()) as { id?: unknown } };
}

async function store(): Promise<string> {
  const { status, json } = await post({ input: longText() });
  expect(status).toBe(200);
  return String(json.id);
}

async function get(path: string): Promise<number> {
  const response = await fetch(`${target.url}/v1/responses${path}`, { headers: HEADERS });
  await response.arrayBuffer();
  return response.status;
}

/** Of `count` calls at once. Each may be rejected for now. */
async function expectServed(count: number, call: (at: number) => Promise<number>): Promise<void> {
  const statuses = new Set(await Promise.all(Array.from({ length: count }, (_, at) => call(at))));
  expect(statuses).toContain(200);
  for (const status of statuses) expect([200, 429, 503]).toContain(status);
}

const CALL_BYTES = 250;
/** The memory of two loads at once, and what the threads keep for a while. */
const RETRIEVED_MEMORY_MAX = 200 * MiB;
/** Clients receive the whole inputs, which count in the budget of large bodies until they are read. */
const LISTED_MEMORY_MAX = 500 * MiB;
/** Each request has a copy of its conversation, which counts in the same budget. */
const CONTINUED_MEMORY_MAX = 600 * MiB;
/** Four responses, each of which is joined, and garbage. */
const FORWARDED_MEMORY_MAX = 600 * MiB;
const STORED_MEMORY_MAX = 400 * MiB;

test.each([
  ["one response", 100, 1, "", RETRIEVED_MEMORY_MAX],
  ["four responses", 100, 4, "", RETRIEVED_MEMORY_MAX],
  ["the inputs of four responses", 16, 4, "/input_items", LISTED_MEMORY_MAX],
])("retrieving %s of 7.5 MiB, %i times at once", async (name, count, responses, action, memoryMax) => {
  const report = await measureAttack(`${count} × retrieving ${name} of 7.5 MiB`, target, {
    bytes: count * CALL_BYTES,
    run: () => expectServed(count, (at) => get(`/${ids[at % responses]}${action}`)),
  });
  expect(report.memoryGrowthBytes).toBeLessThan(memoryMax);
});

test("retrieving a response of 10 MB that an upstream stores, 100 times at once", async () => {
  expect((await post({ model: "responses1", input: "Hello" })).status).toBe(200);
  const report = await measureAttack("100 × retrieving 10 MB from an upstream", target, {
    bytes: 100 * CALL_BYTES,
    run: () => expectServed(100, () => get("/resp_long")),
  });
  expect(report.memoryGrowthBytes).toBeLessThan(FORWARDED_MEMORY_MAX);
});

test("continuing three conversations of 7.5 MiB, 50 times at once", async () => {
  const report = await measureAttack("50 × continuing three conversations of 7.5 MiB", target, {
    bytes: 50 * CALL_BYTES,
    run: () =>
      expectServed(50, async (at) => {
        const continued = { input: "Hello", store: false, previous_response_id: ids[at % 3] };
        return (await post(continued)).status;
      }),
  });
  expect(report.memoryGrowthBytes).toBeLessThan(CONTINUED_MEMORY_MAX);
});

test.each([4, 8])("storing %i responses of 7.5 MiB at once", async (count) => {
  const bodies = Array.from({ length: count }, longText);
  const report = await measureAttack(`storing ${count} responses of 7.5 MiB at once`, target, {
    bytes: count * RESPONSE_BYTES,
    async run() {
      await expectServed(count, async (at) => (await post({ input: bodies[at] })).status);
      // They are written behind the response.
      await Bun.sleep(3_000);
    },
  });
  expect(report.memoryGrowthBytes).toBeLessThan(STORED_MEMORY_MAX);
});
