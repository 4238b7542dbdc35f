/** Forms of responses that single vendors send: each is read as what it means, and what is dropped is named. */

import { describe, expect, test } from "bun:test";
import { lookUpCodec } from "../codecs.ts";
import {
  clientTarget,
  hubRequest,
  message,
  NO_TOOL_NAMES,
  USAGE,
  writeTarget,
} from "./codec.test-support.ts";
import { DroppedFields } from "./dropped-fields.ts";
import type { Dialect } from "./hub-request.ts";
import type { HubEvent, OutputItem } from "./hub-response.ts";
import { ItemCollector } from "./item-collector.ts";

type Json = Record<string, unknown>;

interface Reading {
  readonly items: readonly OutputItem[];
  readonly events: readonly HubEvent[];
  readonly dropped: readonly string[];
}

function readStream(dialect: Dialect, events: readonly object[]): Reading {
  const dropped = new DroppedFields();
  const reader = lookUpCodec(dialect).openStreamReader({ ...NO_TOOL_NAMES, dropped });
  const read = [...events.flatMap((event) => reader.read(JSON.stringify(event), null)), ...reader.close()];
  const collector = new ItemCollector();
  for (const event of read) collector.add(event);
  return { items: collector.items, events: read, dropped: dropped.list() };
}

function readWhole(dialect: Dialect, json: Json): Reading {
  const dropped = new DroppedFields();
  const response = lookUpCodec(dialect).readResponse(json, { ...NO_TOOL_NAMES, dropped });
  if (response === null) throw new Error("not a response");
  return { items: response.items, events: [], dropped: dropped.list() };
}

const chatStream = (...deltas: object[]) => [
  ...deltas.map((delta) => ({ id: "c", choices: [{ index: 0, delta }] })),
  { id: "c", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
];
const chatWhole = (reply: object) => ({ id: "c", choices: [{ message: reply, finish_reason: "stop" }] });
const call = (items: readonly OutputItem[]) =>
  items.flatMap((item) => (item.kind === "call" ? [`${item.tool} ${item.name} ${item.input}`] : []));
const texts = (items: readonly OutputItem[]) =>
  items.flatMap((item) => {
    if (item.kind === "reasoning") return [`reasoning: ${item.text}`];
    if (item.kind !== "message") return [];
    return item.parts.map((part) => (part.kind === "text" ? `text: ${part.text}` : part.kind));
  });

describe("a call beside an empty one of the other kind (Snowflake)", () => {
  const empty = { name: "", input: "" };
  const look = { name: "look_up", arguments: '{"a":1}' };

  test("is a call of the function, whole", () => {
    const tool_calls = [{ id: "c1", type: "function", function: look, custom: empty }];
    expect(call(readWhole("chat", chatWhole({ tool_calls })).items)).toEqual(['function look_up {"a":1}']);
  });

  test("is a call of the function, streamed, also in pieces without a type", () => {
    const piece = (more: object, name: string, text: string) => ({
      tool_calls: [{ index: 0, ...more, function: { name, arguments: text }, custom: empty }],
    });
    const events = chatStream(
      piece({ id: "c1", type: "function" }, "look_up", ""),
      piece({}, "", '{"a":'),
      piece({}, "", "1}"),
    );
    expect(call(readStream("chat", events).items)).toEqual(['function look_up {"a":1}']);
  });

  test("is a call of the custom tool if the function is the empty one", () => {
    const tool_calls = [
      { id: "c1", function: { name: "", arguments: "" }, custom: { name: "free", input: "x" } },
    ];
    expect(call(readWhole("chat", chatWhole({ tool_calls })).items)).toEqual(["custom free x"]);
  });

  test("is read the same in the history of a request", () => {
    const tool_calls = [{ id: "c1", type: "function", function: look, custom: empty }];
    const { items } = lookUpCodec("chat").readRequest(
      { model: "m", messages: [{ role: "assistant", tool_calls }] },
      { publicModel: "m", stream: false },
    );
    expect(items).toMatchObject([{ kind: "call", tool: "function", name: "look_up", input: '{"a":1}' }]);
  });
});

describe("reasoning in parts of the content (Mistral)", () => {
  const thinking = (text: string) => ({ type: "thinking", thinking: [{ type: "text", text }] });

  test("is reasoning, whole", () => {
    const content = [thinking("First, "), thinking("then."), { type: "text", text: "Blue." }];
    expect(texts(readWhole("chat", chatWhole({ content })).items)).toEqual([
      "reasoning: First, then.",
      "text: Blue.",
    ]);
  });

  test("is reasoning, streamed", () => {
    const events = chatStream(
      { content: [thinking("First, ")] },
      { content: [thinking("then.")] },
      { content: "Bl" },
      { content: [{ type: "text", text: "ue." }] },
    );
    expect(texts(readStream("chat", events).items)).toEqual(["reasoning: First, then.", "text: Blue."]);
  });

  test("is read from the history, and written where the account has it", () => {
    const chat = lookUpCodec("chat");
    const content = [thinking("Hm."), { type: "text", text: "Blue." }];
    const request = chat.readRequest(
      { model: "m", messages: [{ role: "assistant", content }] },
      { publicModel: "m", stream: false },
    );
    expect(request.unread).toEqual([]);
    expect(texts(request.items as OutputItem[])).toEqual(["reasoning: Hm.", "text: Blue."]);
    const { profile } = writeTarget();
    const write = (reasoningField: "content" | "none") =>
      chat.writeRequest(
        { ...request, items: [...request.items, message("user", "Why?")] },
        writeTarget({ profile: { ...profile, reasoningField, reasoningReplay: "allowed" } }),
      );
    expect(write("content").body.messages).toMatchObject([{ role: "assistant", content }, { role: "user" }]);
    expect(write("none").dropped).toEqual(["reasoning"]);
  });

  test("other parts of the content are named", () => {
    const content = [
      { type: "text", text: "See" },
      { type: "image_url", image_url: "data:" },
    ];
    expect(readWhole("chat", chatWhole({ content })).dropped).toEqual(["output.image_url"]);
  });
});

describe("a Messages call that begins with its whole input", () => {
  const block = (content_block: object, ...deltas: object[]) => [
    { type: "message_start", message: { id: "m" } },
    { type: "content_block_start", index: 0, content_block },
    ...deltas.map((delta) => ({ type: "content_block_delta", index: 0, delta })),
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "tool_use" } },
    { type: "message_stop" },
  ];
  const tool = { type: "tool_use", id: "t", name: "look_up", input: { a: [1] } };

  test("has that input", () => {
    expect(call(readStream("messages", block(tool)).items)).toEqual(['function look_up {"a":[1]}']);
  });

  test("has the input of its pieces if they follow", () => {
    const piece = { type: "input_json_delta", partial_json: '{"b":2}' };
    expect(call(readStream("messages", block(tool, piece)).items)).toEqual(['function look_up {"b":2}']);
  });

  test("has the query of a search that begins with it", () => {
    const search = { type: "server_tool_use", id: "s", name: "web_search", input: { query: "sky" } };
    expect(readStream("messages", block(search)).items).toEqual([{ kind: "search", query: "sky", urls: [] }]);
  });
});

describe("arguments in pieces (Vertex AI)", () => {
  const stream = (...calls: object[]) => [
    ...calls.map((functionCall) => ({ candidates: [{ content: { parts: [{ functionCall }] } }] })),
    { candidates: [{ finishReason: "STOP" }], usageMetadata: { promptTokenCount: 1, totalTokenCount: 2 } },
  ];
  const more = (...partialArgs: object[]) => ({ partialArgs, willContinue: true });
  const read = (...calls: object[]) => {
    const { items, events } = readStream("gemini", stream(...calls));
    return [call(items), events.at(-1)] as const;
  };

  test("are one call with all values in their places", () => {
    const [calls, end] = read(
      { name: "set_light", id: "c1", willContinue: true },
      more({ jsonPath: "$.level", numberValue: 50 }, { jsonPath: "$.isOn", boolValue: true }),
      more({ jsonPath: "$.name", stringValue: 'the "old', willContinue: true }),
      more({ jsonPath: "$.name", stringValue: '" lamp' }),
      more(
        { jsonPath: "$.rooms[0].id", stringValue: "a" },
        { jsonPath: "$.rooms[1]", nullValue: "NULL_VALUE" },
      ),
      more({ jsonPath: "$['odd name']", stringValue: "x" }, { jsonPath: '$["__proto__"]', numberValue: 1 }),
      {},
    );
    expect(calls).toHaveLength(1);
    const [head = "", input = ""] = calls[0]?.split(/(?<=set_light) /) ?? [];
    expect(head).toBe("function set_light");
    expect(input).toBe(
      '{"level":50,"isOn":true,"name":"the \\"old\\" lamp","rooms":[{"id":"a"},null],"odd name":"x","__proto__":1}',
    );
    expect(end).toMatchObject({ type: "end", stop: "tools" });
  });

  test("may be in one piece, and calls follow each other", () => {
    const [calls] = read(
      { name: "first", partialArgs: [{ jsonPath: "$.a", numberValue: 1 }] },
      { name: "second", willContinue: true },
      {},
      { name: "third", args: { b: 2 } },
    );
    expect(calls).toEqual(['function first {"a":1}', "function second {}", 'function third {"b":2}']);
  });

  test.each([
    ["a path that is no path", { jsonPath: "level", numberValue: 1 }],
    ["a place far beyond the end of an array", { jsonPath: "$.a[999999999]", numberValue: 1 }],
    ["a path that is too deep", { jsonPath: `$${".a".repeat(200)}`, numberValue: 1 }],
    ["a place inside of a value", { jsonPath: "$.level.deeper", numberValue: 1 }],
  ])("with %s make a call that cannot be run", (_, piece) => {
    const [calls, end] = read(
      { name: "set_light", willContinue: true },
      more({ jsonPath: "$.level", numberValue: 50 }),
      more(piece),
      {},
    );
    expect(calls).toEqual([]);
    expect(end).toMatchObject({ type: "end", stop: "end" });
  });

  test("that break off make a call that cannot be run", () => {
    expect(
      read({ name: "set_light", willContinue: true }, more({ jsonPath: "$.a", numberValue: 1 }))[0],
    ).toEqual([]);
  });
});

describe("what a response loses is named", () => {
  function write(client: Dialect, response: { items: readonly OutputItem[] }): readonly string[] {
    const target = clientTarget(hubRequest(client), { dropped: new DroppedFields() });
    const base = {
      responseId: null,
      createdAtSeconds: null,
      stop: "end",
      stopSequence: null,
      usage: null,
    } as const;
    lookUpCodec(client).writeResponse({ ...base, ...response }, target);
    return target.dropped.list();
  }
  function writeStream(client: Dialect, events: readonly HubEvent[]): readonly string[] {
    const target = clientTarget(hubRequest(client), { dropped: new DroppedFields() });
    const writer = lookUpCodec(client).openStreamWriter(target);
    for (const event of events) writer.write(event);
    return target.dropped.list();
  }

  const hidden = { type: "redacted_thinking", data: "c2ln" };
  const content = [hidden, { type: "text", text: "Hi" }];
  const stream = [
    { type: "message_start", message: { id: "m" } },
    { type: "content_block_start", index: 0, content_block: hidden },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn" } },
    { type: "message_stop" },
  ];

  test.each(["chat", "responses"] as const)("hidden reasoning, for clients of %s", (client) => {
    expect(write(client, readWhole("messages", { content }))).toEqual(["redacted_thinking"]);
    expect(writeStream(client, readStream("messages", stream).events)).toEqual(["redacted_thinking"]);
  });

  test("a search without a query, for clients of Gemini", () => {
    const opened = { type: "web_search_call", action: { type: "open_page", url: "https://a.example" } };
    const response = readWhole("responses", { status: "completed", output: [opened] });
    expect(write("gemini", response)).toEqual(["web_search_call"]);
  });

  test.each<[Dialect, Json]>([
    ["chat", { choices: [{ message: { content: "Hi" }, logprobs: { content: [] }, finish_reason: "stop" }] }],
    [
      "responses",
      {
        status: "completed",
        output: [
          { type: "message", content: [{ type: "output_text", text: "Hi", logprobs: [{ token: "Hi" }] }] },
        ],
      },
    ],
  ])("log probabilities of %s", (dialect, json) => {
    expect(readWhole(dialect, json).dropped).toEqual(["logprobs"]);
  });

  test("log probabilities of Gemini", () => {
    const candidate = { content: { parts: [{ text: "Hi" }] }, finishReason: "STOP", logprobsResult: {} };
    expect(readWhole("gemini", { candidates: [candidate] }).dropped).toEqual(["logprobsResult"]);
    expect(readStream("gemini", [{ candidates: [candidate] }]).dropped).toEqual(["logprobsResult"]);
  });
});

test("the searches of a Messages client's usage stand beside its fetches", () => {
  const usage = { ...USAGE, webSearches: 2 };
  const response = {
    responseId: null,
    createdAtSeconds: null,
    items: [],
    stop: "end",
    stopSequence: null,
  } as const;
  expect(
    lookUpCodec("messages").writeResponse({ ...response, usage }, clientTarget(hubRequest("messages"))),
  ).toMatchObject({ usage: { server_tool_use: { web_search_requests: 2, web_fetch_requests: 0 } } });
});
