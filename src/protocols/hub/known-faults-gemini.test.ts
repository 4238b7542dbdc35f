/** Faults that other gateways had in translations to and from Gemini, and the stop reasons of all dialects. */

import { describe, expect, test } from "bun:test";
import { GEMINI_PROFILE } from "../../accounts/profiles.ts";
import { lookUpCodec } from "../codecs.ts";
import { GEMINI_CODEC } from "../gemini/gemini-codec.ts";
import { FOREIGN_CALL_SIGNATURE, NO_STATE_SIGNATURE } from "../gemini/thought-signature.ts";
import { clientTarget, hubRequest, NO_TOOL_NAMES, parseSse, writeTarget } from "./codec.test-support.ts";
import { DroppedFields } from "./dropped-fields.ts";
import type { Dialect } from "./hub-request.ts";
import type { HubEvent, HubStop } from "./hub-response.ts";
import type { StateSealer } from "./sealed-state.ts";

type Json = Record<string, unknown>;
interface Content {
  role: string;
  parts: Json[];
}

const OPTIONS = { publicModel: "public", stream: true };
const USAGE = { promptTokenCount: 10, totalTokenCount: 17, thoughtsTokenCount: 4, candidatesTokenCount: 3 };

/** Opens what a Gemini account has sealed. */
const GEMINI_SEALER: StateSealer = {
  seal: ({ value }) => ({ kind: "sealed", envelope: `gws1.${value}` }),
  open(state) {
    const value = state.kind === "sealed" ? state.envelope.slice("gws1.".length) : state.value;
    return value.startsWith("foreign") ? null : { field: "thought_signature", value };
  },
};

function toGemini(dialect: Dialect, json: Json, upstreamModel = "gemini-3-pro") {
  const request = lookUpCodec(dialect).readRequest({ model: "public", ...json }, OPTIONS);
  const target = writeTarget({ profile: GEMINI_PROFILE, sealer: GEMINI_SEALER, upstreamModel });
  const written = GEMINI_CODEC.writeRequest(request, target);
  return { ...written, contents: written.body.contents as Content[] };
}

function readGemini(chunks: readonly Json[]): HubEvent[] {
  const reader = GEMINI_CODEC.openStreamReader(NO_TOOL_NAMES);
  return [...chunks.flatMap((chunk) => reader.read(JSON.stringify(chunk), null)), ...reader.close()];
}

const chunk = (parts: readonly object[], more: object = {}, rest: object = {}) => ({
  responseId: "r",
  candidates: [{ content: { parts }, ...more }],
  ...rest,
});
const last = (finishReason: string) => chunk([], { finishReason }, { usageMetadata: USAGE });

const user = { role: "user", content: "hi" };
const toolCall = (id: string, name = "look_up") => ({
  id,
  type: "function",
  function: { name, arguments: '{"a":1}' },
});
const reasoning = (state: string) => ({ type: "reasoning", summary: [], encrypted_content: state });
const call = (id: string) => ({ type: "function_call", call_id: id, name: "look_up", arguments: "{}" });
const output = (id: string) => ({ type: "function_call_output", call_id: id, output: "x" });
const signatures = (contents: readonly Content[]) =>
  contents.flatMap(({ parts }) =>
    parts.flatMap(({ functionCall, thoughtSignature }) => (functionCall ? [thoughtSignature] : [])),
  );

describe("requests to a Gemini upstream", () => {
  test("the signature of a step is on its first call", () => {
    const { contents } = toGemini("responses", {
      input: [user, reasoning("gws1.c2ln"), call("c1"), call("c2"), output("c1"), output("c2")],
    });
    expect(signatures(contents)[0]).toBe("c2ln");
    expect(signatures(contents)).not.toContain("gws1.c2ln");
  });

  test("only a call that another model made gets the placeholder, and only where signatures are checked", () => {
    const json = { input: [user, reasoning("gws1.foreign"), call("c1"), output("c1")] };
    const current = toGemini("responses", json);
    expect(signatures(current.contents)).toEqual([FOREIGN_CALL_SIGNATURE]);
    expect(current.dropped).toContain("reasoning");
    expect(signatures(toGemini("responses", json, "gemini-2.5-pro").contents)).toEqual([undefined]);
  });

  test("all outputs of a step are together, in the order of the calls, as objects with the name of the function", () => {
    const { contents } = toGemini("chat", {
      messages: [
        user,
        { role: "assistant", tool_calls: [toolCall("c1", "one"), toolCall("c2", "two")] },
        { role: "tool", tool_call_id: "c2", content: "second" },
        { role: "tool", tool_call_id: "c1", content: "first" },
      ],
    });
    expect(contents.map(({ role }) => role)).toEqual(["user", "model", "user"]);
    expect(contents[2]?.parts).toMatchObject([
      { functionResponse: { name: "one", response: { output: "first" } } },
      { functionResponse: { name: "two", response: { output: "second" } } },
    ]);
  });

  test("contents begin with the user and alternate", () => {
    const { contents } = toGemini("chat", {
      messages: [{ role: "assistant", content: "Hello." }, user, user, { role: "system", content: "Brief." }],
    });
    expect(contents.map(({ role }) => role)).toEqual(["user", "model", "user"]);
  });

  test("schemas of tools are sent as JSON schemas, unchanged", () => {
    const parameters = { type: "object", properties: {}, additionalProperties: false, $defs: {} };
    const tools = [{ type: "function", function: { name: "look_up", parameters } }];
    expect(toGemini("chat", { messages: [user], tools }).body.tools).toEqual([
      { functionDeclarations: [{ name: "look_up", parametersJsonSchema: parameters }] },
    ]);
  });

  test("a level and a budget of thinking are never sent together", () => {
    const json = { max_tokens: 4_000, messages: [user], thinking: { type: "enabled", budget_tokens: 2_000 } };
    const config = (model: string) =>
      (toGemini("messages", json, model).body.generationConfig as Json).thinkingConfig;
    expect(config("gemini-3-flash")).toEqual({ includeThoughts: true, thinkingLevel: "LOW" });
    expect(config("gemini-2.5-pro")).toEqual({ includeThoughts: true, thinkingBudget: 2_000 });
  });

  test("images in the output of a tool are in its response, or after it for older models", () => {
    const image = { type: "input_image", image_url: "data:image/png;base64,aGk=" };
    const json = { input: [user, call("c1"), { ...output("c1"), output: [image] }] };
    const inline = { inlineData: { mimeType: "image/png", data: "aGk=" } };
    expect(toGemini("responses", json).contents[2]?.parts).toMatchObject([
      { functionResponse: { parts: [inline] } },
    ]);
    const [first, second] = toGemini("responses", json, "gemini-2.5-pro").contents[2]?.parts ?? [];
    expect(first).not.toHaveProperty("functionResponse.parts");
    expect(second).toEqual(inline);
  });

  test("an image that the gateway would have to fetch is rejected with the fix", () => {
    const content = [{ type: "image_url", image_url: { url: "https://example.com/a.png" } }];
    expect(() => toGemini("chat", { messages: [{ role: "user", content }] })).toThrow("data URL");
  });
});

describe("requests of a Gemini client", () => {
  function fromGemini(dialect: Dialect, json: Json) {
    return lookUpCodec(dialect).writeRequest(GEMINI_CODEC.readRequest(json, OPTIONS), writeTarget());
  }

  test("outputs without ids belong to the calls of their name, in their order", () => {
    const part = (name: string, value: string) => ({
      functionResponse: { name, response: { output: value } },
    });
    const { body } = fromGemini("chat", {
      contents: [
        { role: "user", parts: [{ text: "hi" }] },
        {
          role: "model",
          parts: [
            { functionCall: { name: "a", args: { at: 1 } } },
            { functionCall: { name: "b" } },
            { functionCall: { name: "a", args: { at: 2 } } },
          ],
        },
        { role: "user", parts: [part("b", "of b"), part("a", "first"), part("a", "second")] },
      ],
    });
    const messages = body.messages as {
      tool_calls?: { id: string }[];
      tool_call_id?: string;
      content: string;
    }[];
    const ids = messages[1]?.tool_calls?.map(({ id }) => id) ?? [];
    expect(new Set(ids).size).toBe(3);
    const outputs = messages.slice(2).map(({ tool_call_id, content }) => [tool_call_id, content]);
    expect(outputs).toEqual([
      [ids[0], "first"],
      [ids[1], "of b"],
      [ids[2], "second"],
    ]);
  });

  test("older schemas become JSON schemas", () => {
    const parameters = { type: "OBJECT", properties: { city: { type: "STRING", nullable: true } } };
    const { body } = fromGemini("chat", {
      contents: [{ role: "user", parts: [{ text: "hi" }] }],
      tools: [{ functionDeclarations: [{ name: "look_up", parameters }] }],
    });
    expect(body.tools).toMatchObject([
      {
        function: {
          parameters: { type: "object", properties: { city: { type: ["string", "null"] } } },
        },
      },
    ]);
  });
});

test("a Gemini client can take a call of any upstream to Google: the first one is signed", () => {
  const writer = GEMINI_CODEC.openStreamWriter(clientTarget(hubRequest("gemini")));
  const events: HubEvent[] = ["c1", "c2"].flatMap((callId): HubEvent[] => [
    {
      type: "item_start",
      item: { kind: "call", callId, name: "look_up", namespace: null, tool: "function" },
    },
    { type: "item_end", opaque: null, isCut: false },
  ]);
  const parts = parseSse(events.map((event) => writer.write(event)).join("")).map(
    ({ data }) => JSON.parse(data).candidates[0].content.parts[0],
  );
  expect(parts).toMatchObject([{ thoughtSignature: NO_STATE_SIGNATURE }, {}]);
  expect(parts[1]).not.toHaveProperty("thoughtSignature");
  // It carries nothing to an upstream of another dialect.
  const contents = [
    { role: "user", parts: [{ text: "hi" }] },
    { role: "model", parts },
    {
      role: "user",
      parts: ["c1", "c2"].map((id) => ({ functionResponse: { id, name: "look_up", response: {} } })),
    },
  ];
  const { items } = GEMINI_CODEC.readRequest({ contents }, OPTIONS);
  expect(items.map(({ kind }) => kind)).toEqual(["message", "call", "call", "call_output", "call_output"]);
});

describe("responses of a Gemini upstream", () => {
  const signed = {
    functionCall: { name: "look_up", args: { a: 1 } },
    thoughtSignature: "c2ln",
  };

  test("a call that is complete in one part has all events of the client's dialect, and a plain id", () => {
    const events = readGemini([chunk([signed]), last("STOP")]);
    const ids = events.flatMap((event) =>
      event.type === "item_start" && event.item.kind === "call" ? [event.item.callId] : [],
    );
    expect(ids).toEqual([expect.stringMatching(/^[A-Za-z0-9_-]{1,64}$/)]);
    const writer = lookUpCodec("responses").openStreamWriter(clientTarget(hubRequest("responses")));
    const types = parseSse(events.map((event) => writer.write(event)).join("")).map(({ name }) => name);
    for (const type of ["function_call_arguments.delta", "function_call_arguments.done", "output_item.done"])
      expect(types).toContain(`response.${type}`);
  });

  test("parallel calls without ids get distinct ones", () => {
    const { thoughtSignature: _, ...plain } = signed;
    const events = readGemini([chunk([signed, plain]), chunk([plain]), last("STOP")]);
    const ids = events.flatMap((event) =>
      event.type === "item_start" && event.item.kind === "call" ? [event.item.callId] : [],
    );
    expect(new Set(ids).size).toBe(3);
  });

  test("thoughts are output in addition to the response", () => {
    const events = readGemini([chunk([{ text: "hi" }]), last("STOP")]);
    expect(events.find(({ type }) => type === "usage")).toMatchObject({
      usage: { inputTokens: 10, outputTokens: 7, reasoningTokens: 4 },
    });
  });

  test.each([
    ["UNEXPECTED_TOOL_CALL", "failed"],
    ["MALFORMED_FUNCTION_CALL", "failed"],
    ["TOO_MANY_TOOL_CALLS", "failed"],
    ["MALFORMED_RESPONSE", "failed"],
    ["MISSING_THOUGHT_SIGNATURE", "failed"],
    ["NO_IMAGE", "failed"],
    ["IMAGE_OTHER", "failed"],
    ["OTHER", "failed"],
    ["FINISH_REASON_UNSPECIFIED", "failed"],
    ["A_NEW_REASON", "failed"],
    ["MODEL_ARMOR", "filtered"],
    ["SAFETY", "filtered"],
    ["IMAGE_SAFETY", "filtered"],
  ])("the finish reason %s is a response with the stop %s, whole and streamed", (reason, stop) => {
    const dropped = new DroppedFields();
    const reader = GEMINI_CODEC.openStreamReader({ ...NO_TOOL_NAMES, dropped });
    expect(reader.read(JSON.stringify(last(reason)), null).at(-1)).toMatchObject({ type: "end", stop });
    expect(dropped.list()).toEqual(stop === "failed" ? [`finishReason.${reason}`] : []);
    expect(GEMINI_CODEC.readResponse(last(reason), { ...NO_TOOL_NAMES, dropped })).toMatchObject({ stop });
  });

  test("an image alone is a response without text, and is named", () => {
    const dropped = new DroppedFields();
    const image = chunk(
      [{ inlineData: { mimeType: "image/png", data: "aGk=" } }],
      { finishReason: "STOP" },
      { usageMetadata: USAGE },
    );
    const reader = GEMINI_CODEC.openStreamReader({ ...NO_TOOL_NAMES, dropped });
    expect(reader.read(JSON.stringify(image), null).at(-1)).toMatchObject({ type: "end", stop: "end" });
    expect(GEMINI_CODEC.readResponse(image, { ...NO_TOOL_NAMES, dropped })).toMatchObject({ items: [] });
    expect(dropped.list()).toEqual(["output.inlineData"]);
  });

  test("a normal end without any part is a fault, a blocked prompt is a response", () => {
    expect(readGemini([last("STOP")]).at(-1)).toMatchObject({ type: "error" });
    const blocked = { promptFeedback: { blockReason: "PROHIBITED_CONTENT" }, usageMetadata: USAGE };
    expect(readGemini([blocked]).at(-1)).toMatchObject({ type: "end", stop: "filtered" });
  });
});

/** Stop reasons by dialect: what is read from an upstream, and what a client receives. */
const STOPS: readonly [HubStop, Readonly<Record<"chat" | "messages" | "gemini", string>>][] = [
  ["end", { chat: "stop", messages: "end_turn", gemini: "STOP" }],
  ["stop_sequence", { chat: "stop", messages: "stop_sequence", gemini: "STOP" }],
  ["tools", { chat: "tool_calls", messages: "tool_use", gemini: "STOP" }],
  ["length", { chat: "length", messages: "max_tokens", gemini: "MAX_TOKENS" }],
  ["context", { chat: "length", messages: "model_context_window_exceeded", gemini: "MAX_TOKENS" }],
  ["filtered", { chat: "content_filter", messages: "refusal", gemini: "SAFETY" }],
  ["paused", { chat: "stop", messages: "pause_turn", gemini: "STOP" }],
  ["failed", { chat: "stop", messages: "end_turn", gemini: "OTHER" }],
];

describe.each(STOPS)("the stop reason %s", (stop, names) => {
  const write = (dialect: Dialect) =>
    lookUpCodec(dialect).writeResponse(
      { responseId: null, createdAtSeconds: null, items: [], stop, stopSequence: null, usage: null },
      clientTarget(hubRequest(dialect)),
    ) as Json;

  test("is written in the words of each dialect", () => {
    expect(write("chat").choices).toMatchObject([{ finish_reason: names.chat }]);
    expect(write("messages").stop_reason).toBe(names.messages);
    expect(write("gemini").candidates).toMatchObject([{ finishReason: names.gemini }]);
    const status = ["length", "context", "filtered"].includes(stop) ? "incomplete" : "completed";
    expect(write("responses").status).toBe(status);
  });

  test("is read from Messages, which has a word for nearly each", () => {
    if (stop === "failed") return;
    const content = stop === "tools" ? [{ type: "tool_use", id: "t", name: "look_up", input: {} }] : [];
    const response = { content, stop_reason: names.messages };
    expect(lookUpCodec("messages").readResponse(response, NO_TOOL_NAMES)?.stop).toBe(stop);
  });
});
