/** What the first step of a request does before the request leaves it, and what of that the next step knows. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { type PaidGateway, PRICE } from "../support/paid-gateway.ts";
import { asRecord } from "../support/sse-text.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";
import {
  ask,
  billRow,
  expectNothingHeld,
  type FallbackSetup,
  readServed,
  startFallbackGateway,
} from "./fallback-gateway.ts";

setDefaultTimeout(60_000);

const stopLater = stopAfterEach(expectNothingHeld);

function start(setup: FallbackSetup, options: object = {}): Promise<PaidGateway> {
  return stopLater(startFallbackGateway(setup, options));
}

const readStep = ({ headers }: Response) => headers.get("x-gateway-step");

test("makes all attempts if no later step is for failures", async () => {
  const gateway = await start({
    moreAccounts: { "first-b": "fault/500", "first-c": "sim-fast" },
    steps: [{ group: "standard", when: ["subscription_used", "window_used"] }],
  });
  const response = await ask(gateway);
  const { row } = await readServed(gateway, response);
  expect([readStep(response), row.attempts]).toEqual(["0", 3]);
});

test("keeps one attempt for a later step that is for failures", async () => {
  const gateway = await start({
    moreAccounts: { "first-b": "fault/500", "first-c": "sim-fast" },
    steps: [{ group: "standard", when: ["failing"] }],
  });
  const response = await ask(gateway);
  const { row } = await readServed(gateway, response);
  expect([readStep(response), row.attempts]).toEqual(["1", 3]);
});

test("waits no longer than leave_after for the concurrency of its group, also with a long body", async () => {
  const gateway = await start({
    first: "sim-fast@events=500,interval=200ms",
    saver: {
      group_limits: { concurrency: 1 },
      queue: { timeout: "50s", max_waiting: 10 },
      on_disconnect: "cancel",
    },
    steps: [{ group: "standard", when: ["busy"], leave_after: "100ms" }],
  });
  const client = new AbortController();
  const occupying = gateway.call(
    "/v1/chat/completions",
    { model: "asked", messages: [{ role: "user", content: "Hello" }], stream: true },
    { signal: client.signal },
  );
  const reader = (await occupying).body?.getReader();
  await reader?.read();
  for (const words of [1, 60_000]) {
    const response = await ask(gateway, { messages: [{ role: "user", content: "x ".repeat(words) }] });
    expect([words, readStep(response)]).toEqual([words, "1"]);
    const { row } = await readServed(gateway, response);
    expect(row.waitMs).toBeLessThan(20_000);
  }
  client.abort();
  // The runtime ends a response whose reader was collected as garbage.
  await reader?.closed.catch(() => {});
  await eventually(() => gateway.records.holds(), { equals: 0 });
});

test("names what its request policy changed beside what that of the next step changes", async () => {
  const gateway = await start({
    policies: [
      {
        name: "first",
        tools: { deny: ["web_search"], over: "drop" },
        effort: { max: "medium", over: "lower" },
      },
      {
        name: "second",
        tools: { deny: ["code"], over: "drop" },
        effort: { max: "low", over: "lower" },
        output_tokens: { max: 50 },
      },
    ],
    saver: { request_policy: "first" },
    standard: { request_policy: "second" },
  });
  const response = await gateway.call("/v1/responses", {
    model: "asked",
    input: "Hello",
    max_output_tokens: 500,
    tools: [{ type: "web_search" }, { type: "code_interpreter", container: { type: "auto" } }],
    reasoning: { effort: "high" },
  });
  const { row } = await readServed(gateway, response);
  expect(response.headers.get("x-gateway-policy")?.split(", ").sort()).toEqual([
    "effort=low",
    "output_tokens=50",
    "tools=-code_interpreter",
    "tools=-web_search",
  ]);
  expect(asRecord(JSON.parse(row.trace ?? "{}")).policyChanges).toContainEqual({
    rule: "effort",
    param: "reasoning.effort",
    from: "high",
    to: "low",
  });
});

const SCHEMA = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
const CONTENTS = [{ role: "user", parts: [{ text: "Hello" }] }];

test.each([
  [
    "chat/completions",
    { response_format: { type: "json_schema", json_schema: { name: "one", schema: SCHEMA } } },
  ],
  ["responses", { text: { format: { type: "json_schema", name: "one", schema: SCHEMA } } }],
  ["gemini", { generationConfig: { responseMimeType: "application/json", responseSchema: SCHEMA } }],
  ["gemini", { generation_config: { response_mime_type: "application/json", response_schema: SCHEMA } }],
  ["gemini", { generationConfig: { responseMimeType: "application/json", responseJsonSchema: SCHEMA } }],
])("does not leave its schema for accounts without schemas: %s", async (path, more) => {
  const gateway = await start({ secondAccount: { profile: { json_schema: "none" } } });
  const messages = [{ role: "user", content: "Hello" }];
  const response =
    path === "gemini"
      ? await gateway.call("/v1beta/models/asked:generateContent", { contents: CONTENTS, ...more })
      : await gateway.call(`/v1/${path}`, {
          model: "asked",
          ...(path === "responses" ? { input: "Hello" } : { messages }),
          ...more,
        });
  expect([response.status, await response.text()]).toEqual([502, expect.stringContaining("not_eligible")]);
});

/** Google accepts a hundred texts at once: three batches, of which one fails. */
const TEXTS = [...Array.from({ length: 250 }, () => "hello"), "fail"];

async function startWithBatches(second: string): Promise<PaidGateway> {
  const upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const text = await request.text();
      if (text.includes('"fail"')) return new Response(null, { status: 500 });
      const { requests } = JSON.parse(text);
      const usageMetadata = { promptTokenCount: 300_000 };
      return Response.json({ embeddings: requests.map(() => ({ values: [0.6, 0.8] })), usageMetadata });
    },
  });
  const gateway = await start({
    second,
    firstAccount: { kind: "gemini", base_url: `http://127.0.0.1:${upstream.port}` },
  });
  return { ...gateway, stop: () => gateway.stop().then(() => upstream.stop(true)) };
}

test("leaves its finished batches to the operator, and the step charges what it has done", async () => {
  const gateway = await startWithBatches("sim-fast");
  const response = await gateway.call("/v1/embeddings", { model: "asked", input: TEXTS });
  const { row } = await readServed(gateway, response);
  expect([readStep(response), row.chargedNano]).toEqual(["1", billRow(row, PRICE, "2")]);
  expect(row.inputTokens).toBeLessThan(5_000);
});

test("if the next step fails too, finished batches are not charged, and the Idempotency-Key is used up", async () => {
  const gateway = await startWithBatches("fault/500");
  const init = { headers: { "idempotency-key": "batches-1" } };
  const response = await gateway.call("/v1/embeddings", { model: "asked", input: TEXTS }, init);
  const error = asRecord(asRecord(await response.json()).error);
  expect([response.status, error.code]).toEqual([502, "upstream_error"]);
  const row = await gateway.records.row(response.headers.get("x-request-id") ?? "");
  expect([row.chargedNano, row.inputTokens, row.fallbackStep]).toEqual([0n, 0, null]);
  expect((await gateway.records.wallet()).balanceNano).toBe(5_000_000_000n);
  const repeat = await gateway.call("/v1/embeddings", { model: "asked", input: TEXTS }, init);
  expect(repeat.status).toBe(409);
  await repeat.text();
});
