import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { StringFaultSearch } from "./strings.ts";

function faultIn(text: string) {
  const search = new StringFaultSearch(Buffer.from(text));
  search.run(Number.POSITIVE_INFINITY);
  return search.fault;
}

describe("string validation", () => {
  test("accepts everything that JSON.stringify writes", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(undefined, 2), (value, indent) => {
        expect(faultIn(JSON.stringify({ value }, null, indent))).toBeNull();
      }),
    );
  });

  test.each([
    ["a line break", '{"a":"x\ny"}', 7, "a control character in a string (write it as \\n)"],
    ["a tab in a key", '{"\ta":1}', 2, "a control character in a string (write it as \\t)"],
    ["a NUL", '{"a":"\0"}', 6, "a control character in a string (write it as \\u0000)"],
    ["an unknown escape", '{"a":"\\\\ \\x41"}', 9, "malformed escape in a string (write \\ as \\\\)"],
    ["a short Unicode escape", '{"a":"\\u12"}', 6, "malformed escape in a string (write \\ as \\\\)"],
    [
      "a Unicode escape with other letters",
      '{"a":"\\u12g4"}',
      6,
      "malformed escape in a string (write \\ as \\\\)",
    ],
  ])("reports %s at its position", (_, text, offset, detail) => {
    expect(faultIn(text)).toEqual({ ok: false, reason: "string", offset, detail });
  });

  test("one changed byte is an error exactly if a strict parser rejects it", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "\\", '"', "\n", "/", "é"), minLength: 1 });
    const byte = fc.constantFrom("\n", "\\", "u", "x", "0");
    fc.assert(
      fc.property(text, fc.nat(), byte, (content, place, put) => {
        const sound = JSON.stringify(content);
        const at = 1 + (place % (sound.length - 2));
        const changed = `${sound.slice(0, at)}${put}${sound.slice(at + 1)}`;
        // The scanner is responsible for finding the end of a string.
        fc.pre(/^"(?:[^"\\]|\\.)*"$/s.test(changed));
        expect(faultIn(changed) === null).toBe(isJson(changed));
      }),
    );
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
