import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { firstElements } from "./array.ts";

const utf8 = new TextEncoder();

/** The texts of the first elements. */
function elements(text: string, countMax = Number.POSITIVE_INFINITY): string[] {
  const bytes = utf8.encode(text);
  return firstElements(bytes, { start: 0, end: bytes.length }, countMax).map(({ start, end }) =>
    new TextDecoder().decode(bytes.subarray(start, end)),
  );
}

describe("the elements of an array", () => {
  test.each([
    ["[]", []],
    ["[ \n\t ]", []],
    ["[1]", ["1"]],
    ['[ 1e9 , "a,]\\"b" ,{"x":[1,{}]}\n,[ ],null ]', ["1e9", '"a,]\\"b"', '{"x":[1,{}]}', "[ ]", "null"]],
    ['["é😀","\\u005d"]', ['"é😀"', '"\\u005d"']],
  ])("of %s are found", (text, wanted) => {
    expect(elements(text)).toEqual(wanted);
  });

  test("are found up to the requested number", () => {
    expect(elements("[1,2,3]", 2)).toEqual(["1", "2"]);
    expect(elements("[1,2,3]", 0)).toEqual([]);
    expect(elements("[1]", 3)).toEqual(["1"]);
  });

  test("are found inside a larger text", () => {
    const bytes = utf8.encode('{"a":[1,2],"b":[3]}');
    const found = firstElements(bytes, { start: 5, end: 10 }, 9);
    expect(found.map(({ start, end }) => [start, end])).toEqual([
      [6, 7],
      [8, 9],
    ]);
  });

  test("of any array are found, with any whitespace", () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.constantFrom(undefined, 1, "\t"), (values, space) => {
        const found = elements(JSON.stringify(values, null, space)).map((text) => JSON.parse(text));
        expect(found).toEqual(JSON.parse(JSON.stringify(values)));
      }),
    );
  });
});
