import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  booleanValue,
  integerValue,
  isValidUtf8,
  type JsonField,
  type JsonScan,
  scanObject,
  stringValue,
  wantedFields,
} from "./scan.ts";
import { describeScanError } from "./scan-error.ts";

const WANTED = wantedFields(["model", "stream", "n", "max_tokens"]);
type Wanted = "model" | "stream" | "n" | "max_tokens";
const LIMITS = { depthMax: 128 };

const utf8 = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

function scan(body: string | Uint8Array, depthMax = LIMITS.depthMax): JsonScan<Wanted> {
  const bytes = typeof body === "string" ? utf8.encode(body) : body;
  return scanObject(bytes, 0, bytes.length, WANTED, { depthMax });
}

function captured(body: string, name: Wanted): { field: JsonField; text: string } {
  const result = scan(body);
  const field = result.ok ? result.fields[name] : undefined;
  if (field === undefined) throw new Error(`${name} was not captured`);
  return { field, text: decoder.decode(utf8.encode(body).subarray(field.start, field.end)) };
}

function reason(body: string | Uint8Array): string {
  const result = scan(body);
  return result.ok ? "ok" : result.reason;
}

function explain(body: string): string {
  const result = scan(body);
  return result.ok ? "ok" : describeScanError(utf8.encode(body), result);
}

describe("capturing fields", () => {
  test("a wanted member is captured with its range and kind", () => {
    const body = '{"a":[1,{"model":"inner"}], "model" : "gpt-4o" ,"stream":true,"n":null}';
    expect(captured(body, "model")).toEqual({
      field: {
        keyStart: body.indexOf('"model" '),
        start: body.indexOf('"gpt'),
        end: 46,
        kind: "string",
        values: 0,
      },
      text: '"gpt-4o"',
    });
    expect(captured(body, "stream").field.kind).toBe("true");
    expect(captured(body, "n").field.kind).toBe("null");
  });

  test("the kinds of values are distinguished", () => {
    const kinds = ['"s"', "-1.5e3", "true", "false", "null", "{}", "[]"].map(
      (value) => captured(`{"model":${value}}`, "model").field.kind,
    );
    expect(kinds).toEqual(["string", "number", "true", "false", "null", "object", "array"]);
  });

  test("a member of a nested object is not captured as a top-level one", () => {
    const result = scan('{"x":{"model":"a"},"y":[{"model":"b"}]}');
    expect(result.ok && result.fields.model).toBeUndefined();
  });

  test("a captured object can be scanned again in place", () => {
    const bytes = utf8.encode('{"type":"response.completed","response":{"id":"r","model":"m"}}');
    const outer = scanObject(bytes, 0, bytes.length, wantedFields(["response"]), LIMITS);
    const response = outer.ok ? outer.fields.response : undefined;
    if (response === undefined) throw new Error("response was not captured");
    const inner = scanObject(bytes, response.start, response.end, WANTED, LIMITS);
    const model = inner.ok ? inner.fields.model : undefined;
    expect(model && stringValue(bytes, model)).toBe("m");
  });

  test("a wanted key with escapes is captured", () => {
    expect(captured('{"mod\\u0065l":1}', "model").text).toBe("1");
    const spelledOut = [..."max_tokens"].map(
      (char) => `\\u00${char.charCodeAt(0).toString(16).toUpperCase()}`,
    );
    expect(captured(`{"${spelledOut.join("")}":1}`, "max_tokens").text).toBe("1");
    expect(reason('{"model":1,"mod\\u0065l":2}')).toBe("duplicate_field");
  });

  test("a duplicate wanted field is rejected by name; other fields may repeat", () => {
    expect(scan('{"model":1,"model":1}')).toMatchObject({
      reason: "duplicate_field",
      field: "model",
      offset: 11,
    });
    expect(reason('{"x":1,"x":2,"model":{"model":1}}')).toBe("ok");
  });

  test("the result has the position where a member can be inserted", () => {
    expect(scan(" { } ")).toMatchObject({ ok: true, insertAt: 2, empty: true });
    expect(scan('{"a":1}')).toMatchObject({ ok: true, insertAt: 1, empty: false });
  });

  test("a scan of a range reads nothing outside it", () => {
    const bytes = utf8.encode('xx{"model":1}}}"');
    expect(scanObject(bytes, 2, 13, WANTED, LIMITS).ok).toBe(true);
    expect(scanObject(bytes, 2, 12, WANTED, LIMITS)).toMatchObject({ reason: "unterminated" });
    const cut = utf8.encode('{"model":"a long enough string to be looked for natively"}');
    expect(scanObject(cut, 0, 20, WANTED, LIMITS)).toMatchObject({ reason: "unterminated", offset: 9 });
    expect(scanObject(cut, 0, cut.length - 2, WANTED, LIMITS)).toMatchObject({
      reason: "unterminated",
      offset: 9,
    });
  });
});

describe("rejected bodies", () => {
  test.each([
    ["", "not_object"],
    ["  ", "not_object"],
    ["[]", "not_object"],
    ['"model"', "not_object"],
    ["\ufeff{}", "bom"],
    ['{"a":1}x', "trailing"],
    ['{"a":1}{}', "trailing"],
    ["{", "unterminated"],
    ['{"a":1', "unterminated"],
    ['{"a":-', "unterminated"],
    ['{"a":[1,2', "unterminated"],
    ['{"a":"x\\"}', "unterminated"],
    ['{"a":1,}', "syntax"],
    ['{"a":[1,]}', "syntax"],
    ['{"a":[,1]}', "syntax"],
    ['{"a":[1}', "syntax"],
    ['{"a":{"b":1]}', "syntax"],
    ['{"a" 1}', "syntax"],
    ["{a:1}", "syntax"],
    ["{'a':1}", "syntax"],
    ['{"a":01}', "syntax"],
    ['{"a":+1}', "syntax"],
    ['{"a":1.}', "syntax"],
    ['{"a":.5}', "syntax"],
    ['{"a":1e}', "syntax"],
    ['{"a":-x}', "syntax"],
    ['{"a":tru}', "syntax"],
    ['{"a":NaN}', "syntax"],
    ['{"a":nullnull}', "syntax"],
    ['{"a":1\u00a0}', "syntax"],
    ['{"a":1/*x*/}', "syntax"],
    ['{"mod\\xel":1}', "syntax"],
    ['{"mod\\u00zzl":1}', "syntax"],
  ])("%j is %s", (body, expected) => {
    expect(reason(body)).toBe(expected);
  });

  test("the message contains line, column and the expected token", () => {
    expect(explain('{"model" "gpt-4o"}')).toBe("line 1, column 10: expected ':' after the key, found '\"'");
    expect(explain('{\n  "é": "ü", x\n}')).toBe(
      "line 2, column 13: expected a key in double quotes, found 'x'",
    );
    expect(explain('{"a":\u0001}')).toBe("line 1, column 6: expected a value, found byte 0x01");
    expect(explain('{"\\u0061\\x":1}')).toBe("line 1, column 9: malformed escape in the key, found '\\'");
    expect(explain('{"a":1')).toBe("line 1, column 7: the object has no end");
    expect(explain('{"n":1,"n":1}')).toBe('line 1, column 8: the field "n" appears more than once');
  });

  test("the message contains at most one byte of the body", () => {
    expect(explain('{"a":secret-token}')).toBe("line 1, column 6: expected a value, found 's'");
  });

  test("nesting is allowed up to the limit", () => {
    const nested = (levels: number) => `{"a":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
    expect(scan(nested(4), 4).ok).toBe(true);
    expect(scan(nested(5), 4)).toMatchObject({ reason: "depth", offset: 8 });
    expect(reason(nested(128))).toBe("ok");
    expect(reason(nested(129))).toBe("depth");
  });

  test("megabytes of opening brackets stop at the limit", () => {
    expect(scan(`{"a":${"[".repeat(10_000_000)}`)).toMatchObject({ reason: "depth", offset: 5 + 127 });
    expect(scan('{"a":'.repeat(2_000_000))).toMatchObject({ reason: "depth", offset: 5 * 128 });
    expect(reason("[".repeat(10_000_000))).toBe("not_object");
  });

  test("megabytes of backslashes and escaped quotes are scanned", () => {
    expect(reason(`{"a":"${"\\\\".repeat(1_000_000)}"}`)).toBe("ok");
    expect(reason(`{"a":"${'\\"'.repeat(1_000_000)}"}`)).toBe("ok");
    expect(reason(`{"a":"${"\\".repeat(1_000_001)}"}`)).toBe("unterminated");
  });

  test("detects invalid UTF-8", () => {
    expect(isValidUtf8(utf8.encode('{"a":"é€😀"}'))).toBe(true);
    expect(isValidUtf8(Uint8Array.of(0x22, 0xc3, 0x28, 0x22))).toBe(false);
    expect(isValidUtf8(Uint8Array.of(0xed, 0xa0, 0x80))).toBe(false);
  });
});

describe("values", () => {
  const value = (text: string) => captured(`{"model":${text}}`, "model").field;
  const string = (text: string) => stringValue(utf8.encode(`{"model":${text}}`), value(text));
  const integer = (text: string) => integerValue(utf8.encode(`{"model":${text}}`), value(text));

  test("a string is decoded, including escapes", () => {
    expect(string('"gpt-4o"')).toBe("gpt-4o");
    expect(string('""')).toBe("");
    expect(string('"\ufeffé😀"')).toBe("\ufeffé😀");
    expect(string('"a\\u0062\\n\\"c"')).toBe('ab\n"c');
  });

  test("an invalid string has no value", () => {
    expect(string('"a\nb"')).toBeNull();
    expect(string('"a\\xb"')).toBeNull();
    expect(string('"a\\n\u0001"')).toBeNull();
    expect(string("1")).toBeNull();
  });

  test("an integer is read; a fraction or an unsafe number is not", () => {
    expect(["0", "-0", "256", "-7", "1e3", "10.0", "999999999999999"].map(integer)).toEqual([
      0, 0, 256, -7, 1000, 10, 999999999999999,
    ]);
    expect(["1.5", "1e999", "12345678901234567890", '"1"', "1".repeat(100)].map(integer)).toEqual([
      null,
      null,
      null,
      null,
      null,
    ]);
  });

  test("only true and false are booleans", () => {
    expect(["true", "false", "null", '"true"', "1"].map((text) => booleanValue(value(text)))).toEqual([
      true,
      false,
      null,
      null,
      null,
    ]);
  });
});

describe("compared with JSON.parse", () => {
  const space = fc.string({ unit: fc.constantFrom(" ", "\n", "\t", "\r"), maxLength: 2 });
  const escapedChar = fc
    .integer({ min: 0, max: 0xffff })
    .map((code) => `\\u${code.toString(16).padStart(4, "0")}`);
  const stringText = fc
    .array(
      fc.oneof(
        fc.string({ unit: "binary", maxLength: 30 }).map((text) => JSON.stringify(text).slice(1, -1)),
        escapedChar,
        fc.constantFrom('\\"', "\\\\", "\\/", "{", "}", "[", ",", ":"),
      ),
      { maxLength: 5 },
    )
    .map((parts) => `"${parts.join("")}"`);
  const numberText = fc.oneof(
    fc.constantFrom("0", "-0", "1e999", "123456789012345678901234567890", "-1.5E+10", "0.1e-7"),
    fc.stringMatching(/^-?(0|[1-9]\d{0,20})(\.\d{1,5})?([eE][+-]?\d{1,3})?$/),
  );
  /** Each character of a name, plain or as an escape. */
  const nameText = fc.constantFrom("model", "stream", "n", "max_tokens").chain((name) =>
    fc.array(fc.boolean(), { minLength: name.length, maxLength: name.length }).map((escapes) => {
      const hex = (char: string) => `\\u00${char.charCodeAt(0).toString(16)}`;
      return `"${[...name].map((char, i) => (escapes[i] ? hex(char) : char)).join("")}"`;
    }),
  );
  const keyText = fc.oneof({ weight: 3, arbitrary: stringText }, { weight: 1, arbitrary: nameText });

  const { object } = fc.letrec<{ value: string; object: string; array: string }>((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      fc.constantFrom("true", "false", "null"),
      numberText,
      stringText,
      tie("array"),
      tie("object"),
    ),
    array: fc
      .array(
        fc.tuple(space, tie("value"), space).map((parts) => parts.join("")),
        { maxLength: 4 },
      )
      .map((items) => (items.length > 0 ? `[${items.join(",")}]` : "[ ]")),
    object: fc
      .array(
        fc
          .tuple(space, keyText, space, space, tie("value"), space)
          .map(([a, key, b, c, value, d]) => `${a}${key}${b}:${c}${value}${d}`),
        { maxLength: 5 },
      )
      .map((members) => (members.length > 0 ? `{${members.join(",")}}` : "{\n}")),
  }));
  const body = fc.tuple(space, object, space).map((parts) => parts.join(""));

  function parsed(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      return undefined;
    }
  }

  function isObject(value: unknown): value is Record<string, unknown> {
    return typeof value === "object" && value !== null && !Array.isArray(value);
  }

  test("any object is accepted, and each captured range contains the member's value", () => {
    fc.assert(
      fc.property(body, (text) => {
        const bytes = utf8.encode(text);
        const whole: unknown = JSON.parse(decoder.decode(bytes));
        const result = scan(bytes);
        if (!result.ok) {
          const before = decoder.decode(bytes.subarray(0, result.offset)).trimEnd();
          const after = decoder.decode(bytes.subarray(result.offset));
          expect(result.reason).toBe("duplicate_field");
          expect(parsed(`${before.slice(0, -1)}}`)).toHaveProperty(`${result.field}`);
          expect(parsed(`{${after}`)).toHaveProperty(`${result.field}`);
          return;
        }
        if (!isObject(whole)) throw new Error("only objects are accepted");
        for (const name of WANTED.byName.values()) {
          const field = result.fields[name];
          expect(field !== undefined).toBe(Object.hasOwn(whole, name));
          if (field === undefined) continue;
          expect(parsed(decoder.decode(bytes.subarray(field.start, field.end)))).toEqual(whole[name]);
          expect(bytes[field.keyStart]).toBe(0x22);
          if (field.kind === "string") expect(stringValue(bytes, field)).toBe(String(whole[name]));
        }
      }),
      { numRuns: 2000 },
    );
  });

  /** Lengths on both sides of the switch between the byte loop and the native search. */
  const stretch = fc.oneof(fc.integer({ min: 0, max: 6 }), fc.integer({ min: 30, max: 50 }), fc.nat(200));
  const escapes = fc.array(fc.constantFrom('\\"', "\\\\", "\\n", '\\\\\\"'), { minLength: 1, maxLength: 4 });
  const quotedText = fc
    .array(fc.tuple(stretch, escapes), { maxLength: 12 })
    .map((runs) => runs.map(([length, run]) => "x".repeat(length) + run.join("")).join(""));

  test("a string ends at its first unescaped quote, at any distance", () => {
    fc.assert(
      fc.property(quotedText, stretch, (quoted, length) => {
        const string = `"${quoted}${"x".repeat(length)}"`;
        expect(captured(`{"x":[${string},{${string}:${string}}],"model":${string}}`, "model").text).toBe(
          string,
        );
        expect(captured(`{${string}:1,"model":${string} }`, "model").text).toBe(string);
        expect(reason(`{"model":${string.slice(0, -1)}`)).toBe("unterminated");
        expect(reason(`{"model":${string.slice(0, -1)}\\"}`)).toBe("unterminated");
      }),
      { numRuns: 1000 },
    );
  });

  test("an escape is recognized at any position of a string, with any number of backslashes", () => {
    for (let before = 0; before < 100; before++) {
      for (const start of ["", '\\"', `${"x".repeat(60)}\\"\\"`]) {
        const text = `${start}${"x".repeat(before)}`;
        for (const after of ["", "x".repeat(70)]) {
          expect(reason(`{"a":"${text}\\"${after}"}`)).toBe("ok");
          expect(reason(`{"a":"${text}\\\\\\"${after}"}`)).toBe("ok");
          expect(reason(`{"a":"${text}\\\\"}`)).toBe("ok");
          expect(reason(`{"a":"${text}\\\\"${after}"}`)).toBe("syntax");
        }
      }
    }
  });

  test("a string may contain every byte but the quote, and a scan stays within its range", () => {
    const every = Uint8Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => byte !== 0x22);
    for (const length of [1, 40, 41, 255]) {
      for (let from = 0; from + length <= every.length; from += 7) {
        const text = every.subarray(from, from + length);
        const isOpen = text.at(-1) === 0x5c;
        const body = Buffer.concat([utf8.encode('{"a":"'), text, utf8.encode('"}')]);
        expect(reason(body)).toBe(isOpen ? "unterminated" : "ok");
        expect(scanObject(body, 0, body.length - 2, WANTED, LIMITS)).toMatchObject({
          reason: "unterminated",
        });
      }
    }
  });

  const mutation = fc.record({
    at: fc.nat(),
    remove: fc.integer({ min: 0, max: 2 }),
    insert: fc.oneof(
      fc.string({ unit: fc.constantFrom(...'{}[]",:\\0123456789.eE+-tfn \n'), maxLength: 2 }),
      fc.string({ unit: "binary", maxLength: 2 }),
    ),
  });

  test("a damaged body is accepted exactly if its structure is JSON, or rejected by a stated rule", () => {
    const verdicts = { accepted: 0, refused: 0 };
    fc.assert(
      fc.property(body, fc.array(mutation, { minLength: 1, maxLength: 3 }), (text, mutations) => {
        let damaged = text;
        for (const { at, remove, insert } of mutations) {
          const from = at % (damaged.length + 1);
          damaged = damaged.slice(0, from) + insert + damaged.slice(from + remove);
        }
        const bytes = utf8.encode(damaged);
        const result = scan(bytes);
        // The scanner does not check strings: with their contents removed, the rest decides.
        const structure = decoder.decode(bytes).replace(/"(?:[^"\\]|\\[\s\S])*"/g, '""');
        if (result.ok) {
          verdicts.accepted++;
          expect(isObject(parsed(structure))).toBe(true);
        } else if (result.reason !== "duplicate_field") {
          verdicts.refused++;
          expect(isObject(parsed(decoder.decode(bytes)))).toBe(false);
          if (!result.detail.includes("escape")) expect(isObject(parsed(structure))).toBe(false);
          expect(result.offset).toBeLessThanOrEqual(bytes.length);
        }
      }),
      { numRuns: 5000 },
    );
    expect(Math.min(verdicts.accepted, verdicts.refused)).toBeGreaterThan(500);
  });
});

test("the values within each member and within the whole object are counted", () => {
  const body = '{"a":[1,{"b":[],"c":"x"}],"model":[[],[2]],"n":1,"stream":{}}';
  const result = scanObject(utf8.encode(body), 0, body.length, wantedFields(["model", "n", "stream"]), {
    depthMax: 9,
  });
  if (!result.ok) throw new Error(result.detail);
  // The containers themselves count: [[],[2]] has four values.
  expect([result.fields.model?.values, result.fields.n?.values, result.fields.stream?.values]).toEqual([
    4, 0, 1,
  ]);
  expect(result.values).toBe(5 + 4 + 1);
});
