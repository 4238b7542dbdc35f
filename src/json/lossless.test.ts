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

/** Documents with long numbers, as tokens. */
const { document } = fc.letrec<{ document: readonly string[] }>((tie) => ({
  document: fc.oneof(
    { depthSize: "small" },
    numberText.map((number) => [number]),
    fc.jsonValue({ maxDepth: 1 }).map((value) => [JSON.stringify(value)]),
    fc.array(tie("document"), { maxLength: 4 }).map((items) => ["[", ...joinTokens(items), "]"]),
    fc
      .uniqueArray(fc.tuple(fc.constantFrom("a", 'b"', "__proto__", "1"), tie("document")), {
        selector: ([name]) => name,
      })
      .map((members) => [
        "{",
        ...joinTokens(members.map(([name, value]) => [JSON.stringify(name), ":", ...value])),
        "}",
      ]),
  ),
}));

function joinTokens(lists: readonly (readonly string[])[]): string[] {
  return lists.flatMap((list, at) => (at === 0 ? list : [",", ...list]));
}

/** The rule itself, for a parser that calls back for every value. */
function keepDigits(_name: string, value: unknown, context?: { readonly source?: string }): unknown {
  const source = context?.source ?? "";
  if (typeof value !== "number" || String(value) === source) return value;
  const isLost = !Number.isFinite(value) || (value === 0 && /[1-9].*[eE]/.test(source));
  return source.length <= 15 && !isLost ? value : JSON.rawJSON(source);
}

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

  test("has the long numbers where a parser with a callback finds them, in any document", () => {
    fc.assert(
      fc.property(document, fc.constantFrom("", " ", "\n"), (tokens, space) => {
        const json = ["[", ...tokens, ",", "12345678901234567891", "]"].join(space);
        expect(JSON.stringify(parseLossless(json))).toBe(JSON.stringify(JSON.parse(json, keepDigits)));
      }),
    );
  });

  test.each([
    `{"a":12345678901234567891,"a":"x"}`,
    `{"a":"x","a":12345678901234567891}`,
    `{"a":12345678901234567891,"a":98765432109876543210}`,
    `{"a":{"b":12345678901234567891},"a":[12345678901234567892]}`,
    `{"a":[12345678901234567891],"a":1}`,
    `{"__proto__":12345678901234567891}`,
    `{"\\u0061\\"":[{},12345678901234567891]}`,
    `{"1":12345678901234567891,"length":[12345678901234567892]}`,
    "12345678901234567891",
    "[-0.00000000000000000, 1e400, 12345678901234567891]",
  ])("%s is parsed as by a parser with a callback", (json) => {
    expect(JSON.stringify(parseLossless(json))).toBe(JSON.stringify(JSON.parse(json, keepDigits)));
  });

  test.each([
    ["one number, many short texts", `{"id":12345678901234567,"a":[${`"0123456789ab",`.repeat(150_000)}1]}`],
    ["one number at the end of many others", `{"a":[${"1,".repeat(500_000)}1],"id":12345678901234567}`],
    ["one long number, many short exponents", `{"id":12345678901234567,"a":[${"1e5,".repeat(300_000)}1]}`],
    [
      "sixteen digits in a text only",
      `{"id":"1234567890123456","a":[${`"0123456789ab",`.repeat(150_000)}1]}`,
    ],
  ])("costs a few times as much as a plain parser: %s", (_, json) => {
    const cpuUs = (parse: (text: string) => unknown) =>
      Math.min(
        ...[1, 2, 3, 4].map(() => {
          const before = process.cpuUsage();
          parse(json);
          const { user, system } = process.cpuUsage(before);
          return user + system;
        }),
      );
    // A parser with a callback takes ten times as long as one without.
    expect(cpuUs(parseLossless)).toBeLessThan(5 * cpuUs(JSON.parse) + 5_000);
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
