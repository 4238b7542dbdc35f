import { expect, test } from "bun:test";
import fc from "fast-check";
import { findProvider } from "./attribute-names.ts";
import { jsonText } from "./span-text.ts";

test("any text becomes a JSON string in ASCII with the same value", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
      const json = jsonText(text);
      expect(json).toMatch(/^[\x20-\x7e]*$/);
      expect(JSON.parse(json)).toBe(text.toWellFormed());
    }),
  );
});

test("a long text is cut", () => {
  expect(JSON.parse(jsonText("x".repeat(1_000)))).toHaveLength(256);
});

test.each([
  ["openai", "api.openai.com", "openai"],
  ["openai", "acme.openai.azure.com", "azure.ai.openai"],
  ["openai", "api.deepseek.com", "deepseek"],
  ["openai", "bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"],
  ["openai", "notdeepseek.com", "openai"],
  ["simulator", "127.0.0.1", "simulator"],
])("the provider of a %s account at %s is %s", (kind, host, provider) => {
  expect(findProvider(kind, host)).toBe(provider);
});
