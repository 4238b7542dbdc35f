/** Fields of requests, one by one: what becomes of each at an upstream of another dialect. */

import { describe, expect, test } from "bun:test";
import { ANTHROPIC_PROFILE, GEMINI_PROFILE, OPENAI_PROFILE } from "../../accounts/profiles.ts";
import { lookUpCodec } from "../codecs.ts";
import { writeTarget } from "./codec.test-support.ts";
import type { WriteTarget, WrittenRequest } from "./dialect-codec.ts";
import type { Dialect } from "./hub-request.ts";

type Json = Record<string, unknown>;

const PROFILES = {
  chat: OPENAI_PROFILE,
  responses: OPENAI_PROFILE,
  messages: ANTHROPIC_PROFILE,
  gemini: GEMINI_PROFILE,
} as const;
const BASES: Readonly<Record<Dialect, Json>> = {
  chat: { messages: [{ role: "user", content: "hi" }] },
  responses: { input: "hi" },
  messages: { max_tokens: 100, messages: [{ role: "user", content: "hi" }] },
  gemini: { contents: [{ role: "user", parts: [{ text: "hi" }] }] },
};

function write(
  [client, upstream]: readonly [Dialect, Dialect],
  change: Json,
  target: Partial<WriteTarget> = {},
): WrittenRequest {
  const options = { publicModel: "public", stream: false };
  const request = lookUpCodec(client).readRequest({ ...BASES[client], ...change }, options);
  return lookUpCodec(upstream).writeRequest(request, writeTarget({ profile: PROFILES[upstream], ...target }));
}

const tools = [{ type: "function", function: { name: "look_up", parameters: { type: "object" } } }];
const schema = { type: "object", properties: { a: { type: "string" } } };
const jsonSchema = { type: "json_schema", json_schema: { name: "n", schema } };
const userParts = (...content: object[]) => ({ messages: [{ role: "user", content }] });
const file = (type: string, filename = "a") => ({
  type: "file",
  file: { file_data: `data:${type};base64,aGk=`, filename },
});
const image = (type: string) => ({ type: "image_url", image_url: { url: `data:${type};base64,aGk=` } });

describe("Chat to Messages", () => {
  const pair = ["chat", "messages"] as const;

  test.each<[string, Json, Json]>([
    ["a stop text", { stop: "END" }, { stop_sequences: ["END"] }],
    ["the output limit", { max_completion_tokens: 7 }, { max_tokens: 7 }],
    ["tool choice auto", { tools, tool_choice: "auto" }, {}],
    ["tool choice required", { tools, tool_choice: "required" }, { tool_choice: { type: "any" } }],
    ["tool choice none", { tools, tool_choice: "none" }, { tool_choice: { type: "none" } }],
    [
      "one tool",
      { tools, tool_choice: { type: "function", function: { name: "look_up" } } },
      { tool_choice: { type: "tool", name: "look_up" } },
    ],
    [
      "no parallel calls",
      { tools, parallel_tool_calls: false },
      { tool_choice: { type: "auto", disable_parallel_tool_use: true } },
    ],
    [
      "a schema of the response",
      { response_format: jsonSchema },
      { output_config: { format: { type: "json_schema", schema } } },
    ],
    [
      "a PDF file",
      userParts(file("application/pdf", "a.pdf")),
      {
        messages: [
          {
            role: "user",
            content: [
              {
                type: "document",
                source: { type: "base64", media_type: "application/pdf", data: "aGk=" },
                title: "a.pdf",
              },
            ],
          },
        ],
      },
    ],
    [
      "a text file",
      userParts(file("text/csv", "a.csv")),
      {
        messages: [
          {
            content: [{ source: { type: "text", media_type: "text/plain", data: "hi" }, title: "a.csv" }],
          },
        ],
      },
    ],
    [
      "an image by its address",
      userParts({ type: "image_url", image_url: { url: "https://a.example/a.png" } }),
      { messages: [{ content: [{ source: { type: "url", url: "https://a.example/a.png" } }] }] },
    ],
    [
      "arguments that are no object",
      {
        messages: [
          { role: "user", content: "hi" },
          { role: "assistant", tool_calls: [{ id: "c", function: { name: "look_up", arguments: "[1]" } }] },
          { role: "tool", tool_call_id: "c", content: "ok" },
        ],
      },
      { messages: [{}, { content: [{ type: "tool_use", input: { input: [1] } }] }, {}] },
    ],
    [
      "a system message in the middle",
      {
        messages: [
          { role: "user", content: "hi" },
          { role: "system", content: "Be brief." },
        ],
      },
      { messages: [{ role: "user", content: [{}, { text: expect.stringMatching(/^<.*Be brief/s) }] }] },
    ],
  ])("%s", (_, change, expected) => {
    const { body, dropped } = write(pair, change);
    expect(body).toMatchObject(expected);
    expect(dropped).toEqual([]);
  });

  test("a limit is required: the model's own, or 32,000", () => {
    expect(write(pair, {}, { modelOutputTokensMax: 9 }).body.max_tokens).toBe(9);
    expect(write(pair, {}).body.max_tokens).toBe(32_000);
  });

  test("a model that cannot enforce a schema gets it as an instruction", () => {
    const { body, dropped } = write(
      pair,
      { response_format: jsonSchema },
      { upstreamModel: "claude-3-5-haiku" },
    );
    expect([body.output_config, dropped]).toEqual([undefined, ["strict"]]);
    expect(JSON.stringify(body.system)).toContain("JSON schema");
  });

  test.each([
    ["seed", { seed: 1 }],
    ["presence_penalty", { presence_penalty: 1 }],
    ["frequency_penalty", { frequency_penalty: 1 }],
    ["logprobs", { logprobs: true }],
    ["logit_bias", { logit_bias: { 1: 1 } }],
    ["verbosity", { verbosity: "low" }],
    ["messages[0].name", { messages: [{ role: "user", name: "bob", content: "hi" }] }],
    ["response_format", { response_format: { type: "json_object" } }],
  ])("%s is dropped and named", (name, change) => {
    expect(write(pair, change).dropped).toEqual([name]);
  });

  test.each<[string, Json, string]>([
    ["more than one choice", { n: 2 }, "`n`"],
    ["an image of another type", userParts(image("image/tiff")), "JPEG, PNG, GIF or WebP"],
    ["a file of another type", userParts(file("application/msword")), "PDF file or a text file"],
    [
      "audio",
      userParts({ type: "input_audio", input_audio: { data: "aGk=", format: "wav" } }),
      "input_audio",
    ],
  ])("%s is refused by name", (_, change, text) => {
    expect(() => write(pair, change)).toThrow(text);
  });
});

describe("Messages to others", () => {
  test.each([
    [1_024, "low"],
    [2_048, "low"],
    [8_192, "medium"],
    [16_000, "high"],
  ])("a budget of %i is the effort %s", (budget_tokens, effort) => {
    const { body } = write(["messages", "chat"], { thinking: { type: "enabled", budget_tokens } });
    expect(body.reasoning_effort).toBe(effort);
  });

  const own = { name: "look_up", input_schema: schema };
  test.each<[string, Json, tools: readonly string[], dropped: readonly string[]]>([
    ["a tool to load later is offered at once", { ...own, defer_loading: true }, ["look_up"], []],
    ["a tool that only code calls is left out", { ...own, allowed_callers: ["code_execution"] }, [], []],
    [
      "the search for tools is not needed",
      { type: "tool_search_tool_regex_20251119", name: "tool_search" },
      [],
      ["tools[0].tool_search_tool_regex_20251119"],
    ],
    ["examples are named", { ...own, input_examples: [{}] }, ["look_up"], ["tools[0].input_examples"]],
    ["a tool with a known schema", { type: "text_editor_20250728", name: "edit" }, ["edit"], []],
  ])("%s", (_, tool, names, dropped) => {
    const written = write(["messages", "responses"], { tools: [tool] });
    const offered = (written.body.tools ?? []) as Json[];
    expect([offered.map(({ name }) => String(name)), written.dropped]).toEqual([[...names], [...dropped]]);
  });

  test("found passages and references to tools are text", () => {
    const content = [
      {
        type: "search_result",
        title: "Sky",
        source: "https://a.example",
        content: [{ type: "text", text: "blue" }],
      },
      { type: "tool_reference", tool_name: "look_up" },
    ];
    const { body } = write(["messages", "chat"], { messages: [{ role: "user", content }] });
    expect(body.messages).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "Sky\nhttps://a.example\nblue" },
          { type: "text", text: "The tool look_up is available." },
        ],
      },
    ]);
  });

  test("settings of the output that other vendors lack are named", () => {
    const json = { output_config: { effort: "low", task_budget: {} }, speed: "fast", inference_geo: "us" };
    expect(write(["messages", "chat"], json).dropped).toEqual([
      "speed",
      "inference_geo",
      "output_config.task_budget",
    ]);
  });
});

describe("Chat to Gemini", () => {
  const pair = ["chat", "gemini"] as const;

  test.each<[string, Json, Json]>([
    [
      "sampling, limits and stop texts",
      {
        max_tokens: 9,
        temperature: 0.5,
        top_p: 0.9,
        stop: ["a"],
        seed: 1,
        presence_penalty: 1,
        frequency_penalty: 1,
      },
      {
        generationConfig: {
          maxOutputTokens: 9,
          temperature: 0.5,
          topP: 0.9,
          stopSequences: ["a"],
          seed: 1,
          presencePenalty: 1,
          frequencyPenalty: 1,
        },
      },
    ],
    [
      "tool choice required",
      { tools, tool_choice: "required" },
      { toolConfig: { functionCallingConfig: { mode: "ANY" } } },
    ],
    [
      "tool choice none",
      { tools, tool_choice: "none" },
      { toolConfig: { functionCallingConfig: { mode: "NONE" } } },
    ],
    [
      "one tool",
      { tools, tool_choice: { type: "function", function: { name: "look_up" } } },
      { toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["look_up"] } } },
    ],
    [
      "a schema of the response",
      { response_format: jsonSchema },
      { generationConfig: { responseMimeType: "application/json", responseJsonSchema: schema } },
    ],
    ["a service tier", { service_tier: "flex" }, { serviceTier: "flex" }],
    [
      "instructions",
      {
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: "hi" },
        ],
      },
      { systemInstruction: { parts: [{ text: "Be brief." }] } },
    ],
    [
      "a PDF file",
      userParts(file("application/pdf")),
      { contents: [{ parts: [{ inlineData: { mimeType: "application/pdf", data: "aGk=" } }] }] },
    ],
  ])("%s", (_, change, expected) => {
    const { body, dropped } = write(pair, change);
    expect(body).toMatchObject(expected);
    expect(dropped).toEqual([]);
  });

  test.each([
    ["stop", { stop: ["a", "b", "c", "d", "e", "f"] }],
    ["service_tier", { service_tier: "scale" }],
    ["logprobs", { logprobs: true }],
    ["parallel_tool_calls", { tools, parallel_tool_calls: false }],
  ])("%s is dropped and named, as far as it exceeds the API", (name, change) => {
    expect(write(pair, change).dropped).toEqual([name]);
  });
});

describe("Gemini to others", () => {
  test.each(["chat", "responses", "messages"] as const)(
    "an image that the model drew is named for %s",
    (upstream) => {
      const contents = [
        { role: "user", parts: [{ text: "draw" }] },
        {
          role: "model",
          parts: [{ text: "Here." }, { inlineData: { mimeType: "image/png", data: "aGk=" } }],
        },
        { role: "user", parts: [{ text: "again" }] },
      ];
      const { body, dropped } = write(["gemini", upstream], { contents });
      expect(dropped).toEqual(["assistant.image"]);
      expect(JSON.stringify(body)).not.toContain("aGk=");
    },
  );

  test("safety settings and cached content exist at Google only", () => {
    const json = { safetySettings: [{ category: "x" }] };
    expect(write(["gemini", "chat"], json).dropped).toEqual(["safetySettings"]);
    expect(() => write(["gemini", "chat"], { cachedContent: "cachedContents/a" })).toThrow("cachedContent");
  });
});
