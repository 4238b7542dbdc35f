import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { wholeBytesPart } from "../../base/parts.ts";
import { firstElements } from "../../json/array.ts";
import { applySplices } from "../../json/splice.ts";
import { RESPONSES_STATE } from "./responses-state.ts";

const ENCRYPTED = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA=="}`;
const OPEN = `{"type":"reasoning","id":"rs_2","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":null}`;
const MESSAGE = `{ "role" : "user", "content":"a \\"reasoning\\", \\u00e9 [,]" }`;
const RESULT = `{"type":"function_call_output","output":"{\\"type\\":\\"reasoning\\",\\"encrypted_content\\":\\"x\\"}"}`;

/** Returns null if nothing is removed. */
function dropFrom(input: string, kind: "array" | "string" = "array"): string | null {
  const before = '{"model":"m","input":';
  const bytes = new TextEncoder().encode(`${before}${input},"store":false}`);
  const start = before.length;
  const field = {
    kind,
    keyStart: start,
    start,
    end: start + new TextEncoder().encode(input).length,
    values: 0,
  };
  const splices = RESPONSES_STATE.dropAll(wholeBytesPart(bytes), { input: field }, 16);
  if (splices.length === 0) return null;
  const text = new TextDecoder().decode(applySplices(bytes, splices));
  expect(text).toStartWith(before);
  expect(text).toEndWith(',"store":false}');
  return text.slice(before.length, -',"store":false}'.length);
}

/** The texts of the items. The whitespace between two items that stay is not changed. */
function itemTexts(array: string): string[] {
  expect(JSON.parse(array)).toBeArray();
  const bytes = new TextEncoder().encode(array);
  return firstElements(bytes, { start: 0, end: bytes.length }, Number.POSITIVE_INFINITY).map(
    ({ start, end }) => new TextDecoder().decode(bytes.subarray(start, end)),
  );
}

describe("encrypted reasoning", () => {
  test.each([
    ["first", [ENCRYPTED, MESSAGE, RESULT], [MESSAGE, RESULT]],
    ["in the middle", [MESSAGE, ENCRYPTED, RESULT], [MESSAGE, RESULT]],
    ["last", [MESSAGE, RESULT, ENCRYPTED], [MESSAGE, RESULT]],
    ["several in a row", [MESSAGE, ENCRYPTED, ENCRYPTED, RESULT, ENCRYPTED], [MESSAGE, RESULT]],
    ["alone", [ENCRYPTED], []],
  ])("%s is removed, and the other items are unchanged", (_, items, left) => {
    expect(dropFrom(`[${items.join(",")}]`)).toBe(`[${left.join(",")}]`);
    expect(itemTexts(dropFrom(`[ ${items.join(" ,\n ")} ]`) ?? "")).toEqual(left);
  });

  test.each([
    ["an input without encrypted reasoning", `[${MESSAGE},${RESULT}]`],
    ["unencrypted reasoning", `[${OPEN}]`],
    ["an empty input", "[]"],
    ["items that are not objects", `["reasoning", 1, null, [${ENCRYPTED}]]`],
  ])("%s is unchanged", (_, input) => {
    expect(dropFrom(input)).toBeNull();
  });

  test("an input that is a text is unchanged", () => {
    expect(dropFrom(JSON.stringify(ENCRYPTED), "string")).toBeNull();
    expect(RESPONSES_STATE.dropAll(wholeBytesPart(new Uint8Array()), {}, 16)).toEqual([]);
  });

  test("the result always contains the other items in their order", () => {
    const item = fc.oneof(
      fc.constant(ENCRYPTED),
      fc.constant(MESSAGE),
      fc.constant(OPEN),
      fc.constant(RESULT),
    );
    const space = fc.constantFrom("", " ", "\n\t");
    fc.assert(
      fc.property(fc.array(item), space, space, (items, before, after) => {
        const input = `[${items.map((text) => `${before}${text}${after}`).join(",")}]`;
        const left = items.filter((text) => text !== ENCRYPTED);
        const dropped = dropFrom(input);
        if (left.length === items.length) expect(dropped).toBeNull();
        else expect(itemTexts(dropped ?? "")).toEqual(left);
      }),
    );
  });
});
