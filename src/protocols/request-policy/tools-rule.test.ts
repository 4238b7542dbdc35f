import { describe, expect, test } from "bun:test";
import { TOOL_KINDS } from "../../records/request-policy.ts";
import { HOSTED_GEMINI_TOOLS, TOOL_MEMBERS } from "../shared/tool-kinds.ts";
import { apply, BASE, rejection, sent } from "./apply-rules.test-support.ts";

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

  test.each(TOOL_MEMBERS)("`$name` is dropped if its kind is denied, and stays if it is off", (member) => {
    const { name, kind, dialect, isOffIfFalse } = member;
    const deny = { tools: { deny: [kind], over: "drop" } } as const;
    for (const on of [{}, true]) expect(sent(dialect, { [name]: on }, deny)).toEqual(BASE[dialect]);
    expect(sent(dialect, { [name]: null }, deny)).toEqual({ ...BASE[dialect], [name]: null });
    const off = { [name]: false };
    expect(sent(dialect, off, deny)).toEqual({ ...BASE[dialect], ...(isOffIfFalse ? off : {}) });
    const other = { tools: { deny: ["shell"], over: "drop" } } as const;
    expect(sent(dialect, { [name]: {} }, other)).toEqual({ ...BASE[dialect], [name]: {} });
  });

  test.each(HOSTED_GEMINI_TOOLS)("Gemini's `%s` is dropped if its kind is denied", (name) => {
    const deny = { tools: { deny: TOOL_KINDS, over: "drop" } } as const;
    expect(sent("gemini", { tools: [{ [name]: {} }] }, deny)).toEqual(BASE.gemini);
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
    // The last one stands for the rest.
    expect(many.changes).toHaveLength(33);
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

  test("what may have tools of its own is rejected", () => {
    const opaque = [
      ["responses", { prompt: { id: "pmpt_1" } }],
      ["gemini", { cached_content: "cachedContents/1" }],
      ["chat", { extra_body: { google: { cached_content: "cachedContents/1" } } }],
    ] as const;
    for (const [tested, body] of opaque)
      expect(rejection(tested, body, { tools })).toMatchObject({ code: "policy_violation" });
  });

  test("denied tools that items of the conversation offer are dropped", () => {
    const offer = (list: object[]) => ({ type: "additional_tools", role: "developer", tools: list });
    const found = (list: object[]) => ({ type: "tool_search_output", call_id: "c", tools: list });
    const search = { type: "web_search" };
    const user = { role: "user", content: "web_search" };
    const body = { input: [offer([search, own]), user, found([search])], tools: [search] };
    const changed = apply("responses", { ...body, tool_choice: "required" }, { tools });
    expect(JSON.parse(changed.text)).toEqual({
      model: "m",
      input: [offer([own]), user, found([])],
      tool_choice: "required",
    });
    expect(changed.changes).toEqual([{ rule: "tools", param: "tools", from: "web_search", to: null }]);
    const none = { input: [offer([search])], tool_choice: "required" };
    expect(rejection("responses", none, { tools })).toMatchObject({ param: "tool_choice" });
    expect(rejection("responses", body, { tools: { ...tools, over: "reject" } })).toMatchObject({
      param: "tools",
    });
    const twice = '{"model":"m","input":[{"tools":[],"\\u0074ools":[{"type":"web_search"}]}]}';
    expect(rejection("responses", twice, { tools })).toMatchObject({ code: "duplicate_parameter" });
    const variant = '{"model":"m","input":[{"Tools":[{"type":"web_search"}]}]}';
    expect(rejection("responses", variant, { tools })).toMatchObject({ code: "unknown_parameter" });
  });

  test("a tool of Gemini that is repeated in another spelling is rejected", () => {
    const body = '{"contents":[{"parts":[]}],"tools":[{"googleSearch":{},"google_search":{}}]}';
    expect(rejection("gemini", body, { tools })).toMatchObject({ code: "duplicate_parameter" });
  });
});
