/** Several passes of one Messages request (`usage.iterations`): what is counted and charged. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { doneId, type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";

const INTERFACES = ["chat", "messages"];
const SONNET = { input: "3", cached_input: "0.3", cache_write: "3.75", output: "15" };
const LONG = { ...SONNET, long_context: { above: 200_000, input: "6", output: "22.5" } };
const OPUS = { input: "5", cached_input: "0.5", cache_write: "6.25", output: "25" };

let usage: object = {};
let gateway: PaidGateway;
let upstream: ReturnType<typeof Bun.serve>;

beforeAll(async () => {
  upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: respond });
  const more = { interfaces: INTERFACES, context_tokens: 1_000_000, max_output_tokens: 64_000 };
  gateway = await startPaidGateway({
    balance: "100",
    models: {
      sonnet: { upstream: "claude-sonnet-4-6", price: SONNET, more },
      long: { upstream: "claude-sonnet-long", price: LONG, more },
      opus: { upstream: "claude-opus-5", price: OPUS, more },
    },
    accounts: [
      {
        name: "anthropic",
        kind: "anthropic",
        base_url: `http://127.0.0.1:${upstream.port}`,
        credential: "credential",
        private_network: true,
        models: { sonnet: "claude-sonnet-4-6", long: "claude-sonnet-long", opus: "claude-opus-5" },
      },
    ],
    group: { interfaces: INTERFACES },
  });
});
afterAll(async () => {
  await gateway.records.expectReconciled();
  await gateway.stop();
  await upstream.stop(true);
});

async function respond(request: Request): Promise<Response> {
  const { stream, model } = JSON.parse(await request.text());
  const head = { id: "msg_1", type: "message", role: "assistant", model, stop_sequence: null };
  if (stream !== true) {
    const content = [{ type: "text", text: "Hi" }];
    return Response.json({ ...head, content, stop_reason: "end_turn", usage });
  }
  const begun = { ...head, content: [], stop_reason: null, usage: { input_tokens: 612, output_tokens: 1 } };
  const events = [
    { type: "message_start", message: begun },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hi" } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage },
    { type: "message_stop" },
  ];
  return new Response(events.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(""), {
    headers: { "content-type": "text/event-stream" },
  });
}

const BODY = { messages: [{ role: "user", content: "Hello" }], max_tokens: 4_000 };

describe.each([
  ["messages", "/v1/messages"],
  ["translated chat", "/v1/chat/completions"],
])("%s", (_, path) => {
  describe.each([false, true])("streamed: %p", (stream) => {
    async function charge(model: string, report: object) {
      usage = report;
      const id = await doneId(await gateway.call(path, { ...BODY, model, stream }));
      return { id, row: await gateway.records.row(id) };
    }

    test("a compaction is counted and charged beside the message, with its cache write", async () => {
      const { id, row } = await charge("sonnet", {
        input_tokens: 612,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        output_tokens: 2_819,
        iterations: [
          {
            type: "compaction",
            input_tokens: 5_289,
            cache_creation_input_tokens: 55_096,
            cache_read_input_tokens: 0,
            output_tokens: 522,
          },
          { type: "message", input_tokens: 612, output_tokens: 2_819 },
        ],
      });
      expect(row).toMatchObject({
        inputTokens: 60_997,
        cacheWriteTokens: 55_096,
        outputTokens: 3_341,
        // The conversation of this test is shorter than what the upstream reports.
        flags: ["overrun"],
      });
      // 5,901 × $3 + 55,096 × $3.75 + 3,341 × $15, per million
      expect(row.chargedNano).toBe(274_428_000n);
      const bill = await (await gateway.call(`/v1/requests/${id}`)).json();
      expect(bill).toMatchObject({
        money: {
          cost: "0.274428",
          calculation: {
            lines: [{ unit: "input", count: 5_901 }, { unit: "cache_write", count: 55_096 }, {}],
          },
        },
      });
    });

    test("iterations that are the message alone are not counted twice", async () => {
      const iterations = [{ type: "message", input_tokens: 1_000, output_tokens: 100 }];
      const { row } = await charge("sonnet", { input_tokens: 1_000, output_tokens: 100, iterations });
      // 1,000 × $3 + 100 × $15, per million
      expect(row).toMatchObject({ inputTokens: 1_000, outputTokens: 100, chargedNano: 4_500_000n });
    });

    test("a compaction without a message is charged", async () => {
      const iterations = [{ type: "compaction", input_tokens: 2_930, output_tokens: 1_313 }];
      const { row } = await charge("sonnet", { input_tokens: 0, output_tokens: 0, iterations });
      // 2,930 × $3 + 1,313 × $15, per million
      expect(row).toMatchObject({ inputTokens: 2_930, outputTokens: 1_313, chargedNano: 28_485_000n });
    });

    test("the advice of another model is charged at its price, under a dated name too", async () => {
      const { row } = await charge("sonnet", {
        input_tokens: 1_000,
        output_tokens: 100,
        iterations: [
          { type: "message", model: "claude-sonnet-4-6", input_tokens: 400, output_tokens: 40 },
          {
            type: "advisor_message",
            model: "claude-opus-5-20260801",
            input_tokens: 2_000,
            output_tokens: 500,
          },
          { type: "message", model: "claude-sonnet-4-6", input_tokens: 600, output_tokens: 60 },
        ],
      });
      expect(row).toMatchObject({ inputTokens: 3_000, outputTokens: 600 });
      // 1,000 × $3 + 100 × $15 and 2,000 × $5 + 500 × $25, per million
      expect(row.chargedNano).toBe(27_000_000n);
    });

    test("a model without a price in the group has the price of the requested one", async () => {
      const { row } = await charge("sonnet", {
        input_tokens: 1_000,
        output_tokens: 100,
        iterations: [
          { type: "message", input_tokens: 1_000, output_tokens: 100 },
          { type: "fallback_message", model: "claude-unknown-9", input_tokens: 1_000, output_tokens: 100 },
        ],
      });
      expect(row).toMatchObject({ inputTokens: 2_000, chargedNano: 9_000_000n });
    });

    test("passes of short contexts are not a long context together", async () => {
      const pass = { input_tokens: 150_000, output_tokens: 100 };
      const { row } = await charge("long", {
        ...pass,
        iterations: [
          { type: "compaction", ...pass },
          { type: "message", ...pass },
        ],
      });
      // 300,000 × $3 + 200 × $15, per million
      expect(row).toMatchObject({ inputTokens: 300_000, chargedNano: 903_000_000n });
    });

    test("an impossible count in a pass makes the report impossible", async () => {
      const iterations = [{ type: "message", input_tokens: -5, output_tokens: 100 }];
      const { row } = await charge("opus", { input_tokens: 10, output_tokens: 100, iterations });
      expect(row.flags).toEqual(["clamped"]);
    });
  });
});
