import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { firstElements, removeElements } from "./array.ts";
import { applySplices } from "./splice.ts";

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

describe("removing elements of an array", () => {
  function remove(text: string, isRemoved: (at: number) => boolean) {
    const bytes = utf8.encode(text);
    const array = { start: 0, end: bytes.length };
    const all = firstElements(bytes, array, Number.POSITIVE_INFINITY);
    const splices = removeElements(array, all, (element) =>
      isRemoved(all.findIndex(({ start }) => start === element.start)),
    );
    return { splices, text: new TextDecoder().decode(applySplices(bytes, splices)) };
  }

  test.each([
    ["the first", [0], "[2, 3]"],
    ["the last", [2], "[1, 2]"],
    ["one between others", [1], "[1,3]"],
    ["all", [0, 1, 2], "[]"],
    ["none", [], "[1, 2, 3]"],
  ])("%s leaves the others as they were", (_, removed, wanted) => {
    expect(remove("[1, 2, 3]", (at) => removed.includes(at)).text).toBe(wanted);
  });

  test("leaves exactly the other elements, with any whitespace", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.jsonValue(), fc.boolean())),
        fc.constantFrom(undefined, 1, "\t"),
        (pairs, space) => {
          const text = JSON.stringify(
            pairs.map(([value]) => value),
            null,
            space,
          );
          const kept = pairs.filter(([, isRemoved]) => !isRemoved).map(([value]) => value);
          expect(JSON.parse(remove(text, (at) => pairs[at]?.[1] === true).text)).toEqual(
            JSON.parse(JSON.stringify(kept)),
          );
        },
      ),
    );
  });

  test("needs one splice for each gap, however many elements stay", () => {
    const text = `[${Array.from({ length: 100 }, (_, i) => i).join(",")}]`;
    expect(remove(text, (at) => at === 0).splices).toHaveLength(1);
    expect(remove(text, (at) => at > 9 && at < 20).splices).toHaveLength(1);
    expect(remove(text, (at) => at === 3 || at === 50).splices).toHaveLength(2);
  });
});
