/** Faults that other gateways had in translations to and from the Messages API. */

import { describe, expect, test } from "bun:test";
import { ANTHROPIC_PROFILE, COMPATIBLE_PROFILE } from "../../accounts/profiles.ts";
import { lookUpCodec } from "../codecs.ts";
import { MESSAGES_CODEC } from "../messages/messages-codec.ts";
import type { AccountProfile } from "./account-profile.ts";
import { clientTarget, hubRequest, NO_TOOL_NAMES, parseSse, writeTarget } from "./codec.test-support.ts";
import type { Dialect } from "./hub-request.ts";
import type { HubEvent } from "./hub-response.ts";

type Json = Record<string, unknown>;

const OPTIONS = { publicModel: "public", stream: true };
const BUDGET_PROFILE: AccountProfile = { ...ANTHROPIC_PROFILE, thinking: "budget", sampling: true };

function toMessages(dialect: Dialect, json: Json, profile = ANTHROPIC_PROFILE) {
  const request = lookUpCodec(dialect).readRequest({ model: "public", ...json }, OPTIONS);
  return MESSAGES_CODEC.writeRequest(request, writeTarget({ profile }));
}

function fromMessages(dialect: Dialect, json: Json, profile = COMPATIBLE_PROFILE) {
  const request = MESSAGES_CODEC.readRequest({ model: "public", max_tokens: 100, ...json }, OPTIONS);
  return lookUpCodec(dialect).writeRequest(request, writeTarget({ profile }));
}

function readStream(dialect: Dialect, events: readonly (object | string)[]): HubEvent[] {
  const reader = lookUpCodec(dialect).openStreamReader(NO_TOOL_NAMES);
  const texts = events.map((event) => (typeof event === "string" ? event : JSON.stringify(event)));
  return [...texts.flatMap((text) => reader.read(text, null)), ...reader.close()];
}

function readChat(deltas: readonly object[], finish: string): HubEvent[] {
  const chunk = (choice: object) => ({ id: "c", created: 1, choices: [choice] });
  return readStream("chat", [
    ...deltas.map((delta) => chunk({ delta })),
    chunk({ delta: {}, finish_reason: finish }),
    "[DONE]",
  ]);
}

function writeMessages(events: readonly HubEvent[]): Json[] {
  const writer = MESSAGES_CODEC.openStreamWriter(clientTarget(hubRequest("messages")));
  return parseSse(events.map((event) => writer.write(event)).join("")).map(({ data }) => JSON.parse(data));
}

const user = { role: "user", content: "hi" };
const toolCall = (id: string) => ({ id, type: "function", function: { name: "look_up", arguments: "{}" } });
const result = (id: string, content: string) => ({ role: "tool", tool_call_id: id, content });
const lookUp = (parameters: object) => ({ type: "function", function: { name: "look_up", parameters } });

describe("requests to a Messages upstream", () => {
  test("empty texts are left out, and the last turn does not end in white space", () => {
    const messages = [
      {
        role: "user",
        content: [
          { type: "text", text: "" },
          { type: "text", text: "hi" },
        ],
      },
      { role: "assistant", content: "Well, \n" },
    ];
    expect(toMessages("chat", { messages }).body.messages).toEqual([
      { role: "user", content: [{ type: "text", text: "hi" }] },
      { role: "assistant", content: [{ type: "text", text: "Well," }] },
    ]);
  });

  test("all results of a turn are in one message, in front of other content, and the last one of each call counts", () => {
    const messages = [
      user,
      { role: "assistant", tool_calls: [toolCall("c1"), toolCall("c2")] },
      result("c1", "first"),
      result("c2", "two"),
      result("c1", "one"),
      { role: "user", content: "and?" },
    ];
    const written = toMessages("chat", { messages }).body.messages as { role: string; content: Json[] }[];
    expect(written.map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
    expect(written[2]?.content).toMatchObject([
      { type: "tool_result", tool_use_id: "c1", content: [{ text: "one" }] },
      { type: "tool_result", tool_use_id: "c2", content: [{ text: "two" }] },
      { type: "text", text: "and?" },
    ]);
  });

  test("a call without a result gets one that is an error", () => {
    const messages = [user, { role: "assistant", tool_calls: [toolCall("c1")] }, user];
    const written = toMessages("chat", { messages }).body.messages as { content: Json[] }[];
    expect(written[2]?.content[0]).toMatchObject({ type: "tool_result", tool_use_id: "c1", is_error: true });
  });

  test("schemas are objects without alternatives at the top, and without `strict`", () => {
    const branch = (kind: string, field: string) => ({
      type: "object",
      properties: { kind: { const: kind }, [field]: { type: "string" } },
      required: ["kind", field],
    });
    const parameters = { anyOf: [branch("file", "path"), branch("web", "url")] };
    const { body, dropped } = toMessages("chat", {
      messages: [user],
      tools: [
        { type: "function", function: { name: "find", parameters, strict: true } },
        { type: "function", function: { name: "now" } },
      ],
    });
    expect(body.tools).toEqual([
      {
        name: "find",
        input_schema: {
          type: "object",
          properties: {
            kind: { anyOf: [{ const: "file" }, { const: "web" }] },
            path: { type: "string" },
            url: { type: "string" },
          },
          required: ["kind"],
        },
      },
      { name: "now", input_schema: { type: "object" } },
    ]);
    expect(dropped).toEqual(["tools.strict", "tools.anyOf"]);
  });

  test("alternatives by reference and parts that all apply are merged too", () => {
    const { body } = toMessages("chat", {
      messages: [user],
      tools: [
        lookUp({
          $defs: { Path: { type: "object", properties: { path: { type: "string" } }, required: ["path"] } },
          properties: { deep: { type: "boolean" } },
          allOf: [{ $ref: "#/$defs/Path" }, { required: ["deep"] }],
        }),
      ],
    });
    expect(body.tools).toMatchObject([
      {
        input_schema: {
          type: "object",
          properties: { deep: { type: "boolean" }, path: { type: "string" } },
          required: ["path", "deep"],
        },
      },
    ]);
  });

  test("ids of calls that the API rejects are replaced, the same for a call and its result", () => {
    const messages = [
      user,
      { role: "assistant", tool_calls: [toolCall("functions.look_up:0")] },
      result("functions.look_up:0", "x"),
    ];
    const written = toMessages("chat", { messages }).body.messages as { content: Json[] }[];
    const id = written[1]?.content[0]?.id;
    expect(id).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(written[2]?.content[0]?.tool_use_id).toBe(id);
  });

  test("cache hints of a Chat client are kept, and without any the upstream caches by itself", () => {
    const cache_control = { type: "ephemeral" };
    const content = [{ type: "text", text: "Long", cache_control }];
    const hinted = toMessages("chat", { messages: [{ role: "system", content }, user] }).body;
    expect(hinted.system).toEqual([{ type: "text", text: "Long", cache_control }]);
    expect(hinted.cache_control).toBeUndefined();
    expect(toMessages("chat", { messages: [user] }).body.cache_control).toEqual(cache_control);
  });

  test("thinking without a signature of the account is never sent, and ends a budget of thinking", () => {
    const input = [
      { role: "user", content: "hi" },
      {
        type: "reasoning",
        summary: [{ type: "summary_text", text: "Hm." }],
        encrypted_content: "gws1.foreign.x",
      },
      { type: "function_call", call_id: "c1", name: "look_up", arguments: "{}" },
      { type: "function_call_output", call_id: "c1", output: "x" },
    ];
    const { body, dropped } = toMessages(
      "responses",
      { input, reasoning: { effort: "high" } },
      BUDGET_PROFILE,
    );
    expect(JSON.stringify(body)).not.toContain("Hm.");
    expect(body.thinking).toBeUndefined();
    expect(dropped).toEqual(["reasoning", "reasoning.effort"]);
  });

  test("a budget of thinking is below the limit of the output", () => {
    const json = { messages: [user], reasoning_effort: "high", max_tokens: 8_000 };
    expect(toMessages("chat", json, BUDGET_PROFILE).body).toMatchObject({
      max_tokens: 8_000,
      thinking: { type: "enabled", budget_tokens: 4_000 },
    });
    const small = toMessages("chat", { ...json, max_tokens: 1_000 }, BUDGET_PROFILE);
    expect(small.body.thinking).toBeUndefined();
    expect(small.dropped).toEqual(["reasoning.effort"]);
  });

  test("an adaptive model gets no budget and no sampling", () => {
    const json = { messages: [user], reasoning_effort: "high", temperature: 1, top_p: 0.9 };
    const { body, dropped } = toMessages("chat", json);
    expect(body).toMatchObject({ thinking: { type: "adaptive" }, output_config: { effort: "high" } });
    expect(JSON.stringify(body)).not.toMatch(/budget_tokens|temperature|top_p/);
    expect(dropped).toEqual(["temperature", "top_p"]);
  });

  test("the user is sent as a digest, and tiers that the vendor lacks are dropped and named", () => {
    const { body, dropped } = toMessages("responses", {
      input: "hi",
      safety_identifier: "ada@example.com",
      service_tier: "flex",
    });
    expect(body.metadata).toEqual({ user_id: expect.stringMatching(/^[0-9a-f]{32}$/) });
    expect(dropped).toEqual(["service_tier"]);
    expect(toMessages("responses", { input: "hi", service_tier: "default" }).body.service_tier).toBe(
      "standard_only",
    );
  });

  test("images in the output of a tool are inside its result", () => {
    const image = { type: "input_image", image_url: "data:image/png;base64,aGk=" };
    const written = toMessages("responses", {
      input: [
        { role: "user", content: "hi" },
        { type: "function_call", call_id: "c1", name: "look_up", arguments: "{}" },
        { type: "function_call_output", call_id: "c1", output: [image] },
      ],
    }).body.messages as { content: Json[] }[];
    expect(written[2]?.content).toMatchObject([
      {
        type: "tool_result",
        content: [{ type: "image", source: { media_type: "image/png", data: "aGk=" } }],
      },
    ]);
  });

  test("a history that begins with the assistant is preceded by a turn of the user", () => {
    const { body } = toMessages("chat", { messages: [{ role: "assistant", content: "Hello." }, user] });
    expect(body.messages).toMatchObject([{ role: "user" }, { role: "assistant" }, { role: "user" }]);
  });

  test("web search becomes the vendor's own, with its filters", () => {
    const tool = { type: "web_search", filters: { allowed_domains: ["example.com"] } };
    expect(toMessages("responses", { input: "hi", tools: [tool] }).body.tools).toEqual([
      { type: "web_search_20250305", name: "web_search", allowed_domains: ["example.com"] },
    ]);
  });
});

describe("requests of a Messages client", () => {
  test("the line about Claude Code's version is left out, because it would break the prompt cache", () => {
    const system = [
      { type: "text", text: "x-anthropic-billing-header: cc_version=2.1.325" },
      { type: "text", text: "You are helpful." },
    ];
    const { body } = fromMessages("chat", { system, messages: [user] });
    expect(JSON.stringify(body)).not.toContain("billing-header");
    expect(body.messages).toMatchObject([{ role: "system" }, { role: "user" }]);
  });

  test("a system message in the middle of a conversation is kept in its place", () => {
    const messages = [
      user,
      { role: "assistant", content: "Hello." },
      { role: "system", content: "Be brief." },
    ];
    expect(JSON.stringify(fromMessages("chat", { messages }).body.messages)).toMatch(/Hello.*Be brief/);
    expect(JSON.stringify(fromMessages("gemini", { messages }).body.contents)).toMatch(/Hello.*Be brief/);
  });

  test("the session of Claude Code identifies the prompt cache", () => {
    const metadata = { user_id: JSON.stringify({ device_id: "d", session_id: "5f1c-9a" }) };
    expect(fromMessages("responses", { messages: [user], metadata }).body.prompt_cache_key).toBe("5f1c-9a");
  });

  test("the result of a failed tool is marked in the text in dialects without a field for it", () => {
    const messages = [
      user,
      { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "look_up", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", is_error: true, content: "no" }] },
    ];
    expect(fromMessages("chat", { messages }).body.messages).toMatchObject([
      {},
      {},
      { content: "Error: no" },
    ]);
    expect(fromMessages("responses", { messages }).body.input).toMatchObject([
      {},
      {},
      { output: "Error: no" },
    ]);
    expect(JSON.stringify(fromMessages("gemini", { messages }).body)).toContain('"response":{"error":"no"}');
  });

  test("tools that the client runs become functions, tools that only Anthropic runs are dropped and named", () => {
    const bash = { type: "bash_20250124", name: "bash" };
    expect(fromMessages("chat", { messages: [user], tools: [bash] }).body.tools).toMatchObject([
      { function: { name: "bash", parameters: { properties: { command: { type: "string" } } } } },
    ]);
    const code = { type: "code_execution_20250825", name: "code_execution" };
    const { body, dropped } = fromMessages("chat", { messages: [user], tools: [bash, code] });
    expect([body.tools, dropped]).toMatchObject([[{}], ["tools[1].code_execution_20250825"]]);
    const choice = { type: "tool", name: "code_execution" };
    expect(() => fromMessages("chat", { messages: [user], tools: [code], tool_choice: choice })).toThrow(
      "code_execution_20250825",
    );
  });

  test("settings of betas are dropped and named", () => {
    const json = { messages: [user], context_management: { edits: [] }, container: "c" };
    expect(fromMessages("chat", json).dropped).toEqual(["context_management", "container"]);
  });
});

describe("streams to a Messages client", () => {
  const call = { index: 0, id: "c1", function: { name: "look_up", arguments: "" } };
  const usage = { promptTokenCount: 3, totalTokenCount: 4 };

  test.each<[Dialect, () => HubEvent[]]>([
    ["chat", () => readChat([{ tool_calls: [call] }], "stop")],
    [
      "responses",
      () =>
        readStream("responses", [
          {
            type: "response.output_item.added",
            output_index: 0,
            item: { type: "function_call", id: "fc", call_id: "c1", name: "look_up", arguments: "" },
          },
          {
            type: "response.output_item.done",
            output_index: 0,
            item: { type: "function_call", id: "fc", call_id: "c1", name: "look_up", arguments: "{}" },
          },
          { type: "response.completed", response: { status: "completed", output: [] } },
        ]),
    ],
    [
      "gemini",
      () =>
        readStream("gemini", [
          {
            candidates: [
              { content: { parts: [{ functionCall: { name: "look_up", args: {} } }] }, finishReason: "STOP" },
            ],
            usageMetadata: usage,
          },
        ]),
    ],
    [
      "messages",
      () =>
        readStream("messages", [
          { type: "message_start", message: { id: "m" } },
          {
            type: "content_block_start",
            index: 0,
            content_block: { type: "tool_use", id: "c1", name: "look_up", input: {} },
          },
          { type: "content_block_stop", index: 0 },
          { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 1 } },
          { type: "message_stop" },
        ]),
    ],
  ])("end with tool_use if a %s upstream called a tool, whatever it reports", (_, read) => {
    const written = writeMessages(read());
    expect(written.at(-2)).toMatchObject({ type: "message_delta", delta: { stop_reason: "tool_use" } });
    // The input of a call without arguments is still an object.
    expect(written.find(({ type }) => type === "content_block_delta")).toMatchObject({
      delta: { type: "input_json_delta", partial_json: "{}" },
    });
  });

  test("begin with the size of the input, not with zero", () => {
    expect(writeMessages(readChat([{ content: "hi" }], "stop"))[0]).toMatchObject({
      message: { usage: { input_tokens: 10 } },
    });
  });

  test("have one start, and a block for each change between reasoning and text, without an empty one", () => {
    const deltas = [{ role: "assistant", content: "" }, { reasoning_content: "Hm." }, { content: "Well." }];
    const written = writeMessages(readChat([...deltas, { reasoning_content: "Or?" }], "stop"));
    expect(written.filter(({ type }) => type === "message_start")).toHaveLength(1);
    expect(
      written.flatMap(({ content_block: block }) => (block === undefined ? [] : [(block as Json).type])),
    ).toEqual(["thinking", "text", "thinking"]);
  });

  test("never contain a made-up signature", () => {
    const written = writeMessages(readChat([{ reasoning_content: "Hm." }, { content: "Yes." }], "stop"));
    const signatures = written.flatMap(({ delta }) =>
      (delta as Json | undefined)?.type === "signature_delta" ? [(delta as Json).signature] : [],
    );
    expect(signatures).toEqual([""]);
  });
});
