/** An event of megabytes is what `JSON.parse` makes of it, but for its long strings, which are not decoded. */

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { partBytes } from "../../base/parts.ts";
import { isObject } from "../../json/parse.ts";
import { openChatReader } from "../chat/chat-stream.ts";
import { openGeminiReader } from "../gemini/gemini-stream.ts";
import { openMessagesReader } from "../messages/messages-stream.ts";
import { LongString, parseWithoutLongStrings } from "./long-strings.ts";

const MIB = 1024 * 1024;
const LONG_CHARS = 70_000;

function parse(text: string): unknown {
  const bytes = Buffer.from(text);
  return parseWithoutLongStrings(bytes, 0, bytes.length);
}

/** The value with the text of each `LongString`, and how many there are. */
function decode(value: unknown): { json: unknown; longStrings: number } {
  let longStrings = 0;
  const visit = (inner: unknown): unknown => {
    if (inner instanceof LongString) {
      longStrings++;
      return JSON.parse(`"${Buffer.from(partBytes(inner)).toString()}"`);
    }
    expect(typeof inner === "string" && inner.length >= LONG_CHARS).toBe(false);
    if (Array.isArray(inner)) return inner.map(visit);
    if (!isObject(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).map(([name, member]) => [name, visit(member)]));
  };
  return { json: visit(value), longStrings };
}

test("a short event is parsed as it is", () => {
  const text = `{"a":"${"b".repeat(100_000)}"}`;
  expect(parse(text)).toEqual(JSON.parse(text));
});

test("each long string of a long event is a value that says where it is", () => {
  const texts = ["a".repeat(MIB), `é\\"${"b".repeat(LONG_CHARS)}`];
  const event = parse(` {"a":"${texts[0]}","b":["${texts[1]}","c \\u0041"],"d":1} `);
  const { a, b, d } = event as { a: LongString; b: [LongString, string]; d: number };
  expect([b[1], d]).toEqual(["c A", 1]);
  expect([a, b[0]].map((value) => Buffer.from(partBytes(value)).toString())).toEqual(texts);
});

const LONG = `"${"l".repeat(LONG_CHARS)}"`;
/** Fills an event up to the length from which long strings are not decoded. */
const FILLING = JSON.stringify("f".repeat(MIB));

/** What once stood for a long string, what could, and what an event has at its place. */
const SHORT = fc.constantFrom(
  ...['"\uE000long string 0"', '"\\ue000long string 1"', '"\uE000"', '"\uFFFD"', '"\\u0000"', '""', '"0"'],
  ...[
    "0",
    "-1",
    "1e999",
    "null",
    "true",
    "{}",
    "[]",
    '{"":0}',
    "[null]",
    '"a\\"b,]}"',
    "12345678901234567890",
  ],
);
const NAME = fc.constantFrom(
  '"a"',
  '"b"',
  '"\\u0061"',
  '""',
  '"0"',
  '"1"',
  '"__proto__"',
  '"\uE000long string 0"',
);
const SPACE = fc.constantFrom("", "", " ", "\n\t");

const { json: JSON_TEXT } = fc.letrec<{ json: string; array: string; object: string }>((tie) => ({
  json: fc.oneof({ maxDepth: 3 }, SHORT, fc.constant(LONG), tie("array"), tie("object")),
  array: fc
    .tuple(
      fc.array(
        fc.tuple(SPACE, tie("json"), SPACE).map((texts) => texts.join("")),
        { maxLength: 5 },
      ),
      SPACE,
    )
    .map(([elements, space]) => `[${elements.length === 0 ? space : elements.join(",")}]`),
  object: fc
    .tuple(fc.array(fc.tuple(SPACE, NAME, SPACE, tie("json"), SPACE), { maxLength: 5 }), SPACE)
    .map(([members, space]) => {
      const texts = members.map(([a, name, b, value, c]) => `${a}${name}${b}:${b}${value}${c}`);
      return `{${texts.length === 0 ? space : texts.join(",")}}`;
    }),
}));

describe("any event is what JSON.parse makes of it", () => {
  test("whatever its short strings and numbers are, and however often a name is repeated", () => {
    fc.assert(
      fc.property(JSON_TEXT, fc.boolean(), (json, isFirst) => {
        const text = isFirst ? `[${FILLING},${json}]` : `{"a":${json},"f":${FILLING},"b":${json}}`;
        const { json: parsed } = decode(parse(text));
        expect(parsed).toEqual(JSON.parse(text));
        // The same members in the same order.
        expect(JSON.stringify(parsed)).toBe(JSON.stringify(JSON.parse(text)));
      }),
      { numRuns: 60 },
    );
  });

  test.each([
    ["the later value", `{"a":${FILLING},"a":"\uE000long string 0"}`, 0],
    ["the later value, in another container", `{"a":{"b":${FILLING}},"a":{"b":0}}`, 0],
    ["the long string", `{"a":0,"b":1,"a":${FILLING}}`, 1],
    ["the last long string", `{"a":${FILLING},"a":${LONG}}`, 1],
  ])("of a repeated name %s counts", (_, text, longStrings) => {
    expect(decode(parse(text))).toEqual({ json: JSON.parse(text), longStrings });
  });

  test("a long name is a name", () => {
    const text = `{${LONG}:1,"f":${FILLING},"a":[{${LONG} : ${LONG}}]}`;
    expect(decode(parse(text))).toEqual({ json: JSON.parse(text), longStrings: 2 });
  });
});

test.each([
  ["is cut off in a long string", `{"a":"${"b".repeat(2 * MIB)}`],
  ["is cut off after one", `{"a":${FILLING}`],
  ["has no comma after one", `[${FILLING} 1]`],
  ["has no value after the comma", `[${FILLING},]`],
  ["has the wrong bracket", `[${FILLING}}`],
  ["has a malformed escape in a short string", `[${FILLING},"\\x"]`],
  ["has a malformed escape in the name of a long string", `{"\\x":${FILLING}}`],
  ["has something after its end", `[${FILLING}]1`],
])("an event that %s is no JSON", (_, text) => {
  expect(parse(text)).toBeNull();
});

const LONG_MEMBER = `"x":${FILLING}`;
const READER = { publicModel: "m", depthMax: 64, choices: 1, hidesUsage: true };

test.each([
  ["Chat", openChatReader(READER), `{"choices":[],"usage":{${LONG_MEMBER},"prompt_tokens":7}}`],
  [
    "Gemini",
    openGeminiReader(READER),
    `{"candidates":[],"usageMetadata":{${LONG_MEMBER},"promptTokenCount":7}}`,
  ],
  [
    "Messages",
    openMessagesReader(READER),
    `{"type":"message_start","message":{"usage":{${LONG_MEMBER},"input_tokens":7}}}`,
  ],
])("the usage in an event of megabytes of %s is read", (_, reader, json) => {
  const bytes = Buffer.from(`data: ${json}\n\n`);
  reader.read(bytes, 0, bytes.length - 2);
  expect(reader.usage).toMatchObject({ inputTokens: 7 });
});
