/** Faults that other gateways had in translations between Chat Completions and Responses. */

import { describe, expect, test } from "bun:test";
import { COMPATIBLE_PROFILE, OPENAI_PROFILE } from "../../accounts/profiles.ts";
import { CHAT_CODEC } from "../chat/chat-codec.ts";
import { RESPONSES_CODEC } from "../responses/responses-codec.ts";
import type { AccountProfile } from "./account-profile.ts";
import { clientTarget, hubRequest, NO_TOOL_NAMES, parseSse, writeTarget } from "./codec.test-support.ts";
import type { ToolNames } from "./dialect-codec.ts";
import type { HubEvent } from "./hub-response.ts";

const OPTIONS = { publicModel: "public", stream: true };

function toChat(json: Record<string, unknown>, profile: AccountProfile = COMPATIBLE_PROFILE) {
  return CHAT_CODEC.writeRequest(
    RESPONSES_CODEC.readRequest({ model: "public", ...json }, OPTIONS),
    writeTarget({ profile }),
  );
}

function toResponses(json: Record<string, unknown>, profile: AccountProfile = OPENAI_PROFILE) {
  return RESPONSES_CODEC.writeRequest(
    CHAT_CODEC.readRequest({ model: "public", ...json }, OPTIONS),
    writeTarget({ profile }),
  );
}

function readChat(deltas: readonly object[], finish: string | null, toolNames?: ToolNames): HubEvent[] {
  const reader = CHAT_CODEC.openStreamReader(
    toolNames === undefined ? NO_TOOL_NAMES : { ...NO_TOOL_NAMES, toolNames },
  );
  const chunk = (choice: object) => JSON.stringify({ id: "c", created: 1, choices: [choice] });
  return [
    ...deltas.flatMap((delta) => reader.read(chunk({ delta }), null)),
    ...reader.read(chunk({ delta: {}, finish_reason: finish }), null),
    ...reader.read("[DONE]", null),
  ];
}

function writeResponses(events: readonly HubEvent[]): Record<string, unknown>[] {
  const writer = RESPONSES_CODEC.openStreamWriter(clientTarget(hubRequest("responses")));
  return parseSse(events.map((event) => writer.write(event)).join("")).flatMap(({ data }) =>
    data === "[DONE]" ? [] : [JSON.parse(data)],
  );
}

const user = { role: "user", content: "hi" };
const callItem = { type: "function_call", call_id: "c1", name: "look_up", arguments: '{"a":1}' };
const outputItem = { type: "function_call_output", call_id: "c1", output: "found" };
const lookUp = { type: "function", name: "look_up", parameters: { type: "object", properties: {} } };
const patch = {
  type: "custom",
  name: "apply_patch",
  description: "Changes files",
  format: { type: "grammar", syntax: "lark", definition: "start: patch" },
};

describe("requests", () => {
  test("the keys of the prompt cache are copied both ways", () => {
    const cache = { prompt_cache_key: "k", prompt_cache_retention: "24h", prompt_cache_options: { a: 1 } };
    const more = { service_tier: "flex", safety_identifier: "s" };
    expect(toChat({ input: "hi", ...cache, ...more }).body).toMatchObject({ ...cache, ...more });
    expect(toResponses({ messages: [user], ...cache, ...more }).body).toMatchObject({ ...cache, ...more });
  });

  test("a message between a call and its output joins the message of the call", () => {
    const { body } = toChat({
      input: [user, callItem, { role: "assistant", content: "One moment." }, outputItem],
    });
    expect(body.messages).toMatchObject([
      { role: "user", content: "hi" },
      { role: "assistant", content: "One moment.", tool_calls: [{ id: "c1" }] },
      { role: "tool", tool_call_id: "c1", content: "found" },
    ]);
  });

  test("an output follows its call at once, even if the client sends it later", () => {
    const { body } = toChat({ input: [user, callItem, { role: "user", content: "and?" }, outputItem] });
    const messages = body.messages as { role: string }[];
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "user"]);
  });

  test("a call without an output is answered as aborted", () => {
    expect(
      toChat({ input: [user, callItem, { role: "user", content: "and?" }] }).body.messages,
    ).toMatchObject([
      {},
      { tool_calls: [{ id: "c1" }] },
      { role: "tool", content: "aborted" },
      { role: "user" },
    ]);
  });

  test("an output without its call is rejected", () => {
    expect(() => toChat({ input: [user, outputItem] })).toThrow("No tool call found for the output");
  });

  test("reasoning is sent back where the upstream requires it, and not where it refuses it", () => {
    const reasoning = { type: "reasoning", summary: [{ type: "summary_text", text: "Because." }] };
    const input = [user, reasoning, callItem, outputItem];
    const required = toChat({ input }, { ...COMPATIBLE_PROFILE, reasoningReplay: "required" });
    expect(required.body.messages).toMatchObject([{}, { reasoning_content: "Because." }, {}]);
    const refused = toChat({ input }, { ...COMPATIBLE_PROFILE, reasoningReplay: "refused" });
    expect(JSON.stringify(refused.body)).not.toContain("Because.");
    expect(refused.dropped).toEqual(["reasoning"]);
  });

  test("a turn without reasoning still has the field where the upstream requires it", () => {
    const { body } = toChat(
      { input: [user, callItem, outputItem] },
      { ...COMPATIBLE_PROFILE, reasoningReplay: "required" },
    );
    expect(body.messages).toMatchObject([{}, { reasoning_content: "" }, {}]);
  });

  test.each([
    ["at the top", { tools: [patch] }, "apply_patch"],
    [
      "in a namespace",
      { tools: [{ type: "namespace", name: "functions", tools: [patch] }] },
      "functions__apply_patch",
    ],
    [
      "in additional_tools",
      { input: [{ type: "additional_tools", role: "developer", tools: [patch] }, user] },
      "apply_patch",
    ],
  ])("a custom tool %s becomes a function with its grammar as advice", (_, json, name) => {
    const { body, toolNames } = toChat({ input: "hi", ...json });
    const [tool] = body.tools as { function: { name: string; parameters: unknown } }[];
    expect(tool?.function.name).toBe(name);
    expect(JSON.stringify(tool?.function.parameters)).toContain("start: patch");
    expect(toolNames.resolve(name)).toMatchObject({ name: "apply_patch", tool: "custom" });
  });

  test("a tool that the model may not call directly is not offered", () => {
    const hidden = { ...lookUp, allowed_callers: ["code_execution"] };
    expect(toChat({ input: "hi", tools: [hidden] }).body.tools).toBeUndefined();
  });

  test.each([
    ["local_shell_call", { action: { type: "exec", command: ["ls"] } }, "local_shell"],
    ["shell_call", { action: { commands: ["ls"] } }, "shell"],
    ["apply_patch_call", { operation: { type: "delete_file", path: "a" } }, "apply_patch"],
  ])("a %s of the history becomes a tool call", (type, more, name) => {
    const output = { type: `${type}_output`, call_id: "c1", output: "done" };
    const { body } = toChat({ input: [user, { type, call_id: "c1", ...more }, output] });
    expect(body.messages).toMatchObject([{}, { tool_calls: [{ function: { name } }] }, { role: "tool" }]);
  });

  test("an item of an unknown type is dropped and named", () => {
    const { dropped } = toChat({
      input: [user, { type: "web_search_call", id: "ws_1", status: "completed" }],
    });
    expect(dropped).toEqual(["input[1].web_search_call"]);
  });

  test("names over 64 characters and flattened collisions stay distinct and can be resolved", () => {
    const long = "x".repeat(80);
    const { body, toolNames } = toChat({
      input: "hi",
      tools: [
        { ...lookUp, name: long },
        { ...lookUp, name: "a__b" },
        { type: "namespace", name: "a", tools: [{ ...lookUp, name: "b" }] },
      ],
    });
    const names = (body.tools as { function: { name: string } }[]).map((tool) => tool.function.name);
    expect(new Set(names).size).toBe(3);
    expect(names.every((name) => /^[\w-]{1,64}$/.test(name))).toBe(true);
    expect(names.map((name) => toolNames.resolve(name))).toMatchObject([
      { name: long, namespace: null },
      { name: "a__b", namespace: null },
      { name: "b", namespace: "a" },
    ]);
  });

  test("a JSON schema that the upstream cannot enforce becomes an instruction, and strict is named", () => {
    const schema = { type: "object", properties: { city: { type: "string" } } };
    const text = { format: { type: "json_schema", name: "place", schema, strict: true } };
    const { body, dropped } = toChat({ input: "hi", text }, { ...COMPATIBLE_PROFILE, jsonSchema: "none" });
    expect(body.response_format).toEqual({ type: "json_object" });
    expect(JSON.stringify(body.messages)).toContain("city");
    expect(dropped).toContain("strict");
  });

  test("web search is dropped and named, and rejected if it is required", () => {
    const tools = [{ type: "web_search" }, lookUp];
    expect(toChat({ input: "hi", tools }).dropped).toEqual(["tools[0].web_search"]);
    expect(() => toChat({ input: "hi", tools, tool_choice: { type: "web_search" } })).toThrow(
      "tools[0].web_search",
    );
  });

  test.each([
    ["an image", { type: "input_image", file_id: "file_1" }],
    ["a file", { type: "input_file", file_id: "file_1" }],
    ["a file by its address", { type: "input_file", file_url: "https://example.com/a.pdf" }],
  ])("%s that only its vendor can read is rejected with the fix", (_, part) => {
    expect(() => toChat({ input: [{ role: "user", content: [part] }] })).toThrow("data URL");
  });

  test("images in the output of a tool follow in a message of the user", () => {
    const output = [
      { type: "input_text", text: "A picture" },
      { type: "input_image", image_url: "data:image/png;base64,aGk=" },
    ];
    const { body } = toChat({ input: [user, callItem, { ...outputItem, output }] });
    expect(body.messages).toMatchObject([
      {},
      {},
      { role: "tool", content: "A picture" },
      { role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,aGk=" } }] },
    ]);
  });

  test("the content of an assistant message is kept beside its calls", () => {
    const assistant = {
      role: "assistant",
      content: "I look it up.",
      tool_calls: [{ id: "c1", type: "function", function: { name: "look_up", arguments: "" } }],
    };
    const { body } = toResponses({
      messages: [user, assistant, { role: "tool", tool_call_id: "c1", content: "x" }],
    });
    expect(body.input).toMatchObject([
      { role: "user" },
      { role: "assistant", content: [{ type: "output_text", text: "I look it up." }] },
      { type: "function_call", call_id: "c1", arguments: "{}" },
      { type: "function_call_output", call_id: "c1" },
    ]);
  });
});

describe("responses", () => {
  const start = (index: number, id: string | undefined, text: string) => ({
    tool_calls: [{ index, id, function: { name: "look_up", arguments: text } }],
  });

  test("cached and written tokens are in the usage of both dialects", () => {
    const usage = {
      prompt_tokens: 100,
      completion_tokens: 5,
      total_tokens: 105,
      prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 20 },
    };
    const response = { choices: [{ message: { content: "hi" }, finish_reason: "stop" }], usage };
    const read = CHAT_CODEC.readResponse(response, NO_TOOL_NAMES);
    if (read === null) throw new Error("not read");
    expect(RESPONSES_CODEC.writeResponse(read, clientTarget(hubRequest("responses"))).usage).toMatchObject({
      input_tokens: 100,
      input_tokens_details: { cached_tokens: 60, cache_write_tokens: 20 },
    });
  });

  test("all calls of one chunk are read", () => {
    const events = readChat(
      [{ tool_calls: [...start(0, "c1", "{}").tool_calls, ...start(1, "c2", "{}").tool_calls] }],
      "tool_calls",
    );
    const items = events.flatMap((event) => (event.type === "item_start" ? [event.item] : []));
    expect(items).toMatchObject([{ callId: "c1" }, { callId: "c2" }]);
  });

  test("arguments that come only with the end of the item are delivered", () => {
    const reader = RESPONSES_CODEC.openStreamReader(NO_TOOL_NAMES);
    const item = { type: "function_call", id: "fc_1", call_id: "c1", name: "look_up" };
    const events = [
      { type: "response.output_item.added", output_index: 0, item: { ...item, arguments: "" } },
      { type: "response.output_item.done", output_index: 0, item: { ...item, arguments: '{"a":1}' } },
      { type: "response.completed", response: { status: "completed", output: [] } },
    ].flatMap((event) => reader.read(JSON.stringify(event), event.type));
    expect(events.filter(({ type }) => type === "delta")).toEqual([{ type: "delta", text: '{"a":1}' }]);
    expect(events.at(-1)).toMatchObject({ type: "end", stop: "tools" });
  });

  test("a call that is complete in one chunk has all of its events", () => {
    const types = writeResponses(readChat([start(0, "c1", '{"a":1}')], "stop")).map(({ type }) => type);
    expect(types.slice(2)).toEqual([
      "response.output_item.added",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done",
      "response.completed",
    ]);
  });

  test("reasoning, text and calls have separate indexes", () => {
    const events = writeResponses(
      readChat([{ reasoning_content: "Hm." }, { content: "I look." }, start(0, "c1", "{}")], "tool_calls"),
    );
    const indexes = events.flatMap(({ type, output_index }) =>
      type === "response.output_item.done" ? [output_index] : [],
    );
    expect(indexes).toEqual([0, 1, 2]);
  });

  test("the response ends with calls whatever finish reason the upstream reports", () => {
    expect(readChat([start(0, "c1", "{}")], "stop").at(-1)).toMatchObject({ stop: "tools" });
    expect(readChat([start(0, "c1", "{}")], null).at(-1)).toMatchObject({ stop: "tools" });
  });

  test("parallel calls that the upstream interleaves keep their own arguments", () => {
    const more = (index: number, text: string) => ({
      tool_calls: [{ index, function: { arguments: text } }],
    });
    const events = readChat(
      [start(0, "c1", '{"a":'), start(1, "c2", '{"b":'), more(0, "1}"), more(1, "2}")],
      "tool_calls",
    );
    const texts = events.flatMap((event) =>
      event.type === "delta" ? [event.text] : event.type === "item_end" ? ["|"] : [],
    );
    expect(texts.join("")).toBe('{"a":1}|{"b":2}|');
  });

  test("a custom call that the output limit cut off is not exposed", () => {
    const { toolNames } = toChat({ input: "hi", tools: [patch] });
    const events = readChat(
      [
        {
          tool_calls: [
            { index: 0, id: "c1", function: { name: "apply_patch", arguments: '{"input":"*** Beg' } },
          ],
        },
      ],
      "length",
      toolNames,
    );
    expect(events.filter(({ type }) => type === "delta")).toEqual([]);
    const written = writeResponses(events);
    expect(written.at(-1)).toMatchObject({
      type: "response.incomplete",
      response: { incomplete_details: { reason: "max_output_tokens" } },
    });
    expect(written.find(({ type }) => type === "response.output_item.done")).toMatchObject({
      item: { type: "custom_tool_call", status: "incomplete", input: "" },
    });
  });

  test("an error chunk is an error, before and after content", () => {
    for (const deltas of [[], [{ content: "Par" }]]) {
      const reader = CHAT_CODEC.openStreamReader(NO_TOOL_NAMES);
      for (const delta of deltas) reader.read(JSON.stringify({ id: "c", choices: [{ delta }] }), null);
      const events = reader.read('{"error":{"message":"overloaded","code":"server_error"}}', null);
      expect(events).toMatchObject([
        { type: "error", error: { code: "server_error", message: "overloaded" } },
      ]);
      expect(reader.read("[DONE]", null)).toEqual([]);
    }
  });

  test("calls without an id, or with the same one, get distinct ids", () => {
    const events = readChat(
      [start(0, undefined, "{}"), start(1, "same", "{}"), start(2, "same", "{}")],
      "tool_calls",
    );
    const ids = events.flatMap((event) =>
      event.type === "item_start" && event.item.kind === "call" ? [event.item.callId] : [],
    );
    expect(new Set(ids).size).toBe(3);
    expect(ids.every((id) => id !== "")).toBe(true);
  });
});
