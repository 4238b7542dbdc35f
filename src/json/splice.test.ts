import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts } from "../base/parts.ts";
import { scanObject, wantedFields } from "./scan.ts";
import {
  addMember,
  applySplices,
  editMembers,
  jsonString,
  replaceValue,
  type Splice,
  spliceParts,
} from "./splice.ts";

const utf8 = new TextEncoder();
const decoder = new TextDecoder();
const NAMES = ["model", "stream", "n", "user"] as const;
const WANTED = wantedFields(NAMES);
type Edits = { [name in (typeof NAMES)[number]]?: Uint8Array | null };

function edit(body: string, edits: Edits): string {
  const bytes = utf8.encode(body);
  const scan = scanObject(bytes, 0, bytes.length, WANTED, { depthMax: 128 });
  if (!scan.ok) throw new Error(scan.detail);
  return decoder.decode(applySplices(bytes, editMembers(bytes, scan, edits)));
}

function splice(start: number, end: number, insert: string): Splice {
  return { start, end, insert: utf8.encode(insert) };
}

describe("splices", () => {
  test("without a splice, the same array is returned", () => {
    const bytes = utf8.encode("abc");
    expect(applySplices(bytes, [])).toBe(bytes);
  });

  test("splices can be in any order, and several at one position keep theirs", () => {
    const bytes = utf8.encode("0123456789");
    const result = applySplices(bytes, [
      splice(8, 10, "end"),
      splice(0, 0, "a"),
      splice(0, 0, "b"),
      splice(2, 5, ""),
    ]);
    expect(decoder.decode(result)).toBe("ab01567end");
  });

  test("splicing a part of an array does not touch bytes outside it", () => {
    const bytes = utf8.encode("..0123..");
    const changed = applySplices(bytes, [splice(3, 4, "one")], 2, 6);
    expect(decoder.decode(changed)).toBe("0one23");
    expect(decoder.decode(applySplices(bytes, [], 2, 6))).toBe("0123");
    expect(() => applySplices(bytes, [splice(1, 3, "")], 2, 6)).toThrow(RangeError);
    expect(() => applySplices(bytes, [splice(5, 7, "")], 2, 6)).toThrow(RangeError);
  });

  test.each([
    ['{"model":"a"}', '{"n":2,"model":"a"}'],
    [" { } ", ' {"n":2 } '],
  ])("a member missing in %s is inserted in front", (body, changed) => {
    const bytes = utf8.encode(body);
    const scan = scanObject(bytes, 0, bytes.length, WANTED, { depthMax: 128 });
    if (!scan.ok) throw new Error(scan.detail);
    expect(decoder.decode(applySplices(bytes, [addMember(scan, "n", "2")]))).toBe(changed);
  });

  test("overlapping splices and splices outside the body throw", () => {
    const bytes = utf8.encode("0123");
    expect(() => applySplices(bytes, [splice(0, 2, ""), splice(1, 3, "")])).toThrow(RangeError);
    expect(() => applySplices(bytes, [splice(3, 5, "")])).toThrow(RangeError);
    expect(() => applySplices(bytes, [splice(-1, 0, "")])).toThrow(RangeError);
    expect(() => applySplices(bytes, [splice(2, 1, "")])).toThrow(RangeError);
  });

  test("every byte outside the spliced ranges is unchanged", () => {
    const cuts = fc.uniqueArray(fc.nat(200), { maxLength: 10 }).map((list) => list.sort((a, b) => a - b));
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 200, maxLength: 300 }),
        cuts,
        fc.array(fc.uint8Array({ maxLength: 20 }), { minLength: 5, maxLength: 5 }),
        (bytes, list, inserts) => {
          const splices: Splice[] = [];
          const expected: number[] = [];
          let from = 0;
          for (let i = 0; i + 1 < list.length; i += 2) {
            const start = list[i] ?? 0;
            const end = list[i + 1] ?? 0;
            const insert = inserts[i / 2] ?? new Uint8Array(0);
            splices.push({ start, end, insert });
            expected.push(...bytes.subarray(from, start), ...insert);
            from = end;
          }
          expected.push(...bytes.subarray(from));
          expect([...applySplices(bytes, splices.reverse())]).toEqual(expected);
          expect([...joinParts(spliceParts(bytes, splices))]).toEqual(expected);
        },
      ),
    );
  });
});

describe("members", () => {
  test("a value is replaced in place", () => {
    expect(edit('{ "model" : "a" , "x":1e999}', { model: jsonString("b") })).toBe(
      '{ "model" : "b" , "x":1e999}',
    );
  });

  test("a single value can be replaced by its field alone", () => {
    const bytes = utf8.encode('{"model":"a"}');
    const result = applySplices(bytes, [
      replaceValue({ keyStart: 1, start: 9, end: 12, kind: "string", values: 0 }, jsonString("é")),
    ]);
    expect(decoder.decode(result)).toBe('{"model":"é"}');
  });

  test("a new member is inserted in front", () => {
    expect(edit('{"x":1}', { n: utf8.encode("2") })).toBe('{"n":2,"x":1}');
    expect(edit("{ }", { n: utf8.encode("2"), user: jsonString('"') })).toBe('{"n":2,"user":"\\"" }');
  });

  test("a member is removed with one comma, at any position", () => {
    expect(edit('{"n":1,"x":2}', { n: null })).toBe('{"x":2}');
    expect(edit('{"x":2 , "n":1 }', { n: null })).toBe('{"x":2  }');
    expect(edit('{"x":2,"n":1,"y":3}', { n: null })).toBe('{"x":2,"y":3}');
    expect(edit('{ "n":1 }', { n: null })).toBe("{  }");
    expect(edit('{"x":1}', { n: null })).toBe('{"x":1}');
  });

  test("adjacent members are removed with their commas", () => {
    expect(edit('{"n":1,"user":"u"}', { n: null, user: null })).toBe("{}");
    expect(edit('{"x":0,"user":"u", "n":1}', { n: null, user: null })).toBe('{"x":0}');
    expect(edit('{"n":1,"user":"u","x":0}', { n: null, user: null })).toBe('{"x":0}');
  });

  test("a member can be added while the only one is removed", () => {
    expect(edit('{"n":1}', { n: null, user: utf8.encode("0") })).toBe('{"user":0}');
  });

  test("any mix of edits produces the described object and leaves other members unchanged", () => {
    const member = fc.constantFrom("model", "stream", "n", "user", "x", "y", "z");
    const members = fc.uniqueArray(member, { maxLength: 7 });
    const edits = fc.dictionary(fc.constantFrom(...NAMES), fc.constantFrom("true", '"new"', "[9]", null));
    const space = fc.constantFrom("", " ", "\n\t");
    fc.assert(
      fc.property(members, edits, space, space, (names, changes, a, b) => {
        const body = `{${a}${names.map((name) => `"${name}"${b}:${a}{"was":1}`).join(`${b},${a}`)}${b}}`;
        const expected: Record<string, unknown> = JSON.parse(body);
        const raw: Edits = {};
        for (const name of NAMES) {
          const text = changes[name];
          if (text === undefined) continue;
          raw[name] = text === null ? null : utf8.encode(text);
          if (text === null) delete expected[name];
          else expected[name] = JSON.parse(text);
        }
        expect(JSON.parse(edit(body, raw))).toEqual(expected);
      }),
      { numRuns: 1000 },
    );
  });
});

test("long strings are not kept in memory", () => {
  const [short, long] = ["word", "word ".repeat(1_000)];
  expect(jsonString(short)).toBe(jsonString(short));
  expect(jsonString(long)).not.toBe(jsonString(long));
  expect(jsonString(long)).toEqual(utf8.encode(JSON.stringify(long)));
});
