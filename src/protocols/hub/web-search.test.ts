/** The hosted search of each dialect as that of the others, with the options that they share. */

import { describe, expect, test } from "bun:test";
import { lookUpCodec } from "../codecs.ts";
import { writeTarget } from "./codec.test-support.ts";
import { DIALECT_LOSSES } from "./declared-losses.test-support.ts";
import type { Dialect } from "./hub-request.ts";

type Json = Record<string, unknown>;

const place = { type: "approximate", city: "Lisbon" };
const CHAT_PLACE = { type: "approximate", approximate: { city: "Lisbon" } };
const question = [{ role: "user", content: "hi" }];

const REQUESTS: Readonly<Record<Dialect, Json>> = {
  chat: {
    messages: question,
    web_search_options: { search_context_size: "low", user_location: CHAT_PLACE },
  },
  responses: {
    input: "hi",
    tools: [{ type: "web_search", filters: { allowed_domains: ["a.example"] }, user_location: place }],
  },
  messages: {
    messages: question,
    tools: [
      {
        type: "web_search_20250305",
        name: "web_search",
        max_uses: 3,
        allowed_domains: ["a.example"],
        user_location: place,
      },
    ],
  },
  gemini: { contents: [{ role: "user", parts: [{ text: "hi" }] }], tools: [{ googleSearch: {} }] },
};

function write(client: Dialect, upstream: Dialect, change: Json = {}, upstreamModel = "upstream") {
  const json = { ...REQUESTS[client], ...change };
  const request = lookUpCodec(client).readRequest(json, { publicModel: "public", stream: false });
  const losses = DIALECT_LOSSES.map(([, one]) => one).find(({ codec }) => codec.dialect === upstream);
  const profile = losses === undefined ? {} : { profile: losses.profile };
  return lookUpCodec(upstream).writeRequest(request, writeTarget({ ...profile, upstreamModel }));
}

const anthropic = { type: "web_search_20250305", name: "web_search" };
const CASES: readonly [Dialect, Dialect, tool: Json, dropped: readonly string[]][] = [
  ["chat", "messages", { ...anthropic, user_location: place }, ["web_search_options.search_context_size"]],
  ["chat", "responses", { type: "web_search", search_context_size: "low", user_location: place }, []],
  [
    "chat",
    "gemini",
    { googleSearch: {} },
    ["web_search_options.user_location", "web_search_options.search_context_size"],
  ],
  ["responses", "messages", { ...anthropic, allowed_domains: ["a.example"], user_location: place }, []],
  [
    "responses",
    "gemini",
    { googleSearch: {} },
    ["tools[0].web_search.allowed_domains", "tools[0].web_search.user_location"],
  ],
  [
    "messages",
    "responses",
    { type: "web_search", filters: { allowed_domains: ["a.example"] }, user_location: place },
    ["tools[0].web_search_20250305.max_uses"],
  ],
  ["gemini", "responses", { type: "web_search" }, []],
  ["gemini", "messages", anthropic, []],
];

describe("the search", () => {
  test.each(CASES)("of %s at a %s upstream", (client, upstream, tool, dropped) => {
    const written = write(client, upstream);
    expect(written.body.tools).toEqual([tool]);
    expect(written.dropped).toEqual([...dropped]);
  });

  test.each(["responses", "messages", "gemini"] as const)(
    "of %s at a Chat upstream is an option of search models, and dropped for others",
    (client) => {
      const { body } = write(client, "chat", {}, "gpt-4o-search-preview");
      expect(body.web_search_options).toEqual(client === "gemini" ? {} : { user_location: CHAT_PLACE });
      const other = write(client, "chat");
      expect(other.body.web_search_options).toBeUndefined();
      expect(other.dropped).toEqual([expect.stringMatching(/^tools\[0\]\./)]);
    },
  );

  test.each<[string, Dialect, Json, tools: unknown, dropped: string[]]>([
    [
      "of Codex in OpenAI's own index never becomes one of the web",
      "responses",
      { tools: [{ type: "web_search", external_web_access: false }] },
      undefined,
      ["tools[0].web_search"],
    ],
    [
      "of Codex in the web does",
      "responses",
      { tools: [{ type: "web_search", external_web_access: true, search_content_types: ["text"] }] },
      [anthropic],
      ["tools[0].web_search.search_content_types"],
    ],
    [
      "of Gemini names its own filters",
      "gemini",
      { tools: [{ googleSearch: { excludeDomains: ["a.example"] } }] },
      [anthropic],
      ["tools[0].googleSearch.excludeDomains"],
    ],
  ])("%s", (_, client, change, tools, dropped) => {
    const written = write(client, "messages", change);
    expect([written.body.tools, written.dropped]).toEqual([tools, dropped]);
  });

  test("that a client requires is required at the upstream, or refused by its name", () => {
    const choice = { tool_choice: { type: "tool", name: "web_search" } };
    expect(write("messages", "responses", choice).body.tool_choice).toEqual({ type: "web_search" });
    const preview = { tools: [{ type: "web_search_preview" }], tool_choice: { type: "web_search_preview" } };
    expect(write("responses", "messages", preview).body.tool_choice).toEqual({
      type: "tool",
      name: "web_search",
    });
    expect(() => write("messages", "chat", choice)).toThrow("web_search_20250305");
  });
});
