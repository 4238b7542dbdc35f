import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts, wholeBytesPart } from "../../net/wire/parts.ts";
import { putLongStrings, takeLongStrings } from "./long-strings.ts";

const NONCE = "0123456789abcdef0123456789abcdef";
const take = (json: unknown) => takeLongStrings(wholeBytesPart(Buffer.from(JSON.stringify(json))), NONCE);

const longText = fc
  .tuple(fc.constantFrom("", "data:image/png;base64,"), fc.constantFrom("A", "é", '"', "\\", "\n"), fc.nat(3))
  .map(([head, unit, more]) => head + unit.repeat(17_000 + more));
const values = fc.array(fc.oneof(fc.string(), longText, fc.record({ a: longText, b: fc.string() })), {
  maxLength: 4,
});

test("what is taken out is put back unchanged", async () => {
  await fc.assert(
    fc.asyncProperty(values, async (value) => {
      const { json, strings } = await take(value);
      const written = putLongStrings(JSON.stringify(JSON.parse(json)), strings);
      expect(JSON.parse(Buffer.from(joinParts(written)).toString())).toEqual(value);
    }),
    { numRuns: 50 },
  );
});

describe("a long body", () => {
  test("keeps the head of a data URL in place, and little else of it", async () => {
    const { json, strings } = await take({ url: `data:image/png;base64,${"A".repeat(5_000_000)}` });
    expect(json).toBe(`{"url":"data:image/png;base64,gwlong_${NONCE}_0_"}`);
    expect([...strings.values()].map(({ length }) => length)).toEqual([5_000_000]);
  });

  test("with too much text is rejected", async () => {
    const texts = Array.from({ length: 300 }, () => "x y ".repeat(4_000));
    expect(take(texts)).rejects.toMatchObject({ code: "request_too_large" });
  });

  test("with too many strings is rejected", async () => {
    expect(take(Array.from({ length: 200_001 }, () => "x"))).rejects.toMatchObject({ status: 413 });
  });
});

test("a token that the client wrote itself stays as it is", () => {
  const own = `"gwlong_${"f".repeat(32)}_0_"`;
  const written = putLongStrings(own, new Map([[`gwlong_${NONCE}_0_`, Buffer.from("x")]]));
  expect(Buffer.from(joinParts(written)).toString()).toBe(own);
});
