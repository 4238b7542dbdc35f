import { expect, test } from "bun:test";
import fc from "fast-check";
import { copyBytes, decodeText, findBytes, freeBytes, startsWithAt, writeBytes } from "./bytes.ts";

const anyBytes = fc.uint8Array({ maxLength: 40 });

test("find, compare, copy and decode return the same as views", () => {
  fc.assert(
    fc.property(
      anyBytes,
      fc.uint8Array({ minLength: 1, maxLength: 3 }),
      fc.nat(40),
      fc.nat(40),
      (bytes, other, a, b) => {
        const start = Math.min(a, b, bytes.length);
        const end = Math.min(Math.max(a, b), bytes.length);
        const found = Buffer.from(bytes.slice(start, end)).indexOf(other);
        expect(findBytes(bytes, other, start, end)).toBe(found === -1 ? -1 : start + found);
        expect(startsWithAt(bytes, start, other)).toBe(
          Buffer.from(bytes.slice(start, start + other.length)).equals(other),
        );
        expect(decodeText(bytes, start, end)).toBe(Buffer.from(bytes.slice(start, end)).toString());
        expect([...copyBytes(bytes, start, end)]).toEqual([...bytes.slice(start, end)]);
        const target = new Uint8Array(80);
        expect(writeBytes(target, 5, bytes, start, end)).toBe(5 + end - start);
        expect(target.slice(5, 5 + end - start)).toEqual(bytes.slice(start, end));
      },
    ),
  );
});

test("freeBytes empties a long array, but not a short one or one with bytes after it", () => {
  const long = new Uint8Array(200_000);
  freeBytes(long);
  expect(long.length).toBe(0);
  const short = new Uint8Array(1_000);
  freeBytes(short);
  expect(short.length).toBe(1_000);
  const whole = new Uint8Array(200_000);
  freeBytes(whole.subarray(0, 199_999));
  expect(whole.length).toBe(200_000);
  freeBytes(whole.subarray(1));
  expect(whole.length).toBe(0);
});
