/** A hold covers what a model may read and write, as far as the balance allows. */

import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { parseUsd } from "../../src/money/nano.ts";
import { expectRejection } from "../support/error-envelope.ts";
import { bill, doneId, type PaidGateway, PRICE, startPaidGateway } from "../support/paid-gateway.ts";

setDefaultTimeout(60_000);

interface Setup {
  balance?: string;
  price?: object;
  more?: object;
  /** What the gateway learns of an upstream is not for other tests: the name of the only test that uses it. */
  test?: string;
}

type Respond = (asked: Record<string, unknown>, count: number) => Response;

/** A gateway, and an upstream with the responses of the current test that records its requests. */
interface Started {
  readonly gateway: PaidGateway;
  respond: Respond;
  asked: Record<string, unknown>[];
  stop(): Promise<void>;
}

/** One for each setup. */
const running = new Map<string, Promise<Started>>();

afterAll(async () => {
  for (const started of running.values()) await (await started).stop();
});

async function start(respond: Respond, setup: Setup = {}): Promise<Started> {
  const key = JSON.stringify(setup);
  const starting = running.get(key) ?? startNew(setup);
  running.set(key, starting);
  return Object.assign(await starting, { respond, asked: [] });
}

async function startNew({ balance = "10.00", price = PRICE, more = {} }: Setup): Promise<Started> {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      // This upstream stores no responses.
      if (request.method === "GET") return new Response("unknown", { status: 404 });
      const body: Record<string, unknown> = JSON.parse(await request.text());
      return started.respond(body, started.asked.push(body));
    },
  });
  const account = { name: "own", kind: "openai", base_url: `http://127.0.0.1:${server.port}/v1` };
  const gateway = await startPaidGateway(
    {
      balance,
      models: { paid: { upstream: "up", price, more } },
      accounts: [{ ...account, private_network: true, models: { paid: "up" } }],
    },
    { limits: { keepAliveTickMs: 50 } },
  );
  const started: Started = {
    gateway,
    respond: () => new Response("unknown", { status: 404 }),
    asked: [],
    async stop() {
      await gateway.stop();
      await server.stop(true);
    },
  };
  return started;
}

const buildReply = (input_tokens: number, output_tokens: number, id = "resp_1") =>
  Response.json({
    id,
    object: "response",
    status: "completed",
    model: "up",
    output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "yes" }] }],
    usage: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens },
  });

/** The stream can be cut off: an end without a terminal event is not an end. */
const events = (list: readonly string[]) =>
  new Response(
    new ReadableStream({
      async start(controller) {
        for (const event of list) {
          controller.enqueue(new TextEncoder().encode(event));
          await Bun.sleep(5);
        }
        controller.close();
      },
    }),
    { headers: { "content-type": "text/event-stream" } },
  );
const named = (type: string, rest: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
const chunk = (content: string, usage?: object) =>
  `data: ${JSON.stringify({ id: "c", model: "up", choices: [{ index: 0, delta: { content } }], usage })}\n\n`;

const file = { type: "input_file", file_url: "https://example.com/big.pdf" };
const picture = { type: "input_image", file_id: "file-1" };

describe("input outside the body is charged:", () => {
  test.each([
    { input: [{ role: "user", content: [file] }] },
    { input: [{ role: "user", content: [picture] }] },
    { input: "look it up", tools: [{ type: "web_search" }] },
    { input: "go on", conversation: "conv_1" },
    { input: [{ type: "item_reference", id: "msg_1" }] },
  ])("%j", async (body) => {
    const more = { context_tokens: 400_000 };
    const { gateway } = await start(() => buildReply(300_000, 10), { more });
    const id = await doneId(
      await gateway.call("/v1/responses", { model: "paid", max_output_tokens: 16, ...body }),
    );
    const row = await gateway.records.row(id);
    const lines = [
      [300_000, PRICE.input],
      [10, PRICE.output],
    ] as const;
    expect(row).toMatchObject({ chargedNano: bill(lines), costNano: bill(lines), flags: [] });
  });

  test("in full if its length is unknown, and the missing balance becomes debt", async () => {
    const { gateway } = await start(() => buildReply(300_000, 10), { balance: "0.10" });
    const body = { model: "paid", max_output_tokens: 16, input: [{ role: "user", content: [file] }] };
    const row = await gateway.records.row(await doneId(await gateway.call("/v1/responses", body)));
    const chargedNano = bill([
      [300_000, PRICE.input],
      [10, PRICE.output],
    ]);
    expect(row).toMatchObject({ chargedNano, flags: ["overrun"] });
    expect((await gateway.records.wallet()).balanceNano).toBe(parseUsd("0.10") - chargedNano);
    await gateway.records.expectReconciled();
  });
});

test("a stored conversation is charged by its count, and rejected if the balance is too low", async () => {
  const { gateway, asked } = await start((_, count) => buildReply(100_000, 10, `resp_${count}`), {
    balance: "0.55",
    more: { context_tokens: 1_000_000 },
  });
  const ask = (previous_response_id: string | null) =>
    gateway.call("/v1/responses", {
      model: "paid",
      max_output_tokens: 16,
      input: "hi",
      previous_response_id,
    });
  // The length of the first one was unknown: it costs more than its hold.
  await doneId(await ask(null));
  const { balanceNano } = await gateway.records.wallet();
  expect(balanceNano).toBeGreaterThan(bill([[100_010, PRICE.input]]));
  const row = await gateway.records.row(await doneId(await ask("resp_1")));
  expect(row).toMatchObject({ inputTokens: 100_000, flags: [] });
  const error = await expectRejection(await ask("resp_2"), 429);
  expect(error).toMatchObject({ code: "insufficient_quota" });
  expect(asked).toHaveLength(2);
});

test.each([
  ["/v1/chat/completions", { messages: [{ role: "user", content: "hi" }] }, "max_completion_tokens"],
  ["/v1/responses", { input: "hi" }, "max_output_tokens"],
] as const)("an unlimited response is limited to its hold: %s", async (path, prompt, field) => {
  const { gateway, asked } = await start(() => buildReply(1, 1));
  await gateway.call(path, { model: "paid", ...prompt }).then((response) => response.text());
  await gateway.call(path, { model: "paid", ...prompt, [field]: 20_000 }).then((response) => response.text());
  expect(asked.map((body) => body[field])).toEqual([16_384, 20_000]);
});

test("an invalid output limit is rejected for paying callers, without a request or a charge", async () => {
  const { gateway, asked } = await start(() => buildReply(1, 1));
  for (const max_output_tokens of [0, "5", 1.5, []]) {
    const response = await gateway.call("/v1/responses", { model: "paid", input: "hi", max_output_tokens });
    const { error } = (await response.json()) as { error: { param: string; message: string } };
    expect([response.status, error.param]).toEqual([400, "max_output_tokens"]);
    expect(error.message).toContain("1 or more");
  }
  expect(asked).toEqual([]);
  expect((await gateway.records.wallet()).heldNano).toBe(0n);
});

test("a model with a known maximum output gets no output limit", async () => {
  const { gateway, asked } = await start(() => buildReply(1, 1), { more: { max_output_tokens: 32_000 } });
  const id = await doneId(await gateway.call("/v1/responses", { model: "paid", input: "hi" }));
  expect(asked[0]).not.toHaveProperty("max_output_tokens");
  expect((await gateway.records.row(id)).flags).toEqual([]);
});

test("a stream far beyond its output limit is stopped, even with enough balance", async () => {
  const words = Array.from({ length: 400 }, () => chunk("word ".repeat(20)));
  const { gateway } = await start(() => events(words));
  const body = { model: "paid", stream: true, max_tokens: 100, messages: [{ role: "user", content: "hi" }] };
  const text = await (await gateway.call("/v1/chat/completions", body)).text();
  expect(text).toContain("insufficient_quota");
});

describe("an upstream that rejects the output limit that the gateway added", () => {
  const CHAT = { model: "paid", messages: [{ role: "user", content: "hi" }] };
  const BOUNDS = ["max_completion_tokens", "max_tokens", "max_output_tokens"];
  const boundsIn = (asked: readonly Record<string, unknown>[]) =>
    asked.map((body) => BOUNDS.filter((name) => name in body).join());
  const respond = () =>
    Response.json({
      id: "c",
      object: "chat.completion",
      model: "up",
      choices: [{ index: 0, message: { role: "assistant", content: "yes" }, finish_reason: "stop" }],
      usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 },
    });
  const refusing = (names: readonly string[], code: string, status: number) => (body: object) => {
    const param = names.find((name) => name in body);
    if (param === undefined) return "input" in body ? buildReply(5, 3) : respond();
    const message = code === "invalid_value" ? `${param} is too large: 16384.` : `Unsupported: '${param}'.`;
    return Response.json({ error: { message, type: "invalid_request_error", param, code } }, { status });
  };

  test.each([400, 422])(
    "is called with the other field, and from then on only with that one (%d)",
    async (status) => {
      const { gateway, asked } = await start(
        refusing(["max_completion_tokens"], "unsupported_parameter", status),
        { test: `the other field ${status}` },
      );
      await doneId(await gateway.call("/v1/chat/completions", CHAT));
      await doneId(await gateway.call("/v1/chat/completions", CHAT));
      expect(boundsIn(asked)).toEqual(["max_completion_tokens", "max_tokens", "max_tokens"]);
      expect(asked[1]?.max_tokens).toBe(asked[0]?.max_completion_tokens);
      await gateway.records.expectReconciled();
    },
  );

  test.each([
    ["/v1/chat/completions", CHAT, ["max_completion_tokens", "max_tokens"]],
    ["/v1/responses", { model: "paid", input: "hi" }, ["max_output_tokens"]],
  ] as const)("is called without a limit if it accepts none: %s", async (path, body, names) => {
    const { gateway, asked } = await start(refusing(names, "unsupported_parameter", 400), {
      test: `none ${path}`,
    });
    const row = await gateway.records.row(await doneId(await gateway.call(path, body)));
    expect(row).toMatchObject({ inputTokens: 5, outputTokens: 3, flags: [] });
    await doneId(await gateway.call(path, body));
    expect(boundsIn(asked)).toEqual([...names, "", ""]);
  });

  test("gets the limit again in the next request if it was only too large", async () => {
    const { gateway, asked } = await start(
      refusing(["max_completion_tokens", "max_tokens"], "invalid_value", 400),
      { test: "too large" },
    );
    for (let i = 0; i < 2; i++) await doneId(await gateway.call("/v1/chat/completions", CHAT));
    const tries = ["max_completion_tokens", "max_tokens", ""];
    expect(boundsIn(asked)).toEqual([...tries, ...tries]);
  });

  test("is charged in full, and the missing balance becomes debt", async () => {
    const { gateway } = await start(
      (body) =>
        "max_output_tokens" in body
          ? refusing(["max_output_tokens"], "unsupported_parameter", 400)(body)
          : buildReply(5, 1_000_000),
      { balance: "0.05", more: { max_output_tokens: 2_000_000 } },
    );
    const id = await doneId(await gateway.call("/v1/responses", { model: "paid", input: "hi" }));
    const row = await gateway.records.row(id);
    expect(row.chargedNano).toBe(row.costNano);
    expect(row.flags).toContain("overrun");
    expect((await gateway.records.wallet()).balanceNano).toBe(parseUsd("0.05") - row.costNano);
    await gateway.records.expectReconciled();
  });

  test("is not called again for a limit that the client sent", async () => {
    const { gateway, asked } = await start(
      refusing(["max_completion_tokens"], "unsupported_parameter", 400),
      { balance: "0.01" },
    );
    const bounded = { ...CHAT, max_completion_tokens: 100_000 };
    const error = await expectRejection(await gateway.call("/v1/chat/completions", bounded), 400);
    expect(error).toMatchObject({ param: "max_completion_tokens" });
    expect(asked).toHaveLength(1);
  });
});

test("whitespace in bodies of other users does not make input cheaper", async () => {
  const respond: Respond = ({ input }) => {
    const prompt_tokens = Math.ceil(String(input).length * 0.45);
    return Response.json({
      object: "list",
      model: "up",
      data: [{ object: "embedding", index: 0, embedding: [0.1] }],
      usage: { prompt_tokens, total_tokens: prompt_tokens },
    });
  };
  const { gateway } = await start(respond, { test: "whitespace" });
  const padded = `{"model":"paid",${" ".repeat(20_000)}"input":"a"}`;
  for (let i = 0; i < 40; i++) await doneId(await gateway.call("/v1/embeddings", padded));
  const body = { model: "paid", input: "x".repeat(100_000) };
  const row = await gateway.records.row(await doneId(await gateway.call("/v1/embeddings", body)));
  expect(row).toMatchObject({ chargedNano: bill([[45_000, PRICE.input]]), flags: [] });
});

describe("usage that is reported too early is ignored", () => {
  const TEXT = "a long answer with many words ".repeat(20);

  test("for a response that is cut off", async () => {
    const usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
    const response = {
      id: "resp_9",
      object: "response",
      status: "in_progress",
      model: "up",
      output: [],
      usage,
    };
    const delta = { item_id: "m", output_index: 0, content_index: 0, delta: TEXT };
    const { gateway } = await start(() =>
      events([named("response.created", { response }), named("response.output_text.delta", delta)]),
    );
    const asked = await gateway.call("/v1/responses", { model: "paid", stream: true, input: "hi" });
    await asked.text();
    const row = await gateway.records.row(asked.headers.get("x-request-id") ?? "");
    expect(row).toMatchObject({ outcome: "upstream_cut", flags: ["partial"] });
    expect(row.outputTokens).toBeGreaterThan(100);
  });

  test("for a chat completion that is cut off", async () => {
    const usage = { prompt_tokens: 9, completion_tokens: 0, total_tokens: 9 };
    const { gateway } = await start(() => events([chunk("a", usage), chunk(TEXT), chunk(TEXT)]));
    const messages = [{ role: "user", content: "hi" }];
    const asked = await gateway.call("/v1/chat/completions", { model: "paid", stream: true, messages });
    await asked.text();
    const row = await gateway.records.row(asked.headers.get("x-request-id") ?? "");
    expect(row).toMatchObject({ outcome: "upstream_cut", inputTokens: 9, flags: ["partial"] });
    expect(row.outputTokens).toBeGreaterThan(200);
  });
});

test.each([
  [{ image: "0.19" }, "0.19"],
  [{ input: "5", output: "40" }, "0.16641"],
])("an image that is cut off after it began is charged by %j", async (price, usd) => {
  const partial = named("image_generation.partial_image", { b64_json: "AAAA", partial_image_index: 0 });
  const { gateway } = await start(() => events([partial, partial]), { price });
  const body = { model: "paid", stream: true, partial_images: 3, prompt: "a cat", size: "1024x1024" };
  const asked = await gateway.call("/v1/images/generations", body);
  await asked.text();
  const row = await gateway.records.row(asked.headers.get("x-request-id") ?? "");
  expect(row).toMatchObject({ images: 1, chargedNano: parseUsd(usd), flags: ["partial"] });
});

describe("images without reported tokens", () => {
  const PICTURE = { b64_json: "AAAA", size: "1024x1024", quality: "high" };
  const partial = named("image_generation.partial_image", { ...PICTURE, partial_image_index: 0 });
  const completed = named("image_generation.completed", PICTURE);
  const whole = () => Response.json({ created: 1, size: "1024x1024", quality: "high", data: [PICTURE] });

  async function drawn(respond: () => Response, price: object, fields: object) {
    const { gateway } = await start(respond, { price });
    const asked = await gateway.call("/v1/images/generations", { model: "paid", prompt: "a cat", ...fields });
    const text = await asked.text();
    const row = await gateway.records.row(asked.headers.get("x-request-id") ?? "");
    await gateway.records.expectReconciled();
    return { text, row };
  }

  test.each([false, true])(
    "are charged by the tokens of their size and quality (stream: %p)",
    async (stream) => {
      const respond = () => (stream ? events([partial, completed]) : whole());
      const { row } = await drawn(respond, { input: "5", output: "40" }, { stream, quality: "medium" });
      expect(row).toMatchObject({ inputTokens: 2, outputTokens: 1_056, flags: ["estimated"] });
      expect(row.chargedNano).toBe(parseUsd("0.04225"));
    },
  );

  test.each([{}, { size: "auto", quality: "auto" }, { size: "1024x1024" }])(
    "are charged by the size in the response if the request has %j",
    async (fields) => {
      const images = { "1024x1024": "0.04", "1024x1024/high": "0.167" };
      const { row } = await drawn(whole, { input: "5", image: "0.02", images }, fields);
      expect(row).toMatchObject({ costNano: parseUsd("0.16701"), chargedNano: parseUsd("0.16701") });
    },
  );

  test("of which the second is cut off are both charged, and the client gets an error", async () => {
    const fields = { stream: true, n: 2, partial_images: 1 };
    const { text, row } = await drawn(() => events([completed, partial]), { image: "0.04" }, fields);
    expect(text).toContain("event: error");
    expect(row).toMatchObject({ outcome: "upstream_cut", images: 2, flags: ["partial"] });
    expect(row.chargedNano).toBe(parseUsd("0.08"));
  });
});
