import { expect, test } from "bun:test";
import { readImageKind, resolveImageKind } from "./image-kind.ts";

test.each([
  ["1024x1024", "high", "1024x1024/high"],
  ["1024x1024", null, "1024x1024"],
  ["1024x1024", "auto", "1024x1024"],
  ["auto", "high", "auto/high"],
  [null, "high", "auto/high"],
  ["auto", "auto", null],
  [null, null, null],
])("an image of size %s and quality %s is of the kind %s", (size, quality, kind) => {
  expect(readImageKind(size, quality)).toBe(kind);
});

test.each([
  [null, "1024x1024/high", "1024x1024/high"],
  ["1024x1024", "1536x1024/high", "1024x1024/high"],
  ["auto/low", "1024x1024/high", "1024x1024/low"],
  ["1024x1024/low", "1536x1024/high", "1024x1024/low"],
  ["1024x1024", null, "1024x1024"],
  ["1024x1024", "auto/medium", "1024x1024/medium"],
  ["auto/low", "1024x1536", "1024x1536/low"],
  [null, null, null],
])("if %s was requested and the response has %s, the kind is %s", (asked, returned, kind) => {
  expect(resolveImageKind(asked, returned)).toBe(kind);
});
