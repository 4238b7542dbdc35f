/** Unpaid requests without a usage report are counted as paid ones are. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { bill, doneId, type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

const PRICE = { input: "1", output: "10" };
const INTERFACES = ["chat", "responses", "messages"];
const UNPAID_KEY = "unpaid-key-0123456789-0123456789-0123456789";
const TEXT = "The ledger is kept by the gateway.";

let usage: object | null = null;
let gateway: PaidGateway;
let upstream: ReturnType<typeof Bun.serve>;

beforeAll(async () => {
  upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: respond });
  const account = {
    kind: "openai",
    base_url: `http://127.0.0.1:${upstream.port}/v1`,
    credential: "credential",
    private_network: true,
    interfaces: ["chat"],
  };
  const clients = ["chat", "responses", "messages", "then"];
  const names = clients.flatMap((client) => [`${client}-whole`, `${client}-stream`]);
  gateway = await startPaidGateway({
    balance: "10",
    models: Object.fromEntries(
      names.map((name) => [name, { upstream: "up", price: PRICE, more: { interfaces: INTERFACES } }]),
    ),
    // A route of its own for each case: what a route has reported decides whether its streams are counted.
    accounts: names.map((name) => ({ ...account, name, models: { [name]: "up" } })),
    group: { interfaces: INTERFACES },
    groups: [{ name: "unpaid", interfaces: INTERFACES, models: names, accounts: names }],
    keys: [{ name: "unpaid", user: "payer@example.com", group: "unpaid", secret: UNPAID_KEY }],
  });
});
afterAll(async () => {
  await gateway.records.expectReconciled();
  await gateway.stop();
  await upstream.stop(true);
});

async function respond(request: Request): Promise<Response> {
  const { stream } = JSON.parse(await request.text());
  const head = { id: "c", created: 1, model: "up", ...(usage === null ? {} : { usage }) };
  if (stream !== true) {
    const message = { role: "assistant", content: TEXT };
    return Response.json({
      ...head,
      object: "chat.completion",
      choices: [{ index: 0, message, finish_reason: "stop" }],
    });
  }
  const chunk = (delta: object, finish_reason: string | null) =>
    `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const pieces = TEXT.split(/(?= )/).map((content) => chunk({ content }, null));
  return new Response(`${pieces.join("")}${chunk({}, "stop")}data: [DONE]\n\n`, {
    headers: { "content-type": "text/event-stream" },
  });
}

const TURN = { messages: [{ role: "user", content: "Who keeps the ledger?" }] };
const REQUESTS = {
  chat: { path: "/v1/chat/completions", body: TURN },
  responses: { path: "/v1/responses", body: { input: "Who keeps the ledger?", store: false } },
  messages: { path: "/v1/messages", body: { ...TURN, max_tokens: 100 } },
} as const;

async function record(key: string, client: keyof typeof REQUESTS, model: string, stream: boolean) {
  const { path, body } = REQUESTS[client];
  const headers = { authorization: `Bearer ${key}` };
  const id = await doneId(await gateway.call(path, { model, stream, ...body }, { headers }));
  await gateway.usageRows();
  return gateway.records.row(id);
}

test.each([
  ["chat", false],
  ["chat", true],
  ["responses", false],
  ["responses", true],
  ["messages", false],
  ["messages", true],
] as const)(
  "%s, streamed: %p: without a report both have the same counts and cost",
  async (client, stream) => {
    usage = null;
    const model = `${client}-${stream ? "stream" : "whole"}`;
    const unpaid = await record(UNPAID_KEY, client, model, stream);
    const paid = await record(TEST_KEY, client, model, stream);
    const { inputTokens, outputTokens } = paid;
    // Seven words and a full stop, one token each.
    expect(outputTokens).toBe(8);
    expect(unpaid).toMatchObject({
      inputTokens,
      outputTokens,
      usageSource: "estimated",
      flags: ["estimated"],
      chargedNano: 0n,
    });
    const cost = bill([
      [inputTokens, PRICE.input],
      [outputTokens, PRICE.output],
    ]);
    expect([unpaid.costNano, paid.costNano, paid.chargedNano]).toEqual([cost, cost, cost]);
  },
);

test("a stream without a report is never recorded without output, even if its route has reported before", async () => {
  usage = { prompt_tokens: 10, completion_tokens: 8, total_tokens: 18 };
  await record(UNPAID_KEY, "chat", "then-stream", true);
  usage = null;
  const silent = await record(UNPAID_KEY, "chat", "then-stream", true);
  expect(silent).toMatchObject({ usageSource: "estimated", flags: ["estimated"] });
  // About one token for each event.
  expect(silent.outputTokens).toBeGreaterThanOrEqual(7);
  expect(silent.outputTokens).toBeLessThanOrEqual(10);
  const counted = await record(UNPAID_KEY, "chat", "then-stream", true);
  expect(counted.outputTokens).toBe(8);
});
