import { expect, test } from "bun:test";
import fc from "fast-check";
import { wholeBytesPart } from "../base/parts.ts";
import { CappedBytes } from "./capped-bytes.ts";

function openMemory(bytesMax: number) {
  return {
    held: 0,
    reserve(bytes: number) {
      if (this.held + bytes > bytesMax) return false;
      this.held += bytes;
      return true;
    },
    release(bytes: number) {
      this.held -= bytes;
    },
  };
}

test("a body keeps its beginning and its end, however it arrives", () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 20 });
  fc.assert(
    fc.property(pieces, fc.integer({ min: 4, max: 64 }), (parts, bytesMax) => {
      const body = new CappedBytes(openMemory(1_000_000), bytesMax);
      expect(body.appendAll(parts.map(wholeBytesPart))).toBeTrue();
      const whole = Buffer.concat(parts);
      const { head, tail, totalBytes } = body.take();
      expect(totalBytes).toBe(whole.length);
      const headMax = Math.ceil(bytesMax * 0.75);
      expect(Buffer.from(head)).toEqual(whole.subarray(0, headMax));
      const tailBytes = Math.min(Math.max(0, whole.length - headMax), bytesMax - headMax);
      expect(Buffer.from(tail)).toEqual(whole.subarray(whole.length - tailBytes));
    }),
  );
});

test("a body never takes more memory than its limit", () => {
  const memory = openMemory(1_000_000);
  const body = new CappedBytes(memory, 10_000);
  for (let i = 0; i < 1_000; i++) body.append(wholeBytesPart(new Uint8Array(997)));
  expect(memory.held).toBeLessThanOrEqual(10_000);
});

test("a body for which there is no memory is refused", () => {
  const body = new CappedBytes(openMemory(4_096), 100_000);
  expect(body.append(wholeBytesPart(new Uint8Array(1_000)))).toBeTrue();
  expect(body.append(wholeBytesPart(new Uint8Array(10_000)))).toBeFalse();
});

test("what was kept does not change with the array that it came from", () => {
  const source = new Uint8Array([1, 2, 3]);
  const body = new CappedBytes(openMemory(1_000_000), 100);
  body.append({ bytes: source, start: 1, end: 3 });
  source.fill(9);
  expect([...body.take().head]).toEqual([2, 3]);
});
