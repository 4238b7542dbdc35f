import { expect, test } from "bun:test";
import fc from "fast-check";
import { findProvider } from "./attribute-names.ts";
import {
  AttributeList,
  ERROR_STATUS,
  SPAN_KIND,
  type Span,
  spanFlags,
  toNanoseconds,
  writeMessage,
} from "./span.ts";

const SPAN: Span = {
  traceId: "a".repeat(32),
  spanId: "b".repeat(16),
  parentSpanId: "c".repeat(16),
  flags: spanFlags(false, "remote"),
  name: "chat gpt",
  kind: SPAN_KIND.client,
  startTimeUnixNano: toNanoseconds(1_790_000_000_007),
  endTimeUnixNano: toNanoseconds(1_790_000_001_234),
  attributes: [],
  status: ERROR_STATUS,
};

function write(...spans: Span[]) {
  const message = writeMessage({ start: '{"spans":', end: "}" }, spans);
  return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(message)).spans;
}

function writeAttributes(add: (attributes: AttributeList) => void) {
  const attributes = new AttributeList();
  add(attributes);
  return write({ ...SPAN, attributes: attributes.items })[0].attributes;
}

test("a span is an object of OTLP with its times in nanoseconds", () => {
  const attributes = new AttributeList();
  attributes.text("requestId", "req_1");
  attributes.int("costNano", 12);
  attributes.text("userId", null);
  attributes.count("waitMs", 0);
  attributes.text("group", 'the "group"');
  attributes.flag("requestStream", false);
  attributes.texts("finishReasons", ["stop", "\u00e9"]);
  attributes.seconds("timeToFirstChunk", 1_250);
  expect(write({ ...SPAN, attributes: attributes.items })).toEqual([
    {
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
        { key: "gen_ai.request.stream", value: { boolValue: false } },
        {
          key: "gen_ai.response.finish_reasons",
          value: { arrayValue: { values: [{ stringValue: "stop" }, { stringValue: "\u00e9" }] } },
        },
        { key: "gen_ai.response.time_to_first_chunk", value: { doubleValue: 1.25 } },
      ],
      status: { code: 2 },
    },
  ]);
});

test("a span without a parent and without an error has neither field", () => {
  const [span] = write({
    ...SPAN,
    parentSpanId: undefined,
    status: undefined,
    flags: spanFlags(true, "local"),
  });
  expect(Object.keys(span)).not.toContain("parentSpanId");
  expect(Object.keys(span)).not.toContain("status");
  expect(span.flags).toBe(0x101);
});

test("any text and any whole number are attributes with the same value, in valid UTF-8", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), fc.maxSafeNat(), (text, number) => {
      const [error, tokens] = writeAttributes((attributes) => {
        attributes.text("errorType", text);
        attributes.int("inputTokens", number);
      });
      expect(error.value.stringValue).toBe(text.toWellFormed());
      expect(tokens.value.intValue).toBe(String(number));
    }),
  );
});

test("a long text is cut", () => {
  const [id] = writeAttributes((attributes) => attributes.text("responseId", "x".repeat(1_000)));
  expect(id.value.stringValue).toHaveLength(256);
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
