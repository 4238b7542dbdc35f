/** Usage as vendors with OpenAI's API report it, each in its own way: what a request is charged, to the nano-dollar. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { bill, doneId, type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";

const PRICE = { input: "2", cached_input: "0.5", output: "10", reasoning: "12" };

interface VendorReport {
  readonly usage: object;
  /** Where a stream has the usage: in a last chunk without choices, or in Groq's own member of the last chunk. */
  readonly inStream: "usage" | "x_groq";
}

let report: VendorReport = { usage: {}, inStream: "usage" };
let gateway: PaidGateway;
let upstream: ReturnType<typeof Bun.serve>;

beforeAll(async () => {
  upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: respond });
  gateway = await startPaidGateway({
    balance: "10",
    models: {
      paid: { upstream: "up", price: PRICE, more: { interfaces: ["chat", "responses", "messages"] } },
    },
    accounts: [
      {
        name: "vendor",
        kind: "openai",
        base_url: `http://127.0.0.1:${upstream.port}/v1`,
        credential: "credential",
        private_network: true,
        interfaces: ["chat"],
        models: { paid: "up" },
      },
    ],
    group: { interfaces: ["chat", "responses", "messages"] },
  });
});
afterAll(async () => {
  await gateway.records.expectReconciled();
  await gateway.stop();
  await upstream.stop(true);
});

async function respond(request: Request): Promise<Response> {
  const { stream } = JSON.parse(await request.text());
  const head = { id: "c", created: 1, model: "up" };
  if (stream !== true) {
    const message = { role: "assistant", content: "Hi" };
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    return Response.json({ ...head, object: "chat.completion", choices, usage: report.usage });
  }
  const chunk = (delta: object, finish_reason: string | null, more: object = {}) => ({
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason }],
    ...more,
  });
  const isGroq = report.inStream === "x_groq";
  const chunks = [
    chunk({ role: "assistant", content: "" }, null, isGroq ? { x_groq: { id: "req_1" } } : {}),
    chunk({ content: "Hi" }, null),
    chunk({}, "stop", isGroq ? { x_groq: { id: "req_1", usage: report.usage } } : {}),
    ...(isGroq ? [] : [{ ...head, object: "chat.completion.chunk", choices: [], usage: report.usage }]),
  ];
  const events = chunks.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("");
  return new Response(`${events}data: [DONE]\n\n`, { headers: { "content-type": "text/event-stream" } });
}

const CLIENTS = [
  ["chat", "/v1/chat/completions", { messages: [{ role: "user", content: "Hello" }] }],
  ["translated responses", "/v1/responses", { input: "Hello", store: false }],
  [
    "translated messages",
    "/v1/messages",
    { max_tokens: 500, messages: [{ role: "user", content: "Hello" }] },
  ],
] as const;

describe.each(CLIENTS)("%s", (_, path, body) => {
  describe.each([false, true])("streamed: %p", (stream) => {
    async function charge(vendorReport: VendorReport) {
      report = vendorReport;
      const id = await doneId(await gateway.call(path, { model: "paid", stream, ...body }));
      return gateway.records.row(id);
    }

    test("xAI counts reasoning beside the completion", async () => {
      const usage = {
        prompt_tokens: 12,
        completion_tokens: 1,
        total_tokens: 303,
        completion_tokens_details: { reasoning_tokens: 290 },
      };
      const row = await charge({ usage, inStream: "usage" });
      expect(row).toMatchObject({ inputTokens: 12, outputTokens: 291, reasoningTokens: 290, flags: [] });
      // 12 × $2 + 1 × $10 + 290 × $12, per million
      expect(row.chargedNano).toBe(3_514_000n);
    });

    test("Google under OpenAI's API has thoughts in the total only", async () => {
      const usage = { prompt_tokens: 12, completion_tokens: 1, total_tokens: 303 };
      const row = await charge({ usage, inStream: "usage" });
      expect(row).toMatchObject({ inputTokens: 12, outputTokens: 291, flags: [] });
      // 12 × $2 + 291 × $10, per million
      expect(row.chargedNano).toBe(2_934_000n);
    });

    test("OpenRouter's reasoning above the completion is bounded by it if the total confirms the completion", async () => {
      const usage = {
        prompt_tokens: 20,
        completion_tokens: 50,
        total_tokens: 70,
        completion_tokens_details: { reasoning_tokens: 64 },
      };
      const row = await charge({ usage, inStream: "usage" });
      expect(row).toMatchObject({
        outputTokens: 50,
        reasoningTokens: 50,
        flags: [],
        usageSource: "upstream",
      });
      expect(row.chargedNano).toBe(
        bill([
          [20, "2"],
          [50, "12"],
        ]),
      );
    });

    test("reasoning above the completion is beside it if there is no total", async () => {
      const usage = {
        prompt_tokens: 20,
        completion_tokens: 50,
        completion_tokens_details: { reasoning_tokens: 64 },
      };
      const row = await charge({ usage, inStream: "usage" });
      expect(row).toMatchObject({
        outputTokens: 114,
        reasoningTokens: 64,
        flags: [],
        usageSource: "upstream",
      });
      // 20 × $2 + 50 × $10 + 64 × $12, per million
      expect(row.chargedNano).toBe(1_308_000n);
    });

    test("Moonshot has the hits of its cache at the top level", async () => {
      const usage = { prompt_tokens: 1_000, completion_tokens: 20, total_tokens: 1_020, cached_tokens: 768 };
      const row = await charge({ usage, inStream: "usage" });
      expect(row).toMatchObject({ inputTokens: 1_000, cachedTokens: 768, outputTokens: 20, flags: [] });
      // 232 × $2 + 768 × $0.50 + 20 × $10, per million
      expect(row.chargedNano).toBe(1_048_000n);
    });

    test("Groq has the usage of a stream in a member of its own", async () => {
      const usage = {
        queue_time: 0.2,
        prompt_tokens: 44,
        prompt_time: 0.001,
        completion_tokens: 17,
        completion_time: 0.02,
        total_tokens: 61,
        total_time: 0.03,
      };
      const row = await charge({ usage, inStream: "x_groq" });
      expect(row).toMatchObject({ inputTokens: 44, outputTokens: 17, flags: [], usageSource: "upstream" });
      // 44 × $2 + 17 × $10, per million
      expect(row.chargedNano).toBe(258_000n);
    });
  });
});
