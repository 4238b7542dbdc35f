import { expect, test } from "bun:test";
import fc from "fast-check";
import { AttributeList, SPAN_KIND, type Span, spanFlags, toNanoseconds } from "./span.ts";
import { SpanQueue } from "./span-queue.ts";

/** A message has room for four spans and one long attribute. */
const LIMITS = { batchSpansMax: 4, batchBytesMax: 1_500, batchesMax: 2 };
const frame = () => ({ start: '{"spans":', end: "}" });

function buildSpan(number: number, responseId: string | null = null): Span {
  const attributes = new AttributeList();
  attributes.int("inputTokens", number);
  attributes.text("responseId", responseId);
  return {
    traceId: "a".repeat(32),
    spanId: "b".repeat(16),
    parentSpanId: undefined,
    flags: spanFlags(true, "local"),
    name: "chat",
    kind: SPAN_KIND.server,
    startTimeUnixNano: toNanoseconds(1),
    endTimeUnixNano: toNanoseconds(2),
    attributes: attributes.items,
    status: undefined,
  };
}

function openQueue(): { queue: SpanQueue; countDropped: () => number } {
  let dropped = 0;
  const onDrop = (spans: number) => {
    dropped += spans;
  };
  return { queue: new SpanQueue({ limits: LIMITS, frame, onDrop }), countDropped: () => dropped };
}

function takeAll(queue: SpanQueue): { numbers: number[]; spans: number; bytes: number[] } {
  const numbers: number[] = [];
  const bytes: number[] = [];
  let spans = 0;
  for (let batch = queue.take(); batch !== null; batch = queue.take()) {
    for (const { attributes } of JSON.parse(new TextDecoder().decode(batch.message)).spans)
      numbers.push(Number(attributes[0].value.intValue));
    spans += batch.spans;
    bytes.push(batch.message.length);
  }
  return { numbers, spans, bytes };
}

test("every span is in a message once, in order, or counted as dropped, and the newest are kept", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 60 }), (sizes) => {
      const { queue, countDropped } = openQueue();
      let next = 0;
      for (const size of sizes) queue.add(Array.from({ length: size }, () => buildSpan(next++)));
      const { numbers, spans } = takeAll(queue);
      const dropped = countDropped();
      expect(numbers).toEqual(Array.from({ length: next - dropped }, (_, i) => dropped + i));
      expect(spans + dropped).toBe(next);
      expect(queue.isEmpty).toBeTrue();
    }),
  );
});

test("memory is bounded: at most the waiting messages and the one that is being filled", () => {
  const { queue } = openQueue();
  for (let i = 0; i < 1_000; i++) queue.add([buildSpan(i)]);
  expect(takeAll(queue).spans).toBeLessThanOrEqual((LIMITS.batchesMax + 1) * LIMITS.batchSpansMax);
});

test("spans that are too large for one message together are sent in several", () => {
  const { queue, countDropped } = openQueue();
  for (let i = 0; i < 4; i++) queue.add([buildSpan(i, "x".repeat(250))]);
  const { numbers, bytes } = takeAll(queue);
  expect([numbers, countDropped()]).toEqual([[0, 1, 2, 3], 0]);
  expect(bytes.length).toBe(2);
  for (const size of bytes) expect(size).toBeLessThanOrEqual(LIMITS.batchBytesMax);
});

test("a span that is too large for a message is dropped alone", () => {
  const { queue, countDropped } = openQueue();
  const attributes = new AttributeList();
  attributes.texts(
    "finishReasons",
    Array.from({ length: 9 }, () => "x".repeat(250)),
  );
  const large: Span = { ...buildSpan(9), attributes: attributes.items };
  queue.add([buildSpan(1)]);
  queue.add([large]);
  queue.add([buildSpan(2)]);
  expect(takeAll(queue).numbers).toEqual([1, 2]);
  expect(countDropped()).toBe(1);
});
