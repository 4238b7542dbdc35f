import { expect, test } from "bun:test";
import fc from "fast-check";
import { findProvider } from "./attribute-names.ts";
import { intAttribute, jsonText, SPAN_KIND, SpanHead, spanText, stringAttribute } from "./span-text.ts";

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

test("a span is an object of OTLP with its times in nanoseconds", () => {
  const span = spanText({
    requestId: "req_1",
    traceId: "a".repeat(32),
    spanId: "b".repeat(16),
    parentSpanId: "c".repeat(16),
    head: new SpanHead("chat gpt", SPAN_KIND.client).withFlags(false, true),
    startMs: 1_790_000_000_007,
    endMs: 1_790_000_001_234,
    attributes: intAttribute("costNano", 12n) + stringAttribute("group", 'the "group"'),
    isError: true,
  });
  expect(JSON.parse(span)).toEqual({
    traceId: "a".repeat(32),
    spanId: "b".repeat(16),
    parentSpanId: "c".repeat(16),
    flags: 0x300,
    name: "chat gpt",
    kind: 3,
    startTimeUnixNano: "1790000000007000000",
    endTimeUnixNano: "1790000001234000000",
    attributes: [
      { key: "gateway.request_id", value: { stringValue: "req_1" } },
      { key: "gateway.cost_nano", value: { intValue: "12" } },
      { key: "gateway.group", value: { stringValue: 'the "group"' } },
    ],
    status: { code: 2 },
  });
});

test.each([
  ["openai", "api.openai.com", "openai"],
  ["openai", "acme.openai.azure.com", "azure.ai.openai"],
  ["azure", "proxy.example.com", "azure.ai.openai"],
  ["openai", "api.deepseek.com", "deepseek"],
  ["openai", "bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"],
  ["openai", "notdeepseek.com", "openai"],
  ["simulator", "127.0.0.1", "simulator"],
])("the provider of a %s account at %s is %s", (kind, host, provider) => {
  expect(findProvider(kind, host)).toBe(provider);
});
