/**
 * Upstreams that send what no vendor sends, behind a paid gateway: their clients receive a valid end, the gateway stays
 * within its memory, and the charge is that of a native stream.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";
import { eventsIn } from "../support/sse-text.ts";

setDefaultTimeout(60_000);

const DIALECTS = ["chat", "responses", "messages", "gemini"] as const;
type Dialect = (typeof DIALECTS)[number];

/** What the upstream sends next, as pieces of an event stream. */
let respond: () => AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array> = () => [];
let upstream: ReturnType<typeof Bun.serve>;
let gateway: PaidGateway;

beforeAll(async () => {
  upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: () => new Response(toStream(respond()), { headers: { "content-type": "text/event-stream" } }),
  });
  const origin = `http://127.0.0.1:${upstream.port}`;
  const kinds = { chat: "openai", responses: "openai", messages: "anthropic", gemini: "gemini" };
  gateway = await startPaidGateway({
    balance: "1000",
    models: Object.fromEntries(
      DIALECTS.map((id) => [id, { upstream: "up", more: { interfaces: DIALECTS } }]),
    ),
    accounts: DIALECTS.map((dialect) => ({
      name: dialect,
      kind: kinds[dialect],
      base_url: dialect === "gemini" ? origin : `${origin}/v1`,
      credential: "credential",
      private_network: true,
      ...(kinds[dialect] === "openai" ? { interfaces: [dialect] } : {}),
      models: { [dialect]: "up" },
    })),
    group: { interfaces: DIALECTS },
  });
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});

function toStream(pieces: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>) {
  async function* chunks() {
    for await (const piece of pieces) yield typeof piece === "string" ? Buffer.from(piece) : piece;
  }
  return chunks() as unknown as ReadableStream;
}

const data = (json: unknown) => `data: ${JSON.stringify(json)}\n\n`;
const named = (json: { type: string }) => `event: ${json.type}\n${data(json)}`;

function path(client: Dialect, model: string): string {
  if (client === "gemini") return `/v1beta/models/${model}:streamGenerateContent?alt=sse`;
  return { chat: "/v1/chat/completions", responses: "/v1/responses", messages: "/v1/messages" }[client];
}

function body(client: Dialect, model: string): object {
  const turn = [{ role: "user", content: "Hello" }];
  switch (client) {
    case "chat":
      return { model, messages: turn, stream: true };
    case "responses":
      return { model, input: turn, stream: true, store: false };
    case "messages":
      return { model, messages: turn, max_tokens: 100, stream: true };
    case "gemini":
      return { contents: [{ role: "user", parts: [{ text: "Hello" }] }] };
  }
}

async function send(client: Dialect, model: Dialect): Promise<{ text: string; status: number; id: string }> {
  const response = await gateway.call(path(client, model), body(client, model));
  const text = await response.text();
  return { text, status: response.status, id: response.headers.get("x-request-id") ?? "" };
}

/** How a stream ends: all terminal events of its dialect. */
function terminals(client: Dialect, text: string): string[] {
  return eventsIn(text).flatMap(({ data: json }) => {
    if (json === "[DONE]") return client === "chat" ? ["done"] : [];
    const event = JSON.parse(json);
    if (event.error !== undefined || event.type === "error" || event.type === "response.failed")
      return ["error"];
    const isEnd =
      event.type === "message_stop" ||
      event.type === "response.completed" ||
      event.type === "response.incomplete" ||
      event.candidates?.[0]?.finishReason !== undefined;
    return isEnd ? ["done"] : [];
  });
}

const pairs = DIALECTS.flatMap((client) =>
  DIALECTS.filter((model) => model !== client).map((model) => [client, model] as const),
);

const text = "Hello there, this is a sentence. ";
/** The beginning of a stream with one text. */
const BEGINNING: Readonly<Record<Dialect, readonly string[]>> = {
  chat: [data({ id: "c", choices: [{ index: 0, delta: { role: "assistant", content: text } }] })],
  responses: [
    named({ type: "response.created", ...{ response: { id: "r" } } }),
    named({ type: "response.output_text.delta", ...{ output_index: 0, content_index: 0, delta: text } }),
  ],
  messages: [
    named({
      type: "message_start",
      ...{
        message: { id: "m", role: "assistant", content: [], usage: { input_tokens: 9, output_tokens: 1 } },
      },
    }),
    named({ type: "content_block_start", ...{ index: 0, content_block: { type: "text", text: "" } } }),
    named({ type: "content_block_delta", ...{ index: 0, delta: { type: "text_delta", text } } }),
  ],
  gemini: [data({ candidates: [{ index: 0, content: { role: "model", parts: [{ text }] } }] })],
};
/** The end, with a usage. */
function ending(dialect: Dialect, input: number, output: number): readonly string[] {
  const openai = { input_tokens: input, output_tokens: output, total_tokens: input + output };
  const chat = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
  switch (dialect) {
    case "chat":
      return [
        data({ id: "c", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
        data({ id: "c", choices: [], usage: chat }),
        "data: [DONE]\n\n",
      ];
    case "responses":
      return [
        named({
          type: "response.completed",
          ...{ response: { id: "r", status: "completed", output: [], usage: openai } },
        }),
      ];
    case "messages":
      return [
        named({ type: "content_block_stop", ...{ index: 0 } }),
        named({
          type: "message_delta",
          ...{ delta: { stop_reason: "end_turn" }, usage: { input_tokens: input, output_tokens: output } },
        }),
        named({ type: "message_stop" }),
      ];
    case "gemini":
      return [
        data({
          candidates: [{ index: 0, content: { parts: [] }, finishReason: "STOP" }],
          usageMetadata: {
            promptTokenCount: input,
            candidatesTokenCount: output,
            totalTokenCount: input + output,
          },
        }),
      ];
  }
}

describe.each(pairs)("a client of %s on an upstream with %s", (client, model) => {
  test("receives one error if the terminal event is missing", async () => {
    respond = () => BEGINNING[model];
    const sent = await send(client, model);
    expect(terminals(client, sent.text)).toEqual(["error"]);
    expect((await gateway.records.row(sent.id))?.outcome).toMatch(/^(failed|upstream_cut)$/);
  });

  test("receives one end if there are two, and pays as on a native account", async () => {
    respond = () => [...BEGINNING[model], ...ending(model, 50, 20), ...ending(model, 5_000, 2_000)];
    const sent = await send(client, model);
    expect(terminals(client, sent.text)).toEqual(["done"]);
    const row = await gateway.records.row(sent.id);
    const native = await gateway.records.row((await send(model, model)).id);
    expect([row.inputTokens, row.outputTokens, row.chargedNano]).toEqual([50, 20, native.chargedNano]);
  });

  test("pays for the last report if the usage shrinks", async () => {
    const [early] = ending(model, 900, 600).slice(-1);
    const first = model === "gemini" ? [String(early).replace('"finishReason":"STOP"', '"index":0')] : [];
    const running =
      model === "chat"
        ? [data({ id: "c", choices: [], usage: { prompt_tokens: 900, completion_tokens: 600 } })]
        : first;
    respond = () => [...BEGINNING[model], ...running, ...ending(model, 50, 20)];
    const row = await gateway.records.row((await send(client, model)).id);
    expect([row.inputTokens, row.outputTokens]).toEqual([50, 20]);
  });

  test("receives text for bytes that are not UTF-8", async () => {
    const events = BEGINNING[model];
    const broken = Buffer.from(events.at(-1) ?? "");
    broken[broken.indexOf("Hello")] = 0xff;
    respond = () => [...events.slice(0, -1), broken, ...ending(model, 50, 20)];
    const sent = await send(client, model);
    expect(terminals(client, sent.text)).toEqual(["done"]);
    expect(sent.text).toContain("\ufffdello");
  });
});

/** A call whose arguments are this JSON text. */
function callEvents(model: Dialect, input: string): readonly string[] {
  switch (model) {
    case "chat":
      return [
        data({
          id: "c",
          choices: [
            { delta: { tool_calls: [{ index: 0, id: "t", function: { name: "f", arguments: input } }] } },
          ],
        }),
      ];
    case "responses":
      return [
        named({
          type: "response.output_item.done",
          ...{ output_index: 0, item: { type: "function_call", call_id: "t", name: "f", arguments: input } },
        }),
      ];
    case "messages":
      return [
        named({ type: "message_start", ...{ message: { id: "m" } } }),
        named({
          type: "content_block_start",
          ...{ index: 0, content_block: { type: "tool_use", id: "t", name: "f", input: {} } },
        }),
        named({
          type: "content_block_delta",
          ...{ index: 0, delta: { type: "input_json_delta", partial_json: input } },
        }),
        named({ type: "content_block_stop", ...{ index: 0 } }),
      ];
    case "gemini":
      return [
        `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":${input}}}]}}]}\n\n`,
      ];
  }
}

const DEEP = `${'{"a":'.repeat(200_000)}1${"}".repeat(200_000)}`;

/** The account of Gemini fails and cools down, so it is tried once. */
const deepPairs = pairs.filter(([client, model]) => model !== "gemini" || client === "chat");

test.each(deepPairs)("%s on %s: deeply nested arguments do not stop the gateway", async (client, model) => {
  respond = () => [...callEvents(model, DEEP), ...ending(model, 50, 20)];
  const { text: received, status } = await send(client, model);
  // Either the arguments as text, or an error: in both cases one end.
  if (status === 200) expect(terminals(client, received)).toHaveLength(1);
  else expect(status).toBe(client === "messages" ? 500 : 502);
  respond = () => [...BEGINNING[model], ...ending(model, 50, 20)];
  expect(terminals(client, (await send(client, model)).text)).toEqual(["done"]);
});

const PIECE = "word ".repeat(4_000);
const PIECES = 600;

test("endless arguments are stopped at the limit of a paid request, with one error", async () => {
  let sent = 0;
  async function* endless(): AsyncGenerator<string> {
    yield* callEvents("chat", '{"a":"');
    for (; sent < PIECES; sent++) {
      yield data({ choices: [{ delta: { tool_calls: [{ index: 0, function: { arguments: PIECE } }] } }] });
      // The gateway compares output and hold at intervals: the stream must last longer than one.
      await Bun.sleep(10);
    }
    yield* ending("chat", 50, 20);
  }
  respond = endless;
  const { text: received } = await send("messages", "chat");
  expect(terminals("messages", received)).toEqual(["error"]);
  expect(sent).toBeLessThan(PIECES);
});

test("thousands of blocks are delivered in order", async () => {
  const count = 3_000;
  const blocks = Array.from({ length: count }, (_, index) =>
    [
      named({ type: "content_block_start", ...{ index, content_block: { type: "text", text: "" } } }),
      named({ type: "content_block_delta", ...{ index, delta: { type: "text_delta", text: `${index} ` } } }),
      named({ type: "content_block_stop", ...{ index } }),
    ].join(""),
  );
  respond = () => [BEGINNING.messages[0] ?? "", ...blocks, ...ending("messages", 50, 20)];
  const { text: received } = await send("chat", "messages");
  const words = eventsIn(received).flatMap(({ data: json }) =>
    json === "[DONE]" ? [] : (JSON.parse(json).choices[0]?.delta.content ?? []),
  );
  expect(words.join("")).toBe(Array.from({ length: count }, (_, index) => `${index} `).join(""));
});

test("a Messages stream without a count of its output is counted, passed through and translated", async () => {
  const [stop = "", delta = "", last = ""] = ending("messages", 50, 20);
  respond = () => [...BEGINNING.messages, stop, delta.replace(/,"usage":\{[^}]*\}/, ""), last];
  const rows = [];
  for (const client of ["messages", "chat"] as const)
    rows.push(await gateway.records.row((await send(client, "messages")).id));
  for (const row of rows) {
    expect(row.inputTokens).toBe(9);
    // Eight words, not the one token of the first report.
    expect(row.outputTokens).toBeGreaterThan(6);
  }
});
