import { describe, expect, test } from "bun:test";
import { wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import { type BodyRules, RULES } from "../../records/request-policy.ts";
import { lookUpEndpoint } from "../endpoints.ts";
import { readModelRequest } from "../read-request.ts";
import type { EndpointName } from "../shared/endpoint.ts";
import { applyRules, RULE_PLACES } from "./apply-rules.ts";

const NO_RULES: BodyRules = {
  inputTokensMax: null,
  outputTokens: null,
  effort: null,
  serviceTiers: null,
  tools: null,
  inputsMax: {},
  forced: [],
};

const ENDPOINTS = {
  responses: "responses",
  chat: "chat.completions",
  messages: "messages",
  gemini: "gemini.generate_content",
} as const satisfies Record<string, EndpointName>;
type Tested = keyof typeof ENDPOINTS;

const BASE: Readonly<Record<Tested, Record<string, unknown>>> = {
  responses: { model: "m", input: "Hi" },
  chat: { model: "m", messages: [{ role: "user", content: "Hi" }] },
  messages: { model: "m", max_tokens: 100, messages: [{ role: "user", content: "Hi" }] },
  gemini: { contents: [{ parts: [{ text: "Hi" }] }] },
};

function apply(tested: Tested, body: object | string, rules: Partial<BodyRules>) {
  const text = typeof body === "string" ? body : JSON.stringify({ ...BASE[tested], ...body });
  const endpoint = { ...lookUpEndpoint(ENDPOINTS[tested]), model: "m" };
  const limits = { depthMax: 128, modelNameCharsMax: 200 };
  const scanned = readModelRequest(
    wholeBytesPart(new TextEncoder().encode(text)),
    endpoint,
    limits,
  ).scannedBody();
  if (scanned === null) throw new Error("not JSON");
  const { bytes, ...result } = applyRules(scanned, { ...NO_RULES, ...rules }, endpoint);
  return { ...result, text: bytes === null ? text : new TextDecoder().decode(bytes) };
}

function sent(tested: Tested, body: object | string, rules: Partial<BodyRules>): Record<string, unknown> {
  return JSON.parse(apply(tested, body, rules).text);
}

function rejection(tested: Tested, body: object | string, rules: Partial<BodyRules>) {
  try {
    apply(tested, body, rules);
    return null;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { code: error.code, param: error.param };
  }
}

test("every rule has a place in every interface, or is declared to have none", () => {
  for (const rule of RULES) {
    if (rule === "models" || rule === "networks") continue;
    for (const name of INTERFACES) {
      const places = RULE_PLACES[rule][name];
      expect([rule, name, places === undefined]).toEqual([rule, name, false]);
      if (places !== null) expect([rule, name, places.length > 0]).toEqual([rule, name, true]);
    }
  }
});

describe("effort", () => {
  const effort = { max: "medium", over: "lower" } as const;

  test("a higher effort is lowered in every dialect", () => {
    expect(sent("responses", { reasoning: { effort: "high", summary: "auto" } }, { effort })).toMatchObject({
      reasoning: { effort: "medium", summary: "auto" },
    });
    expect(sent("chat", { reasoning_effort: "xhigh" }, { effort })).toMatchObject({
      reasoning_effort: "medium",
    });
    expect(sent("chat", { reasoning: { effort: "high" } }, { effort })).toMatchObject({
      reasoning: { effort: "medium" },
    });
    expect(sent("messages", { output_config: { effort: "max" } }, { effort })).toMatchObject({
      output_config: { effort: "medium" },
    });
    expect(
      sent("messages", { thinking: { type: "enabled", budget_tokens: 30_000 } }, { effort }),
    ).toMatchObject({
      thinking: { type: "enabled", budget_tokens: 8_192 },
    });
    for (const [config, thinking] of [
      ["generationConfig", "thinkingConfig"],
      ["generation_config", "thinking_config"],
    ] as const) {
      const level = { [config]: { [thinking]: { thinkingLevel: "HIGH" } } };
      expect(sent("gemini", level, { effort })).toMatchObject({
        [config]: { [thinking]: { thinkingLevel: "medium" } },
      });
      const budget = { [config]: { [thinking]: { thinking_budget: -1 } } };
      expect(sent("gemini", budget, { effort })).toMatchObject({
        [config]: { [thinking]: { thinking_budget: 8_192 } },
      });
    }
  });

  test("an allowed effort leaves the body as it came", () => {
    const body = '{ "model": "m",\n "input": "Hi", "reasoning" : { "effort" : "low" } }';
    const result = apply("responses", body, { effort });
    expect(result).toMatchObject({ text: body, changes: [] });
  });

  test("adaptive thinking gets the effort that is allowed", () => {
    expect(sent("messages", { thinking: { type: "adaptive" } }, { effort })).toMatchObject({
      thinking: { type: "adaptive" },
      output_config: { effort: "medium" },
    });
    const config = { thinking: { type: "adaptive" }, output_config: {} };
    expect(sent("messages", config, { effort })).toMatchObject({ output_config: { effort: "medium" } });
  });

  test("no effort is no thinking", () => {
    const none = { max: "none", over: "lower" } as const;
    for (const thinking of [{ type: "adaptive" }, { type: "enabled", budget_tokens: 2_000 }])
      expect(sent("messages", { thinking }, { effort: none })).toMatchObject({
        thinking: { type: "disabled" },
      });
    expect(sent("responses", { reasoning: { effort: "high" } }, { effort: none })).toMatchObject({
      reasoning: { effort: "none" },
    });
  });

  test("an unknown effort counts as higher", () => {
    expect(sent("responses", { reasoning: { effort: "extreme" } }, { effort })).toMatchObject({
      reasoning: { effort: "medium" },
    });
    expect(sent("chat", { reasoning_effort: 9 }, { effort })).toMatchObject({ reasoning_effort: "medium" });
  });

  test("a rule may reject instead", () => {
    const reject = { effort: { max: "low", over: "reject" } } as const;
    expect(rejection("chat", { reasoning_effort: "high" }, reject)).toEqual({
      code: "policy_violation",
      param: "reasoning_effort",
    });
    expect(rejection("chat", { reasoning_effort: "low" }, reject)).toBeNull();
  });

  test("a nested member that appears twice or in another case is rejected", () => {
    const twice = '{"model":"m","input":"Hi","reasoning":{"effort":"low","\\u0065ffort":"high"}}';
    expect(rejection("responses", twice, { effort })).toMatchObject({ code: "duplicate_parameter" });
    const variant = '{"model":"m","input":"Hi","reasoning":{"Effort":"high"}}';
    expect(rejection("responses", variant, { effort })).toMatchObject({ code: "unknown_parameter" });
    const spellings =
      '{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingBudget":1,"thinking_budget":99999}}}';
    expect(rejection("gemini", spellings, { effort })).toMatchObject({ code: "duplicate_parameter" });
  });
});

describe("output_tokens", () => {
  const outputTokens = { max: 16_000, over: "lower" } as const;

  test("the cap is returned, and a larger limit of the client is named", () => {
    const { outputCap, changes, text } = apply("chat", { max_tokens: 64_000 }, { outputTokens });
    expect(outputCap).toBe(16_000);
    expect(changes).toEqual([{ rule: "output_tokens", param: "max_tokens", from: "64000", to: "16000" }]);
    // The cap itself is spliced in for each account, under the name that it accepts.
    expect(JSON.parse(text)).toMatchObject({ max_tokens: 64_000 });
    expect(apply("chat", {}, { outputTokens })).toMatchObject({ outputCap: 16_000, changes: [] });
  });

  test("a thinking budget that no longer fits is lowered below the cap", () => {
    const body = { max_tokens: 64_000, thinking: { type: "enabled", budget_tokens: 32_000 } };
    expect(sent("messages", body, { outputTokens })).toMatchObject({ thinking: { budget_tokens: 14_976 } });
    const short = { outputTokens: { max: 1_000, over: "lower" } } as const;
    expect(rejection("messages", body, short)).toEqual({
      code: "policy_violation",
      param: "thinking.budget_tokens",
    });
  });

  test("a rule may reject a larger limit", () => {
    const reject = { outputTokens: { max: 100, over: "reject" } } as const;
    expect(rejection("responses", { max_output_tokens: 101 }, reject)).toMatchObject({
      param: "max_output_tokens",
    });
    expect(rejection("chat", { max_completion_tokens: -1 }, reject)).toMatchObject({
      code: "policy_violation",
    });
    expect(rejection("gemini", { generationConfig: { maxOutputTokens: 101 } }, reject)).toMatchObject({
      param: "maxOutputTokens",
    });
    expect(rejection("responses", { max_output_tokens: 100 }, reject)).toBeNull();
  });
});

test("a service tier outside the list is rejected in every dialect", () => {
  const rules = { serviceTiers: ["auto", "default", "standard"] };
  expect(rejection("responses", { service_tier: "priority" }, rules)).toMatchObject({
    param: "service_tier",
  });
  expect(rejection("chat", { service_tier: "flex" }, rules)).toMatchObject({ param: "service_tier" });
  expect(rejection("messages", { speed: "fast" }, rules)).toMatchObject({ param: "speed" });
  expect(rejection("gemini", { service_tier: "SERVICE_TIER_FLEX" }, rules)).toMatchObject({
    param: "serviceTier",
  });
  expect(rejection("responses", { service_tier: "auto" }, rules)).toBeNull();
  expect(rejection("responses", { service_tier: 1 }, rules)).toMatchObject({ code: "policy_violation" });
  expect(rejection("responses", {}, rules)).toBeNull();
});

test("store and background are forced", () => {
  const forced = { forced: ["store", "background"] } as const;
  expect(sent("responses", {}, forced)).toEqual({ model: "m", input: "Hi", store: false });
  expect(sent("responses", { store: true, background: true }, forced)).toMatchObject({
    store: false,
    background: false,
  });
  expect(sent("chat", { store: true }, forced)).toMatchObject({ store: false });
  expect(apply("chat", {}, forced).changes).toEqual([]);
  expect(apply("messages", {}, forced).changes).toEqual([]);
});

describe("tools", () => {
  const tools = { deny: ["web_search", "code", "mcp"], over: "drop" } as const;
  const own = { type: "function", name: "mine", parameters: {} };

  test("denied kinds are dropped under all of their names, and functions of the client stay", () => {
    const types = ["web_search", "web_search_preview", "web_search_2025_08_26", "code_interpreter", "mcp"];
    const list = [...types.map((type) => ({ type })), own];
    expect(sent("responses", { tools: list }, { tools }).tools).toEqual([own]);
    const chat = { type: "function", function: { name: "mine" } };
    const body = { tools: [chat], web_search_options: {}, plugins: [{ id: "web" }], enable_search: true };
    expect(sent("chat", body, { tools })).toEqual({ ...BASE.chat, tools: [chat] });
    const custom = { name: "web_search_mine", input_schema: {} };
    const messages = {
      tools: [{ type: "web_search_20250305", name: "web_search" }, custom],
      mcp_servers: [{ type: "url", url: "https://example.com" }],
    };
    expect(sent("messages", messages, { tools })).toEqual({ ...BASE.messages, tools: [custom] });
    const functions = { functionDeclarations: [{ name: "mine" }] };
    const gemini = {
      tools: [{ ...functions, google_search: {} }, { codeExecution: {} }, { googleMaps: {} }],
    };
    expect(sent("gemini", gemini, { tools })).toEqual({ ...BASE.gemini, tools: [functions] });
  });

  test("kinds that are not denied stay", () => {
    const list = [{ type: "file_search", vector_store_ids: ["v"] }, { type: "local_shell" }];
    expect(apply("responses", { tools: list }, { tools }).changes).toEqual([]);
  });

  test("a tool of an unknown type counts as denied, also inside a namespace", () => {
    const list = [
      { type: "teleport" },
      { type: "namespace", name: "n", tools: [own, { type: "teleport" }] },
      own,
    ];
    expect(sent("responses", { tools: list }, { tools }).tools).toEqual([own]);
  });

  test("a thousand denied tools take linear time, and the same change is named once", () => {
    const list = Array.from({ length: 1_000 }, () => ({ type: "web_search" }));
    const { changes, text } = apply("responses", { tools: list }, { tools });
    expect(changes).toEqual([{ rule: "tools", param: "tools", from: "web_search", to: null }]);
    expect(JSON.parse(text)).toEqual(BASE.responses);
    const unknown = list.map((_, i) => ({ type: `tool_of_the_future_${i}` }));
    const many = apply("responses", { tools: [...unknown, own] }, { tools });
    expect(many.changes).toHaveLength(32);
    expect(JSON.parse(many.text).tools).toEqual([own]);
  });

  test("without tools, what belongs to them is removed", () => {
    const body = { tools: [{ type: "web_search" }], tool_choice: "auto", parallel_tool_calls: true };
    expect(sent("responses", body, { tools })).toEqual(BASE.responses);
  });

  test("a choice that needs a denied tool is rejected", () => {
    const search = { tools: [{ type: "web_search" }] };
    const violation = { code: "policy_violation", param: "tool_choice" } as const;
    expect(rejection("responses", { ...search, tool_choice: "required" }, { tools })).toEqual(violation);
    const named = { tools: [...search.tools, own], tool_choice: { type: "web_search_preview" } };
    expect(rejection("responses", named, { tools })).toEqual(violation);
    const allowed = {
      tools: [...search.tools, own],
      tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "web_search" }] },
    };
    expect(rejection("responses", allowed, { tools })).toEqual(violation);
    const messages = {
      tools: [
        { type: "web_search_20250305", name: "web_search" },
        { name: "mine", input_schema: {} },
      ],
      tool_choice: { type: "tool", name: "web_search" },
    };
    expect(rejection("messages", messages, { tools })).toEqual(violation);
    const any = { tools: messages.tools.slice(0, 1), tool_choice: { type: "any" } };
    expect(rejection("messages", any, { tools })).toEqual(violation);
    const mine = { tools: [...search.tools, own], tool_choice: { type: "function", name: "mine" } };
    expect(rejection("responses", mine, { tools })).toBeNull();
  });

  test("a stored prompt is rejected: it may have tools of its own", () => {
    expect(rejection("responses", { prompt: { id: "pmpt_1" } }, { tools })).toMatchObject({
      param: "prompt",
    });
  });

  test("a tool of Gemini that is repeated in another spelling is rejected", () => {
    const body = '{"contents":[{"parts":[]}],"tools":[{"googleSearch":{},"google_search":{}}]}';
    expect(rejection("gemini", body, { tools })).toMatchObject({ code: "duplicate_parameter" });
  });
});

describe("inputs", () => {
  const inputsMax = { images: 1, files: 0, urls: 0, audio: 0 };
  const check = (tested: Tested, body: object) => rejection(tested, body, { inputsMax })?.code ?? null;
  const data = "data:image/png;base64,AAAA";
  const chat = (...content: object[]) => ({ messages: [{ role: "user", content }] });
  const responses = (...content: object[]) => ({ input: [{ role: "user", content }] });
  const messages = (...content: object[]) => ({ messages: [{ role: "user", content }] });
  const gemini = (...parts: object[]) => ({ contents: [{ parts }] });
  const base64 = { type: "base64", media_type: "image/png", data: "AAAA" };

  test("inputs within the limits pass", () => {
    expect(check("responses", responses({ type: "input_image", image_url: data }))).toBeNull();
    expect(check("chat", chat({ type: "image_url", image_url: { url: data } }))).toBeNull();
    expect(check("messages", messages({ type: "image", source: base64 }))).toBeNull();
    expect(check("gemini", gemini({ inlineData: { mimeType: "image/png", data: "AAAA" } }))).toBeNull();
    const text = { type: "document", source: { type: "text", media_type: "text/plain", data: "x" } };
    expect(check("messages", messages(text))).toBeNull();
  });

  test.each([
    [
      "responses",
      responses({ type: "input_image", image_url: data }, { type: "input_image", image_url: data }),
    ],
    ["responses", responses({ type: "input_image", image_url: "https://example.com/a.png" })],
    ["responses", responses({ type: "input_file", file_id: "file_1" })],
    [
      "responses",
      {
        input: [
          { type: "function_call_output", call_id: "c", output: [{ type: "input_file", file_data: "x" }] },
        ],
      },
    ],
    ["chat", chat({ type: "image_url", image_url: { url: "https://example.com/a.png" } })],
    ["chat", chat({ type: "input_audio", input_audio: { data: "x", format: "wav" } })],
    ["chat", chat({ type: "file", file: { file_data: "x" } })],
    ["messages", messages({ type: "image", source: { type: "url", url: "https://example.com/a.png" } })],
    [
      "messages",
      messages({ type: "document", source: { type: "base64", media_type: "application/pdf", data: "x" } }),
    ],
    [
      "messages",
      messages({
        type: "tool_result",
        tool_use_id: "t",
        content: [
          { type: "image", source: base64 },
          { type: "image", source: base64 },
        ],
      }),
    ],
    ["gemini", gemini({ file_data: { file_uri: "gs://a", mime_type: "image/png" } })],
    ["gemini", gemini({ inlineData: { mimeType: "audio/wav", data: "x" } })],
    ["gemini", gemini({ inline_data: { mime_type: "application/pdf", data: "x" } })],
  ] as const)("more are rejected: %s %j", (tested, body) => {
    expect(check(tested, body)).toBe("policy_violation");
  });

  test("arguments of calls are data", () => {
    const call = { type: "tool_use", id: "t", name: "n", input: { type: "file", file_id: "x" } };
    expect(check("messages", { messages: [{ role: "assistant", content: [call] }] })).toBeNull();
  });
});
