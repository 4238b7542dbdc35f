/** Counts of input tokens obey the limits of their caller: each is one request, without tokens and money. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

const INTERFACES = ["responses", "messages", "gemini"];
const KEYS = {
  free: {},
  once: { limits: { rpm: 1 } },
  twice: { limits: { rpm: 2 } },
  daily: { limits: { windows: [{ per: "1d", requests: 1 }] } },
  single: { limits: { concurrency: 1 } },
} as const;
type KeyName = keyof typeof KEYS;

const secret = (name: KeyName) => `count-key-${name}-0123456789-0123456789-0123456789`;

let gateway: RunningGateway;
let upstream: Bun.Server<undefined>;
/** Counts that the upstream has received and not responded to. */
let held: (() => void)[] = [];
let isHolding = false;

beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    async fetch(request) {
      await request.arrayBuffer();
      if (isHolding) await new Promise<void>((resolve) => held.push(resolve));
      return Response.json({ input_tokens: 7, object: "response.input_tokens" });
    },
  });
  const account = (name: string, kind: string) => ({
    name,
    kind,
    base_url: `${upstream.url.origin}/v1`,
    credential: "credential",
    private_network: true,
    models: { [name]: "m" },
  });
  const models = ["claude", "gpt"];
  const file = {
    models: models.map((id) => ({ id, interfaces: INTERFACES })),
    accounts: [account("claude", "anthropic"), account("gpt", "openai")],
    groups: [
      {
        name: "default",
        interfaces: INTERFACES,
        models,
        accounts: models,
        queue: { max_waiting: 0, timeout: "1s" },
      },
    ],
    keys: Object.entries(KEYS).map(([name, fields]) => ({
      name,
      group: "default",
      secret: secret(name as KeyName),
      ...fields,
    })),
  };
  gateway = await startTestGateway({ file: JSON.stringify(file) });
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});

function post(name: KeyName, path: string, body: object): Promise<Response> {
  return fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${secret(name)}` },
    body: JSON.stringify(body),
  });
}

const MESSAGES = [{ role: "user", content: "Hello" }];
const count = (name: KeyName, model = "claude") =>
  post(name, "/v1/messages/count_tokens", { model, messages: MESSAGES });
const countGemini = (name: KeyName) =>
  post(name, "/v1beta/models/claude:countTokens", {
    contents: [{ role: "user", parts: [{ text: "Hello" }] }],
  });
const countInput = (name: KeyName) =>
  post(name, "/v1/responses/input_tokens", { model: "gpt", input: "Hello" });

async function expectLimited(response: Response, text: string): Promise<void> {
  expect(response.status).toBe(429);
  expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(await response.text()).toContain(text);
}

describe("a token count", () => {
  test("counts as one request of the minute, in every interface", async () => {
    expect((await count("once")).status).toBe(200);
    for (const next of [count, countGemini, countInput])
      await expectLimited(await next("once"), "1 requests per minute");
  });

  test("counts in windows of hours", async () => {
    expect((await countGemini("daily")).status).toBe(200);
    await expectLimited(await count("daily"), "1 requests per day");
  });

  test("does not count if the gateway rejects it", async () => {
    expect((await count("twice", "unknown")).status).toBe(404);
    expect((await post("twice", "/v1/messages/count_tokens", { messages: MESSAGES })).status).toBe(400);
    for (const status of [200, 200, 429]) expect((await count("twice")).status).toBe(status);
  });

  test("occupies the concurrency of its key while it is served", async () => {
    isHolding = true;
    const first = count("single");
    await eventually(() => held.length, { equals: 1 });
    await expectLimited(await count("single"), "1 concurrent request");
    release();
    expect((await first).status).toBe(200);
    expect((await count("single")).status).toBe(200);
  });
});

test("a key has four counts in progress and sixty that wait, and further ones are rejected", async () => {
  isHolding = true;
  const counts = Array.from({ length: 70 }, () => count("free"));
  const statuses: number[] = [];
  for (const one of counts) void one.then(({ status }) => statuses.push(status));
  await eventually(() => statuses.length === 6 && held.length === 4);
  expect(held).toHaveLength(4);
  expect(statuses).toEqual(Array(6).fill(429));
  release();
  const served = (await Promise.all(counts)).filter(({ status }) => status === 200);
  expect(served).toHaveLength(64);
  const rejected = (await Promise.all(counts)).filter(({ status }) => status === 429);
  for (const response of rejected) {
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await response.json()).toMatchObject({ error: { type: "rate_limit_error" } });
  }
});

function release(): void {
  isHolding = false;
  for (const resolve of held) resolve();
  held = [];
}
