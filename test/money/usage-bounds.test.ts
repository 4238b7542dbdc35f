/** What a user pays if an upstream reports more than the request allowed. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { eventually } from "../support/eventually.ts";
import { bill, doneId, type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";

const PRICE = { input: "3", output: "15", per_call: { web_search: "0.01" } };
const INTERFACES = ["chat", "responses", "messages", "images"];
const CONTEXT = 200_000;
const TEN_USD = 10_000_000_000n;
/** A model for each kind of bad report: three of them cool a model of an account down. */
const CLAUDES = ["claude", "limited", "unlimited"];
const sameNames = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, name]));

interface Report {
  readonly input: number;
  readonly output: number;
  readonly searches?: number;
}

let report: Report = { input: 10, output: 5 };
let images = 1;
let heldNano = 0n;
let gateway: PaidGateway;
let upstream: ReturnType<typeof Bun.serve>;

beforeAll(async () => {
  upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: respond });
  const origin = `http://127.0.0.1:${upstream.port}`;
  const account = { credential: "credential", private_network: true };
  const more = { interfaces: INTERFACES, context_tokens: CONTEXT, max_output_tokens: 8_000 };
  gateway = await startPaidGateway(
    {
      balance: "1000",
      models: {
        ...Object.fromEntries(
          [...CLAUDES, "gpt"].map((name) => [name, { upstream: name, price: PRICE, more }]),
        ),
        dear: { upstream: "dear", price: { ...PRICE, per_call: { web_search: "1" } }, more },
        draw: { upstream: "draw", price: { image: "0.04" }, more: { interfaces: ["images"] } },
      },
      accounts: [
        {
          ...account,
          name: "anthropic",
          kind: "anthropic",
          base_url: origin,
          models: sameNames([...CLAUDES, "dear"]),
        },
        {
          ...account,
          name: "openai",
          kind: "openai",
          base_url: `${origin}/v1`,
          models: sameNames(["gpt", "draw"]),
        },
      ],
      group: { interfaces: INTERFACES, web_searches_max: 1_000 },
    },
    { limits: { writeBehind: { ...limits.writeBehind, busyHolds: Number.POSITIVE_INFINITY } } },
  );
});
afterAll(async () => {
  await gateway.records.expectReconciled();
  await gateway.stop();
  await upstream.stop(true);
});
beforeEach(() => {
  images = 1;
});

async function respond(request: Request): Promise<Response> {
  const { stream } = JSON.parse(await request.text());
  ({ heldNano } = await gateway.records.wallet());
  const { pathname } = new URL(request.url);
  if (pathname.endsWith("/images/generations"))
    return Response.json({
      created: 1,
      data: Array.from({ length: images }, () => ({ url: "https://x.test/1" })),
    });
  const isMessages = pathname.endsWith("/messages");
  if (stream === true) return isMessages ? streamMessage() : streamResponse();
  return Response.json(isMessages ? message() : response());
}

const eventStream = (events: readonly { type: string }[]) =>
  new Response(events.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(""), {
    headers: { "content-type": "text/event-stream" },
  });

function messagesUsage(): object {
  const { input, output, searches = 0 } = report;
  const tools = searches === 0 ? {} : { server_tool_use: { web_search_requests: searches } };
  return { input_tokens: input, output_tokens: output, ...tools };
}

const message = () => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "up",
  content: [{ type: "text", text: "Hi" }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: messagesUsage(),
});

function streamMessage(): Response {
  const begun = {
    ...message(),
    content: [],
    stop_reason: null,
    usage: { input_tokens: 10, output_tokens: 1 },
  };
  return eventStream([
    { type: "message_start", message: begun },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hi" } },
    { type: "content_block_stop", index: 0 },
    {
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: messagesUsage(),
    },
    { type: "message_stop" },
  ] as { type: string }[]);
}

function response() {
  const { input, output, searches = 0 } = report;
  const calls = Array.from({ length: searches }, (_, at) => ({
    type: "web_search_call",
    id: `ws_${at}`,
    status: "completed",
    action: { type: "search", query: "q" },
  }));
  return {
    id: "resp_1",
    object: "response",
    created_at: 1,
    model: "up",
    status: "completed",
    output: [
      ...calls,
      { type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text: "Hi" }] },
    ],
    usage: { input_tokens: input, output_tokens: output, total_tokens: input + output },
  };
}

function streamResponse(): Response {
  const delta = { type: "response.output_text.delta", item_id: "m", output_index: 0, delta: "Hi" };
  const begun = { ...response(), status: "in_progress", output: [], usage: null };
  return eventStream([
    { type: "response.created", response: begun },
    delta,
    { type: "response.completed", response: response() },
  ] as { type: string }[]);
}

async function charge(path: string, body: object, reported: Report = report) {
  report = reported;
  const id = await doneId(await gateway.call(path, body));
  return { row: await gateway.records.row(id), held: heldNano };
}

const TURN = [{ role: "user", content: "What is new?" }];
const CHAT = { model: "claude", messages: TURN, web_search_options: {}, max_tokens: 500 };

describe.each([false, true])("streamed: %p", (stream) => {
  test("a chat with web search that read more than one window is charged what it read", async () => {
    // 330,000 × $3 + 20 × $15, per million, and one search
    const { row } = await charge(
      "/v1/chat/completions",
      { ...CHAT, stream },
      { input: 330_000, output: 20, searches: 1 },
    );
    expect(row).toMatchObject({ inputTokens: 330_000, outputTokens: 20, webSearches: 1 });
    expect(row.flags).not.toContain("clamped");
    expect(row.chargedNano).toBe(1_000_300_000n);
  });

  test("a chat without hosted tools that reports more than one window is charged its hold", async () => {
    const { row, held } = await charge(
      "/v1/chat/completions",
      { model: "claude", messages: TURN, max_tokens: 500, stream },
      { input: CONTEXT + 1, output: 20 },
    );
    expect(row).toMatchObject({ flags: ["clamped"], inputTokens: 0, chargedNano: held });
    // The whole output at least.
    expect(held).toBeGreaterThan(bill([[500, PRICE.output]]));
  });

  test("searches are bounded by max_uses of a Messages request", async () => {
    const tools = [{ type: "web_search_20250305", name: "web_search", max_uses: 3 }];
    const body = { model: "limited", messages: TURN, max_tokens: 500, tools, stream };
    const honest = await charge("/v1/messages", body, { input: 100, output: 10, searches: 3 });
    // 100 × $3 + 10 × $15, per million, and three searches
    expect(honest.row).toMatchObject({ webSearches: 3, chargedNano: 30_450_000n });
    const lying = await charge("/v1/messages", body, { input: 100, output: 10, searches: 1_000_000_000 });
    expect(lying.row).toMatchObject({ webSearches: 3, chargedNano: 30_450_000n, inputTokens: 100 });
    expect(lying.row.flags).toContain("clamped");
  });

  test("searches are bounded by max_tool_calls of a Responses request", async () => {
    const tools = [{ type: "web_search" }];
    const body = { model: "gpt", input: "What is new?", store: false, tools, max_tool_calls: 2, stream };
    const { row } = await charge("/v1/responses", body, { input: 100, output: 10, searches: 40 });
    expect(row).toMatchObject({ webSearches: 2, chargedNano: 20_450_000n });
    expect(row.flags).toContain("clamped");
  });

  test.each([-5, 0.5])("a limit of %p is none, so that no charge is negative", async (limit) => {
    const search = { type: "web_search_20250305", name: "web_search", max_uses: limit };
    const message = { model: "limited", messages: TURN, max_tokens: 500, tools: [search], stream };
    const used = { input: 100, output: 10, searches: 3 };
    const billed = { webSearches: 3, chargedNano: 30_450_000n };
    expect((await charge("/v1/messages", message, used)).row).toMatchObject(billed);
    const response = { model: "gpt", input: "What is new?", store: false, tools: [{ type: "web_search" }] };
    const limited = { ...response, max_tool_calls: limit, stream };
    expect((await charge("/v1/responses", limited, used)).row).toMatchObject(billed);
  });

  test("a billion searches without a limit of the request are charged as many as the group allows", async () => {
    const { row, held } = await charge(
      "/v1/chat/completions",
      { ...CHAT, model: "unlimited", stream },
      { input: 100, output: 10, searches: 1_000_000_000 },
    );
    // A thousand searches at $0.01, 100 × $3 and 10 × $15, per million
    expect(row).toMatchObject({ webSearches: 1_000, chargedNano: 10_000_450_000n, flags: ["clamped"] });
    expect(row.chargedNano).toBeLessThanOrEqual(held);
  });

  test("a charge is at most the hold and ten dollars, and the operator is alerted to the rest", async () => {
    const { row, held } = await charge(
      "/v1/chat/completions",
      // Nothing is held for searches that the request does not offer.
      { model: "dear", messages: TURN, max_tokens: 500, stream },
      { input: 100, output: 10, searches: 500 },
    );
    expect(row).toMatchObject({ webSearches: 500, chargedNano: held + TEN_USD, costNano: held + TEN_USD });
    expect(row.flags).toEqual(["clamped", "overrun"]);
    const line = gateway.log.find((one) => one.includes("charge_bounded") && one.includes(row.requestId));
    expect(JSON.parse(line ?? "{}")).toMatchObject({ event: "charge_bounded", cost_usd: "500.00045" });
  });
});

test("more images than requested are charged as many as requested", async () => {
  images = 100;
  const { row } = await charge("/v1/images/generations", { model: "draw", prompt: "A fox", n: 2 });
  expect(row).toMatchObject({ images: 2, chargedNano: 80_000_000n });
  expect(row.flags).toContain("clamped");
});

test("the alert billing_fault opens for bounded charges", async () => {
  const rows = await eventually(async () => {
    const found = await gateway.installation.db.sql`SELECT rule, subject FROM alert`;
    return found.length > 0 ? found : null;
  });
  expect(rows).toContainEqual(expect.objectContaining({ rule: "billing_fault", subject: "charge_bounded" }));
});
