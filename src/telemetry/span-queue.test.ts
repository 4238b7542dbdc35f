import { expect, test } from "bun:test";
import fc from "fast-check";
import { SpanQueue } from "./span-queue.ts";
import { toBytes } from "./span-text.ts";
import type { SpanSource } from "./span-writer.ts";

const LIMITS = { batchSpansMax: 4, batchBytesMax: 64, batchesMax: 2 };
const FRAME = () => ({ start: '{"spans":[', end: "]}" });

const source = (json: string): SpanSource => ({
  writeSpans: (writer) => writer.piece(toBytes(json)),
});

function takeAll(queue: SpanQueue): { numbers: number[]; spans: number } {
  const numbers: number[] = [];
  let spans = 0;
  for (let batch = queue.take(); batch !== null; batch = queue.take()) {
    numbers.push(...JSON.parse(new TextDecoder().decode(batch.finish())).spans);
    spans += batch.spans;
    queue.recycle(batch);
  }
  return { numbers, spans };
}

test("every span is in a message once, in order, or counted as dropped, and the newest are kept", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 60 }), (sizes) => {
      const queue = new SpanQueue(LIMITS, FRAME);
      let next = 0;
      let dropped = 0;
      for (const size of sizes) {
        const numbers = Array.from({ length: size }, () => next++);
        dropped += queue.add(source(numbers.join(",")), size);
      }
      const { numbers, spans } = takeAll(queue);
      expect(numbers).toEqual(Array.from({ length: next - dropped }, (_, i) => dropped + i));
      expect(spans + dropped).toBe(next);
      expect(queue.isEmpty).toBeTrue();
    }),
  );
});

test("memory is bounded: at most the waiting messages and the one that is being filled", () => {
  const queue = new SpanQueue(LIMITS, FRAME);
  for (let i = 0; i < 1_000; i++) queue.add(source(String(i)), 1);
  expect(takeAll(queue).spans).toBeLessThanOrEqual((LIMITS.batchesMax + 1) * LIMITS.batchSpansMax);
});

test("spans that are too large for a message are dropped alone", () => {
  const queue = new SpanQueue(LIMITS, FRAME);
  expect(queue.add(source("1"), 1)).toBe(0);
  expect(queue.add(source("9".repeat(100)), 1)).toBe(1);
  expect(queue.add(source("2"), 1)).toBe(0);
  expect(takeAll(queue).numbers).toEqual([1, 2]);
});
