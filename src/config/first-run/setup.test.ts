import { describe, expect, test } from "bun:test";
import { buildSetupDocument, chooseName, proposeModels, SETUP_VENDORS } from "./setup.ts";

const vendor = (id: string) => {
  const found = SETUP_VENDORS.find((one) => one.id === id);
  if (found === undefined) throw new Error(`no vendor ${id}`);
  return found;
};

describe("the proposed models", () => {
  const proposed = proposeModels(
    ["zeta-9000", "gpt-4o-mini", "text-embedding-3-small", "text-embedding-new", "gpt-4o-mini"],
    vendor("openai"),
    null,
  );

  test("are those of the account, once each, with list prices first", () => {
    expect(proposed.map(({ id, price }) => [id, price !== null])).toEqual([
      ["gpt-4o-mini", true],
      ["text-embedding-3-small", true],
      ["text-embedding-new", false],
      ["zeta-9000", false],
    ]);
  });

  test("have the interfaces of what they produce", () => {
    const interfaces = Object.fromEntries(proposed.map((model) => [model.id, model.interfaces]));
    expect(interfaces["gpt-4o-mini"]).toEqual(["responses", "chat", "messages", "gemini"]);
    expect(interfaces["zeta-9000"]).toContain("chat");
    expect(interfaces["text-embedding-3-small"]).toEqual(["embeddings"]);
    expect(interfaces["text-embedding-new"]).toEqual(["embeddings"]);
  });

  test("are only those that the account can serve", () => {
    expect(proposeModels(["text-embedding-3-small"], vendor("anthropic"), null)).toEqual([]);
  });
});

test("the document has the account, its models and an open group", () => {
  const document = buildSetupDocument({
    vendor: vendor("deepseek"),
    accountName: "deepseek",
    models: [{ id: "deepseek-chat", interfaces: ["chat"] }],
    groupName: "team",
  });
  expect(document).toEqual({
    models: [{ id: "deepseek-chat", interfaces: ["chat"] }],
    accounts: [
      {
        name: "deepseek",
        kind: "openai",
        vendor: "deepseek",
        models: { "deepseek-chat": "deepseek-chat" },
      },
    ],
    groups: [{ name: "team", models: ["deepseek-chat"], accounts: ["deepseek"] }],
  });
});

test("a taken name gets a number", () => {
  expect(chooseName("openai", [])).toBe("openai");
  expect(chooseName("openai", ["openai", "openai-2"])).toBe("openai-3");
});
