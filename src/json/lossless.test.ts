import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseLossless, readLongNumber, tryParseLossless } from "./lossless.ts";

/** JSON numbers of any length. */
const numberText = fc
  .tuple(
    fc.constantFrom("", "-"),
    fc.bigInt({ min: 0n, max: 10n ** 30n }),
    fc.option(fc.bigInt({ min: 0n, max: 10n ** 20n }), { nil: null }),
    fc.constantFrom("", "e5", "E-7"),
  )
  .map(
    ([sign, whole, fraction, exponent]) =>
      `${sign}${whole}${fraction === null ? "" : `.${fraction}`}${exponent}`,
  );

describe("a value that is parsed without loss", () => {
  test("is written again with the same numbers", () => {
    fc.assert(
      fc.property(numberText, fc.string(), (number, text) => {
        const json = `{"a":[${number},1],"b":${JSON.stringify(text)}}`;
        const written = JSON.stringify(parseLossless(json));
        const [, again] = /^\{"a":\[([^,]*),1\]/.exec(written) ?? [];
        // Short numbers may be written in another way, such as 1.0 and 1.
        const isLong = /[\d.]{16}/.test(number);
        if (again !== number) expect([Number(again) === Number(number), isLong]).toEqual([true, false]);
        expect(JSON.parse(written).b).toBe(text);
      }),
    );
  });

  test("is the value of JSON.parse if a double holds all of its numbers", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json = JSON.stringify(value);
        expect(parseLossless(json)).toEqual(JSON.parse(json));
      }),
    );
  });

  test("has the nearest double of a long number, and none of other values", () => {
    const { id, name } = parseLossless('{"id":9007199254740993,"name":"x"}') as Record<string, unknown>;
    expect([readLongNumber(id), readLongNumber(name), readLongNumber(1)]).toEqual([
      9007199254740992,
      null,
      null,
    ]);
  });
});

test("text that is not JSON is null", () => {
  expect([tryParseLossless("{"), tryParseLossless("")]).toEqual([null, null]);
});
