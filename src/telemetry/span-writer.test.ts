import { expect, test } from "bun:test";
import fc from "fast-check";
import { SPAN_KIND, SpanHead, toBytes } from "./span-text.ts";
import { SpanWriter } from "./span-writer.ts";

const HEAD = new SpanHead("chat gpt", SPAN_KIND.client);
const START = {
  requestId: "req_1",
  traceId: "a".repeat(32),
  spanId: "b".repeat(16),
  parentSpanId: "c".repeat(16),
  head: HEAD.withFlags(false, true),
  startMs: 1_790_000_000_007,
  endMs: 1_790_000_001_234,
};

function open(bytes = 16_384): SpanWriter {
  return new SpanWriter(Buffer.alloc(bytes));
}

const parse = (writer: SpanWriter) => JSON.parse(new TextDecoder().decode(writer.written()));

test("a span is an object of OTLP with its times in nanoseconds", () => {
  const writer = open();
  writer.start(START);
  writer.int("costNano", 12);
  writer.string("group", 'the "group"');
  writer.seconds("timeToFirstChunk", 1_250);
  writer.end(true);
  expect(parse(writer)).toEqual({
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
      { key: "gen_ai.response.time_to_first_chunk", value: { doubleValue: 1.25 } },
    ],
    status: { code: 2 },
  });
});

test("any text and any whole number are attributes with the same value", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), fc.maxSafeNat(), (text, number) => {
      const writer = open();
      writer.start({ ...START, parentSpanId: null, head: HEAD.usual });
      writer.string("errorType", text);
      writer.int("inputTokens", number);
      writer.end(false);
      const [, error, tokens] = parse(writer).attributes;
      expect(error.value.stringValue).toBe(text.toWellFormed());
      expect(tokens.value.intValue).toBe(String(number));
    }),
  );
});

test("a long text is cut", () => {
  const writer = open();
  writer.start(START);
  writer.string("responseId", "x".repeat(1_000));
  writer.end(false);
  expect(parse(writer).attributes[1].value.stringValue).toHaveLength(256);
});

test("a span that does not fit leaves the bytes before it", () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 900 }), fc.string({ maxLength: 300 }), (bytes, text) => {
      const writer = open(bytes);
      writer.piece(toBytes("1"));
      writer.start(START);
      writer.string("responseId", text);
      writer.int("inputTokens", 812);
      writer.end(false);
      expect(writer.length).toBeLessThanOrEqual(bytes);
      if (writer.isFull) writer.rewind(1);
      if (writer.length === 1) expect(parse(writer)).toBe(1);
      else expect(new TextDecoder().decode(writer.written())).toEndWith('"812"}}]}');
    }),
  );
});
