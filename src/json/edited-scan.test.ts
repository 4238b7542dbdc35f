import { describe, expect, test } from "bun:test";
import { deriveScan } from "./edited-scan.ts";
import { scanObject, wantedFields } from "./scan.ts";
import { applySplices, editMembers, replaceValue } from "./splice.ts";

const WANTED = wantedFields(["a", "b", "list", "c"]);
const encode = (text: string) => new TextEncoder().encode(text);

function scan(bytes: Uint8Array, start = 0) {
  const found = scanObject(bytes, start, bytes.length, WANTED, { depthMax: 8 });
  if (!found.ok) throw new Error(found.detail);
  return found;
}

/** Derives the scan of the body with these members, and scans it. */
function derive(text: string, edits: { readonly [name in "a" | "b" | "c"]?: string }, start = 0) {
  const bytes = encode(text);
  const before = scan(bytes, start);
  const values = Object.fromEntries(
    Object.entries(edits).map(([name, json]) => [name, encode(json)] as const),
  );
  const splices = editMembers(bytes, before, values);
  const after = applySplices(bytes, splices, start);
  const names = ["a", "b", "c"] as const;
  const added = names.flatMap((name) => {
    const value = values[name];
    return value === undefined || before.fields[name] !== undefined ? [] : [[name, value] as const];
  });
  const replaced = splices.filter((splice) => splice.start < splice.end);
  return { derived: deriveScan(before, { bodyStart: start, replaced, added }), scanned: scan(after) };
}

describe("the scan of an edited body", () => {
  test.each([
    ['{ "list" : [1, [2]], "a": "long" , "b":3 }', { a: "false" }],
    ['{"b":1,"list":[{"a":1}],"a":null}', { a: "true", b: "12345" }],
    ['{"list":[]}', { a: "1", b: '"two"', c: "false" }],
    ["{ }", { a: "1" }],
    ["{}", { a: "1", c: "22" }],
    ['{"other":[1,2]}', {}],
  ])("of %s is derived", (text, edits) => {
    const { derived, scanned } = derive(text, edits);
    expect(derived).toEqual(scanned);
  });

  test("starts at offset 0, wherever the body was", () => {
    const { derived, scanned } = derive('head{"list":[1],"a":"x"}', { a: "10", b: "2" }, 4);
    expect(derived).toEqual(scanned);
  });

  test("moves the ends of a member in which a value is replaced", () => {
    const bytes = encode('{"list":[1,2,3],"a":4}');
    const before = scan(bytes);
    const at = bytes.indexOf("2".charCodeAt(0));
    const field = { keyStart: at, start: at, end: at + 1, kind: "number", values: 0 } as const;
    const replaced = [replaceValue(field, encode('"longer"'))];
    const derived = deriveScan(before, { bodyStart: 0, replaced, added: [] });
    expect(derived).toEqual(scan(applySplices(bytes, replaced)));
  });
});
