import { expect, test } from "bun:test";
import { partBytes } from "../../base/parts.ts";
import { parseWithoutLongStrings } from "./long-strings.ts";

const MIB = 1024 * 1024;

test("a short event is parsed as it is", () => {
  const bytes = Buffer.from(`{"a":"${"b".repeat(100_000)}"}`);
  const { json, longString } = parseWithoutLongStrings(bytes, 0, bytes.length);
  expect(json).toEqual(JSON.parse(bytes.toString()));
  expect(longString((json as { a: string }).a)).toBeNull();
});

test("the long strings of a long event are found again by what stands for them", () => {
  const texts = ["a".repeat(MIB), `é\\"${"b".repeat(100_000)}`];
  const bytes = Buffer.from(` {"a":"${texts[0]}","b":["${texts[1]}","c \\u0041"],"d":1} `);
  const { json, longString } = parseWithoutLongStrings(bytes, 0, bytes.length);
  const { a, b, d } = json as { a: string; b: string[]; d: number };
  expect([a.length < 100, b[1], d]).toEqual([true, "c A", 1]);
  const found = [a, b[0], b[1], d].map((value) => {
    const part = longString(value);
    return part && Buffer.from(partBytes(part)).toString();
  });
  expect(found).toEqual([...texts, null, null]);
});

test("an event that is cut off is no JSON", () => {
  const bytes = Buffer.from(`{"a":"${"b".repeat(2 * MIB)}`);
  expect(parseWithoutLongStrings(bytes, 0, bytes.length).json).toBeNull();
});
