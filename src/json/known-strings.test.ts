import { expect, test } from "bun:test";
import fc from "fast-check";
import { openKnownStrings } from "./known-strings.ts";
import { type JsonField, stringValue } from "./scan.ts";

/** A string that is not at the start of its array. */
function placed(text: string): { bytes: Uint8Array; field: JsonField } {
  const bytes = Buffer.from(`{"model":${JSON.stringify(text)}}`);
  return { bytes, field: { keyStart: 1, start: 9, end: bytes.length - 1, kind: "string", values: 0 } };
}

test("a lookup matches the bytes, whatever was added before", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(..."abc", "ab", "ba", "a\\b", "ä", ""), { maxLength: 40 }),
      (texts) => {
        const known = openKnownStrings();
        for (const text of texts) {
          const { bytes, field } = placed(text);
          expect(known.find(bytes, field) ?? text).toBe(text);
          known.add(bytes, field, stringValue(bytes, field) ?? "");
          expect(known.find(bytes, field)).toBe(text);
        }
      },
    ),
  );
});

test("the bytes can be reused afterwards", () => {
  const known = openKnownStrings();
  const { bytes, field } = placed("fast");
  known.add(bytes, field, "fast");
  bytes.fill(0);
  expect(known.find(bytes, field)).toBeNull();
  const again = placed("fast");
  expect(known.find(again.bytes, again.field)).toBe("fast");
});

test("keeps the latest strings, up to the capacity", () => {
  const known = openKnownStrings();
  const texts = Array.from({ length: 20 }, (_, i) => `model-${i}`);
  for (const text of texts) known.add(placed(text).bytes, placed(text).field, text);
  const found = texts.filter((text) => known.find(placed(text).bytes, placed(text).field) !== null);
  expect(found).toEqual(texts.slice(4));
});
