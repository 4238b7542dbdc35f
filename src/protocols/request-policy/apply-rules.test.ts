import { describe, expect, test } from "bun:test";
import { INTERFACES } from "../../records/interfaces.ts";
import { RULES } from "../../records/request-policy.ts";
import { lookUpEndpoint } from "../endpoints.ts";
import { apply, rejection, sent, type Tested } from "./apply-rules.test-support.ts";
import { RULE_PLACES } from "./apply-rules.ts";

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

  test("members of single vendors in Chat Completions", () => {
    expect(sent("chat", { thinking_budget: 30_000 }, { effort })).toMatchObject({ thinking_budget: 8_192 });
    const none = { max: "none", over: "lower" } as const;
    expect(sent("chat", { thinking: { type: "enabled" } }, { effort: none })).toMatchObject({
      thinking: { type: "disabled" },
    });
    const bounded = { thinking: { type: "enabled", budget_tokens: 1_000 } };
    expect(apply("chat", bounded, { effort }).changes).toEqual([]);
    expect(
      apply("chat", { thinking: { type: "enabled" } }, { effort: { max: "high", over: "lower" } }).changes,
    ).toEqual([]);
    expect(sent("chat", { thinking: { type: "adaptive" } }, { effort })).toMatchObject({
      thinking: { type: "disabled" },
    });
    const google = { extra_body: { google: { thinking_config: { thinking_level: "high" } } } };
    expect(rejection("chat", google, { effort })).toEqual({ code: "policy_violation", param: "extra_body" });
  });

  test.each([
    [{ enable_thinking: true }, { enable_thinking: false }],
    [{ enable_thinking: "true" }, { enable_thinking: false }],
    [
      { enable_thinking: true, thinking_budget: 9_000 },
      { enable_thinking: true, thinking_budget: 2_048 },
    ],
    [{ reasoning: { enabled: true } }, { reasoning: { enabled: false } }],
    [{ reasoning: { enabled: true, effort: null } }, { reasoning: { enabled: false, effort: null } }],
    [{ reasoning: { enabled: true, effort: "high" } }, { reasoning: { enabled: true, effort: "low" } }],
    [{ thinking: { type: "enabled" } }, { thinking: { type: "disabled" } }],
    [
      { thinking: { type: "enabled", budget_tokens: 9_000 } },
      { thinking: { type: "enabled", budget_tokens: 2_048 } },
    ],
    [
      { chat_template_kwargs: { enable_thinking: true, custom: 1 } },
      { chat_template_kwargs: { enable_thinking: false, custom: 1 } },
    ],
    [{ chat_template_kwargs: { thinking: true } }, { chat_template_kwargs: { thinking: false } }],
    [
      { chat_template_kwargs: { enable_thinking: true, thinking_budget: 99_999 } },
      { chat_template_kwargs: { enable_thinking: true, thinking_budget: 2_048 } },
    ],
    [
      { chat_template_kwargs: { reasoning_effort: "high" } },
      { chat_template_kwargs: { reasoning_effort: "low" } },
    ],
  ])("a switch of a vendor in Chat Completions is bounded: %j", (body, expected) => {
    const low = { max: "low", over: "lower" } as const;
    expect(sent("chat", body, { effort: low })).toMatchObject(expected);
    const none = JSON.stringify(sent("chat", body, { effort: { max: "none", over: "lower" } }));
    expect(none).not.toMatch(/true|:"enabled"|"high"|"low"|[1-9]\d{3}/);
    expect(rejection("chat", body, { effort: { max: "none", over: "reject" } })).toMatchObject({
      code: "policy_violation",
    });
  });

  test("a switch that is off, or a rule that allows a high effort, changes nothing", () => {
    const off = {
      enable_thinking: false,
      reasoning: { enabled: false },
      chat_template_kwargs: { thinking: null },
    };
    expect(apply("chat", off, { effort: { max: "none", over: "reject" } }).changes).toEqual([]);
    const on = {
      enable_thinking: true,
      reasoning: { enabled: true },
      chat_template_kwargs: { thinking_mode: 1 },
    };
    expect(apply("chat", on, { effort: { max: "high", over: "reject" } }).changes).toEqual([]);
    expect(rejection("chat", on, { effort })).toEqual({
      code: "policy_violation",
      param: "chat_template_kwargs.thinking_mode",
    });
  });

  test("an effort that is null is replaced, not repeated", () => {
    const body = { thinking: { type: "adaptive" }, output_config: { effort: null } };
    expect(apply("messages", body, { effort }).text).toContain('"output_config":{"effort":"medium"}');
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
  });

  test("a cap that the client does not set is named", () => {
    const added = { rule: "output_tokens", from: null, to: "16000" };
    const named = (tested: Tested, body: object) => apply(tested, body, { outputTokens }).changes;
    expect(named("chat", {})).toMatchObject([{ ...added, param: "max_completion_tokens" }]);
    expect(named("responses", {})).toMatchObject([{ ...added, param: "max_output_tokens" }]);
    expect(named("gemini", {})).toMatchObject([{ ...added, param: "maxOutputTokens" }]);
    expect(named("messages", {})).toEqual([]);
    expect(named("chat", { max_tokens: 10 })).toEqual([]);
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

test("after 32 changes one more stands for the rest", () => {
  const tools = (many: number) => ({
    tools: Array.from({ length: many }, (_, at) => ({ type: `new_${at}` })),
  });
  const drop = { tools: { deny: ["web_search"], over: "drop" } } as const;
  expect(apply("chat", tools(32), drop).changes.map(({ from }) => from)).not.toContain(null);
  const { changes, text } = apply("chat", tools(50), drop);
  expect(changes).toHaveLength(33);
  expect(changes.at(-1)).toEqual({ rule: "tools", param: "...", from: null, to: null });
  expect(JSON.parse(text).tools).toBeUndefined();
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
  expect(sent("gemini", { store: true }, forced)).toMatchObject({ store: false });
  expect(apply("gemini", {}, forced).changes).toEqual([]);
  expect(apply("messages", {}, forced).changes).toEqual([]);
});

test("a member is not added where the endpoint has none", () => {
  const forced = { forced: ["store", "background"] } as const;
  const endpoint = lookUpEndpoint("responses.compact");
  expect(apply("responses", {}, forced, endpoint).changes).toEqual([]);
  const stored = apply("responses", { store: true }, forced, endpoint);
  expect(JSON.parse(stored.text)).toMatchObject({ store: false });
});
