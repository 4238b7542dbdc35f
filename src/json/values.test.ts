import { expect, test } from "bun:test";
import { hasMoreValues } from "./values.ts";

const hasMore = (text: string, max: number) => hasMoreValues(new TextEncoder().encode(text), max);

test("containers, elements and members are counted, and what strings contain is not", () => {
  expect(hasMore("[1,2,3]", 3)).toBe(false);
  expect(hasMore("[1,2,3]", 2)).toBe(true);
  expect(hasMore('{"a":{},"b":[[]]}', 5)).toBe(false);
  expect(hasMore('{"a":{},"b":[[]]}', 4)).toBe(true);
  expect(hasMore('{"a":"[[[,,,{{{","\\"[,":"\\\\"}', 2)).toBe(false);
  expect(hasMore('{"a":"[[[,,,{{{","\\"[,":"\\\\"}', 1)).toBe(true);
});

test("a text that is not JSON is left to the parser", () => {
  expect(hasMore('"no end [,,,,', 1)).toBe(false);
  expect(hasMore("", 0)).toBe(false);
});
