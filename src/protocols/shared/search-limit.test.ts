import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts, wholeBytesPart } from "../../base/parts.ts";
import { lookUpEndpoint } from "../endpoints.ts";
import { readModelRequest } from "../read-request.ts";
import type { EndpointName } from "./endpoint.ts";
import { UNLIMITED_SEARCH } from "./search-limit.ts";
import { classifyGeminiTool, classifyToolType, GEMINI_TOOLS, TOOL_MEMBERS } from "./tool-kinds.ts";

const SEARCH = { type: "web_search_20250305", name: "web_search" };
const NAMESPACE = { type: "namespace", name: "n", tools: [{ type: "web_search" }] };

function read(name: EndpointName, text: string) {
  const endpoint = { ...lookUpEndpoint(name), model: "m" };
  return readModelRequest(wholeBytesPart(Buffer.from(text)), endpoint, {
    depthMax: 16,
    modelNameCharsMax: 32,
  });
}

const TURNS = { messages: [{ role: "user", content: "Hi" }] };
const BODIES: { readonly [name in EndpointName]?: object } = {
  responses: { input: "Hi" },
  "chat.completions": TURNS,
  messages: { ...TURNS, max_tokens: 16 },
  "gemini.generate_content": { contents: [{ parts: [{ text: "Hi" }] }] },
};
const write = (name: EndpointName, fields: object) =>
  JSON.stringify({ model: "m", ...BODIES[name], ...fields });
const readOffer = (name: EndpointName, fields: object) => read(name, write(name, fields)).searchOffer();

/** The body as sent upstream with a limit of the gateway. */
function sendLimited(name: EndpointName, text: string, searchesMax: number): string {
  const request = read(name, text);
  const offer = request.searchOffer();
  if (offer === null) throw new Error("no search is offered");
  const content = request.body.withSearchLimit(offer, searchesMax).forUpstream("m");
  if (!Array.isArray(content)) throw new Error("a JSON body is in memory");
  return new TextDecoder().decode(joinParts(content));
}

describe("the searches that a request offers", () => {
  test.each([
    ["responses", { tools: [{ type: "web_search" }] }],
    ["responses", { tools: [{ type: "function", name: "f" }, { type: "web_search_preview_2025_03_11" }] }],
    ["responses", { prompt: { id: "pmpt_1" } }],
    ["chat.completions", { web_search_options: {} }],
    ["chat.completions", { search_parameters: { mode: "auto" } }],
    ["chat.completions", { enable_search: true }],
    ["chat.completions", { plugins: [{ id: "web" }] }],
    ["messages", { tools: [SEARCH] }],
    ["gemini.generate_content", { tools: [{ googleSearch: {} }] }],
    ["gemini.generate_content", { tools: [{ google_search: {} }] }],
    ["gemini.generate_content", { tools: [{ googleSearchRetrieval: {} }] }],
    ["gemini.generate_content", { tools: [{ enterpriseWebSearch: {} }] }],
    ["gemini.generate_content", { tools: { googleSearch: {} } }],
    ["gemini.generate_content", { tools: { functionDeclarations: [{ name: "f" }], google_search: {} } }],
    ["gemini.generate_content", { cachedContent: "cachedContents/1" }],
    ["gemini.generate_content", { cached_content: "cachedContents/1" }],
    ["responses", { tools: [NAMESPACE] }],
    [
      "responses",
      { tools: [{ ...NAMESPACE, tools: [{ type: "function" }, NAMESPACE] }, { type: "custom" }] },
    ],
    ["responses", { tools: [{ type: "namespace", tools: [{ type: "function" }] }, { type: "web_search" }] }],
    ["responses", { input: [{ type: "additional_tools", tools: [NAMESPACE] }] }],
  ] as const)("%s with %j: without a limit", (name, fields) => {
    expect(readOffer(name, fields)?.searchesMax).toBeNull();
  });

  test.each([
    ["responses", {}],
    ["responses", { tools: [{ type: "function", name: "web_search" }, { type: "code_interpreter" }] }],
    ["responses", { max_tool_calls: 5 }],
    ["chat.completions", { web_search_options: null, enable_search: false }],
    ["messages", { tools: [{ name: "web_search", input_schema: {} }, { type: "web_fetch_20250910" }] }],
    ["gemini.generate_content", { tools: [{ codeExecution: {} }] }],
    ["gemini.generate_content", { contents: [{ parts: [{ text: "googleSearch" }] }] }],
    ["gemini.generate_content", { tools: { codeExecution: {} }, cachedContent: null }],
    ["responses", { tools: [{ type: "namespace", tools: [{ type: "function", name: "web_search" }] }] }],
    // Parameters of functions have any names.
    [
      "responses",
      { tools: [{ type: "function", parameters: { properties: { tools: [{ type: "web_search" }] } } }] },
    ],
    ["gemini.generate_content", { tools: { functionDeclarations: [{ parameters: { googleSearch: {} } }] } }],
  ] as const)("%s with %j: none", (name, fields) => {
    expect(readOffer(name, fields)).toBeNull();
  });

  test.each([
    ["responses", { tools: [{ type: "web_search" }], max_tool_calls: 5 }, 5],
    ["responses", { tools: [{ type: "web_search" }], max_tool_calls: 0 }, 0],
    ["responses", { tools: [{ type: "web_search" }], max_tool_calls: null }, null],
    ["responses", { tools: [{ type: "web_search" }], max_tool_calls: -1 }, null],
    ["messages", { tools: [{ ...SEARCH, max_uses: 3 }] }, 3],
    [
      "messages",
      {
        tools: [
          { ...SEARCH, max_uses: 3 },
          { type: "web_search_20260209", max_uses: 4 },
        ],
      },
      7,
    ],
    ["messages", { tools: [{ ...SEARCH, max_uses: 3 }, SEARCH] }, null],
    ["messages", { tools: [{ ...SEARCH, max_uses: "3" }] }, null],
    ["messages", { tools: [{ ...SEARCH, max_uses: 1.5 }] }, null],
    ["chat.completions", { web_search_options: {}, max_tool_calls: 2 }, null],
  ] as const)("%s with %j: at most %p", (name, fields, searchesMax) => {
    expect(readOffer(name, fields)?.searchesMax).toBe(searchesMax);
  });
});

describe("every tool that is a search by its kind is offered", () => {
  const typeNames = fc.oneof(
    fc.constantFrom(
      "web_search",
      "web_search_preview",
      "web_search_20250305",
      "web_fetch_20250910",
      "function",
    ),
    fc.stringMatching(/^web_search_\w{1,12}$/),
    fc.stringMatching(/^\w{1,12}$/),
  );
  const geminiNames = fc.constantFrom(...Object.keys(GEMINI_TOOLS));
  const wrap = (tool: object, namespaces: number): object =>
    namespaces === 0
      ? tool
      : { type: "namespace", tools: [{ type: "function" }, wrap(tool, namespaces - 1)] };

  test("by its type, in every place of Responses, Chat and Messages", () => {
    const places = fc.constantFrom<EndpointName>("responses", "chat.completions", "messages");
    fc.assert(
      fc.property(places, typeNames, fc.nat(4), fc.boolean(), (name, type, namespaces, isInItem) => {
        const tools = [wrap({ type }, namespaces)];
        const fields =
          isInItem && name === "responses" ? { input: [{ type: "additional_tools", tools }] } : { tools };
        expect(readOffer(name, fields) !== null).toBe(classifyToolType(type) === "web_search");
      }),
    );
  });

  test("by its member, in a list of Gemini and alone, in both spellings", () => {
    fc.assert(
      fc.property(geminiNames, fc.boolean(), fc.boolean(), (member, isList, isSnake) => {
        const spelled = isSnake ? member.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`) : member;
        const tool = { functionDeclarations: [], [spelled]: {} };
        expect(readOffer("gemini.generate_content", { tools: isList ? [{}, tool] : tool }) !== null).toBe(
          classifyGeminiTool(member) === "web_search",
        );
      }),
    );
  });

  test.each(TOOL_MEMBERS)("by the member $name of the body", ({ name, kind }) => {
    expect(readOffer("chat.completions", { [name]: [{ id: "web" }] }) !== null).toBe(kind === "web_search");
  });
});

describe("a limit of the gateway", () => {
  test("is added to a request without one, and no other byte changes", () => {
    const responses = write("responses", { tools: [{ type: "web_search" }] });
    expect(sendLimited("responses", responses, 4)).toBe(`{"max_tool_calls":4,${responses.slice(1)}`);
    const messages = write("messages", { tools: [SEARCH] });
    expect(sendLimited("messages", messages, 4)).toBe(
      messages.replace(`{"type":"web_search`, `{"max_uses":4,"type":"web_search`),
    );
  });

  test("lowers the client's limit and never raises it", () => {
    const body = (limit: number | null) =>
      write("messages", {
        tools: [
          { ...SEARCH, max_uses: limit },
          { name: "f", input_schema: {} },
        ],
      });
    expect(sendLimited("messages", body(9), 4)).toBe(body(4));
    expect(sendLimited("messages", body(null), 4)).toBe(body(4));
    expect(sendLimited("messages", body(3), 4)).toBe(body(3));
    const calls = (limit: number) =>
      write("responses", { tools: [{ type: "web_search" }], max_tool_calls: limit });
    expect(sendLimited("responses", calls(9), 4)).toBe(calls(4));
    expect(sendLimited("responses", calls(3), 4)).toBe(calls(3));
  });

  test("is one for all search tools together", () => {
    const tools = (...limits: readonly number[]) => ({
      tools: limits.map((limit) => ({ ...SEARCH, max_uses: limit })),
    });
    expect(sendLimited("messages", write("messages", tools(3, 5)), 4)).toBe(write("messages", tools(3, 1)));
  });

  test("replaces every spelling of a repeated limit, because decoders differ in which they keep", () => {
    const body = (limits: string) =>
      `{"model":"m","messages":[{}],"max_tokens":1,"tools":[{"type":"web_search_20250305",${limits}}]}`;
    expect(sendLimited("messages", body(`"max_uses":1,"max_us\\u0065s":900,"MAX_USES":800`), 4)).toBe(
      body(`"max_uses":4,"max_us\\u0065s":4,"MAX_USES":4`),
    );
  });

  test("leaves an invalid limit to the upstream, which rejects it", () => {
    const body = write("messages", { tools: [{ ...SEARCH, max_uses: -3 }] });
    expect(sendLimited("messages", body, 4)).toBe(body);
  });

  test.each([
    ["chat.completions", { web_search_options: {} }],
    ["gemini.generate_content", { tools: [{ googleSearch: {} }] }],
  ] as const)("does not exist in %s", (name, fields) => {
    const request = read(name, write(name, fields));
    expect(request.body.withSearchLimit(UNLIMITED_SEARCH, 4)).toBe(request.body);
  });

  test("takes time that fits the number of tools", () => {
    const list = (count: number) =>
      write("messages", { tools: Array.from({ length: count }, () => ({ ...SEARCH, max_uses: 900 })) });
    const cpuMs = (count: number) => {
      const body = list(count);
      // A collection of garbage, or another process, can only add to a run.
      const runs = Array.from({ length: 20 }, () => {
        const before = process.cpuUsage();
        sendLimited("messages", body, 4);
        const { user, system } = process.cpuUsage(before);
        return (user + system) / 1_000;
      });
      return Math.min(...runs);
    };
    cpuMs(50);
    expect(cpuMs(1_000)).toBeLessThan(20 * cpuMs(100) + 5);
  });
});
