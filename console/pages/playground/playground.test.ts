/** The requests and replies of the playground, without a browser. */

import { describe, expect, test } from "bun:test";
import { computeSpeed, listMessages, NEW_REPLY, type Reply, type Turn } from "./conversation.ts";
import { chooseInterface, DIALECTS, type PlaygroundRequest } from "./dialects.ts";
import { addDelta } from "./stream-reply.ts";
import { parseTools } from "./tools.ts";

const IMAGE = "data:image/png;base64,iVBORw0KGgo=";
const turn = (text: string, images: readonly string[] = []): Turn => ({ text, images });
const reply = (changes: Partial<Reply>): Reply => ({ ...NEW_REPLY, state: "done", ...changes });

describe("the messages of a turn", () => {
  test("are the turns before it with their replies", () => {
    const turns = [turn("One"), turn("Two")];
    expect(listMessages(turns, [reply({ text: "First" })], 1)).toEqual([
      { role: "user", text: "One", images: [] },
      { role: "assistant", text: "First", toolCalls: [] },
      { role: "user", text: "Two", images: [] },
    ]);
  });

  test("leave out turns without a reply of this model", () => {
    const turns = [turn("One"), turn("Two"), turn("Three")];
    const replies = [null, reply({ state: "failed", problem: "busy" })];
    expect(listMessages(turns, replies, 2)).toEqual([{ role: "user", text: "Three", images: [] }]);
  });

  test("do not contain the reply that is repeated", () => {
    expect(listMessages([turn("One")], [reply({ text: "Old" })], 0)).toEqual([
      { role: "user", text: "One", images: [] },
    ]);
  });

  test("have the turn after a tool call as the result of each call", () => {
    const call = { id: "c1", name: "weather", arguments: "{}" };
    const turns = [turn("Weather?"), turn("Sunny")];
    expect(listMessages(turns, [reply({ toolCalls: [call] })], 1).at(-1)).toEqual({
      role: "tool",
      call,
      text: "Sunny",
    });
  });
});

describe("tools", () => {
  const weather = { name: "weather", description: "", parameters: { type: "object", properties: {} } };

  test.each([
    '[{"name": "weather"}]',
    '[{"type": "function", "function": {"name": "weather"}}]',
    '[{"name": "weather", "input_schema": {"type": "object", "properties": {}}}]',
  ])("are read in the form %s", (text) => {
    expect(parseTools(text)).toEqual([weather]);
  });

  test.each(["{", "{}", "[1]", '[{"name": ""}]'])("%s is rejected", (text) => {
    expect(parseTools(text)).toBeNull();
  });

  test("may be empty", () => expect(parseTools(" ")).toEqual([]));
});

describe("a request", () => {
  const request: PlaygroundRequest = {
    model: "m",
    system: "Be brief.",
    messages: [{ role: "user", text: "Look", images: [IMAGE] }],
    tools: [{ name: "weather", description: "", parameters: {} }],
    temperature: 0.5,
    effort: "low",
    outputTokensMax: 1_000,
  };

  test("of Chat Completions", () => {
    expect(DIALECTS.chat.buildBody(request)).toMatchObject({
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: [{ type: "text" }, { type: "image_url", image_url: { url: IMAGE } }] },
      ],
      tools: [{ type: "function", function: { name: "weather" } }],
      reasoning_effort: "low",
      temperature: 0.5,
      stream: true,
    });
  });

  test("of Responses is not stored", () => {
    expect(DIALECTS.responses.buildBody(request)).toMatchObject({
      instructions: "Be brief.",
      input: [{ role: "user", content: [{ type: "input_text" }, { type: "input_image", image_url: IMAGE }] }],
      tools: [{ type: "function", name: "weather" }],
      reasoning: { effort: "low" },
      store: false,
    });
  });

  test("of Messages has a limit, and the image as base64", () => {
    expect(DIALECTS.messages.buildBody(request)).toMatchObject({
      system: "Be brief.",
      max_tokens: 1_000,
      messages: [
        { content: [{ source: { media_type: "image/png", data: "iVBORw0KGgo=" } }, { text: "Look" }] },
      ],
      tools: [{ name: "weather", input_schema: {} }],
    });
  });

  test("of an image alone has no empty text", () => {
    const alone = { ...request, messages: [{ role: "user" as const, text: "", images: [IMAGE] }] };
    for (const { buildBody } of Object.values(DIALECTS)) {
      const body = JSON.stringify(buildBody(alone));
      expect(body).toContain("iVBORw0KGgo=");
      expect(body).not.toContain('"text":""');
    }
  });

  test("uses an interface of the accounts themselves before a translated one", () => {
    expect(chooseInterface({ interfaces: ["chat", "messages"], translated_interfaces: ["chat"] })).toBe(
      "messages",
    );
    expect(chooseInterface({ interfaces: ["gemini", "chat"], translated_interfaces: ["chat"] })).toBe("chat");
    expect(chooseInterface({ interfaces: ["embeddings"], translated_interfaces: [] })).toBeNull();
  });
});

describe("a streamed reply", () => {
  const read = (name: keyof typeof DIALECTS, events: readonly Record<string, unknown>[]) => {
    let got = NEW_REPLY;
    for (const [index, event] of events.entries()) {
      const delta = DIALECTS[name].readEvent(event);
      if (delta !== null) got = { ...got, ...addDelta(got, delta, index) };
    }
    return got;
  };

  test("joins the parts of a tool call in Chat Completions", () => {
    const chunk = (call: object) => ({ choices: [{ delta: { tool_calls: [{ index: 0, ...call }] } }] });
    const { toolCalls, firstMs } = read("chat", [
      { choices: [{ delta: { role: "assistant", content: "" } }] },
      chunk({ id: "c1", function: { name: "weather", arguments: "" } }),
      chunk({ function: { arguments: '{"city":' } }),
      chunk({ function: { arguments: '"Oslo"}' } }),
    ]);
    expect(toolCalls).toMatchObject([{ id: "c1", name: "weather", arguments: '{"city":"Oslo"}' }]);
    expect(firstMs).toBe(1);
  });

  test("has text, reasoning and tool calls of Messages", () => {
    const got = read("messages", [
      { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "Hm" } },
      { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "Hi" } },
      {
        type: "content_block_start",
        index: 2,
        content_block: { type: "tool_use", id: "t", name: "weather" },
      },
      { type: "content_block_delta", index: 2, delta: { type: "input_json_delta", partial_json: "{}" } },
    ]);
    expect(got).toMatchObject({ text: "Hi", reasoning: "Hm" });
    expect(got.toolCalls).toMatchObject([{ id: "t", name: "weather", arguments: "{}" }]);
  });

  test("has the error of a Responses stream", () => {
    const failed = { type: "response.failed", response: { error: { message: "Too busy." } } };
    expect(read("responses", [{ type: "response.output_text.delta", delta: "He" }, failed])).toMatchObject({
      text: "He",
      problem: "Too busy.",
    });
  });

  test("has no speed before it is billed", () => {
    expect(computeSpeed(reply({ firstMs: 100, totalMs: 1_100 }))).toBeNull();
  });
});
