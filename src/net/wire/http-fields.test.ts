import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Fields, HeadText, scanFields, trimValue } from "./http-fields.ts";

const FIRST_LINE = "GET / HTTP/1.1";

const headWith = (...lines: string[]) => Buffer.from([FIRST_LINE, ...lines, "", ""].join("\r\n"), "latin1");

const scan = (...lines: string[]) => scanFields(headWith(...lines), FIRST_LINE.length);

function parseFields(...lines: string[]): Fields {
  const fields = scan(...lines);
  if (!(fields instanceof Fields)) throw new Error(`no fields: ${fields}`);
  return fields;
}

function parseHeadText(...lines: string[]): HeadText {
  const bytes = headWith(...lines);
  const from = FIRST_LINE.length;
  return new HeadText(bytes.toString("latin1", from, bytes.length - 2), parseFields(...lines).names, from);
}

test("a name does not match a name that is 32 bytes longer", () => {
  const long = `host${"-".repeat(32)}`;
  const head = parseHeadText(`${long}: a`, "accept: b");
  expect([head.get("host"), head.get(long), head.has("host"), head.get("accept")]).toEqual([
    null,
    "a",
    false,
    "b",
  ]);
  expect(parseHeadText("host: c").get(long)).toBeNull();
});

describe("header fields", () => {
  test("end after the empty line, and their names are found", () => {
    const { end, names } = parseFields("a: b", "c:", "d:e");
    expect([end, ...names]).toEqual([
      headWith("a: b", "c:", "d:e").length,
      16 * 256 + 1,
      22 * 256 + 1,
      26 * 256 + 1,
    ]);
  });

  test("announce no body if there are none", () => {
    expect(parseFields()).toMatchObject({ names: [], length: -1, lengths: 0, isChunked: false, hosts: 0 });
  });

  test.each([
    ["Content-Length: 0", { length: 0, lengths: 1 }],
    ["content-length:\t 00042 \t", { length: 42, lengths: 1 }],
    ["CONTENT-LENGTH: 999999999999999", { length: 999_999_999_999_999 }],
    ["Transfer-Encoding:  Chunked ", { isChunked: true }],
    ["Host: a", { hosts: 1 }],
    ["Connection: close", { closes: true, keepsAlive: false }],
    ["connection: Upgrade ,\tKeep-Alive", { closes: false, keepsAlive: true }],
    ["Connection: closed, keep-alives", { closes: false, keepsAlive: false }],
    ["X-Content-Length: 7", { length: -1 }],
    ["Content-Lengths: 7", { length: -1 }],
    ["Content_Length: 7", { length: -1 }],
  ])("are parsed: %p", (line, meaning) => {
    expect(parseFields(line)).toMatchObject(meaning);
  });

  test("report repeated fields", () => {
    expect(parseFields("Host: a", "host: b", "content-length: 3", "Content-Length: 3")).toMatchObject({
      hosts: 2,
      length: 3,
      lengths: 2,
    });
  });

  test.each([
    ["two lengths", ["content-length: 3", "content-length: 4"]],
    ["a list of lengths", ["content-length: 3, 3"]],
    ["a signed length", ["content-length: +3"]],
    ["a negative length", ["content-length: -3"]],
    ["a hexadecimal length", ["content-length: 0x3"]],
    ["a fraction of a length", ["content-length: 3.0"]],
    ["a length above the maximum", ["content-length: 1000000000000000"]],
    ["an empty length", ["content-length:  "]],
    ["a coding before the chunks", ["transfer-encoding: gzip, chunked"]],
    ["a coding alone", ["transfer-encoding: identity"]],
    ["no coding", ["transfer-encoding:"]],
    ["chunks twice", ["transfer-encoding: chunked", "transfer-encoding: chunked"]],
    ["a character that looks like a blank", ["transfer-encoding: \xa0chunked"]],
    ["a space before the colon", ["host : a"]],
    ["a folded line", ["a: b", " c: d"]],
    ["a line without a name", [": b"]],
    ["a line without a colon", ["abc"]],
    ["a name that is not a token", ["a(b): c"]],
    ["a non-ASCII name", ["\xe9: c"]],
    ["a NUL", ["a: b\0"]],
    ["a DEL", ["a: b\x7f"]],
    ["LF alone", ["a: b\nc: d"]],
    ["CR alone", ["a: b\rc: d"]],
    ["CR alone before a line end", ["a: b\r"]],
    ["CR where a name stands", ["a: b", "\rc: d"]],
  ])("are rejected with %s", (_name, lines) => {
    expect(scan(...lines)).toBeString();
  });

  test("are incomplete until their last byte", () => {
    const bytes = headWith("Host: a", "Content-Length: 3");
    for (let to = FIRST_LINE.length; to < bytes.length; to++) {
      expect(scanFields(bytes.subarray(0, to), FIRST_LINE.length)).toBeNull();
    }
    expect(scanFields(bytes, FIRST_LINE.length)).toBeInstanceOf(Fields);
  });

  test("never throw, and never end after the bytes, for any input", () => {
    const fragment = fc.oneof(
      fc.constantFrom("\r\n", "\r", "\n", ":", " ", "content-length: ", "connection:", "7", "chunked"),
      fc.nat({ max: 255 }).map((byte) => String.fromCharCode(byte)),
    );
    fc.assert(
      fc.property(fc.array(fragment), (parts) => {
        const bytes = Buffer.from(parts.join(""), "latin1");
        const fields = scanFields(bytes, 0);
        if (fields instanceof Fields) expect(fields.end).toBeLessThanOrEqual(bytes.length);
      }),
    );
  });
});

describe("a header", () => {
  test("is found by its lower-case name in any case, without surrounding whitespace", () => {
    const head = parseHeadText("X-Request-ID: \t Abc \t", "Empty:");
    expect([head.get("x-request-id"), head.get("empty"), head.get("request-id")]).toEqual(["Abc", "", null]);
    expect([head.has("empty"), head.has("x-empty"), head.has("mpty")]).toEqual([true, false, false]);
  });

  test("that is repeated is joined as fetch does", () => {
    expect(parseHeadText("a: 1", "b: x", "A: 2", "a:3").get("a")).toBe("1, 2, 3");
  });

  test("is not found inside a value or the first line", () => {
    const head = parseHeadText("a: b: c");
    expect([head.get("b"), head.get("http/1.1"), head.has("b")]).toEqual([null, null, false]);
  });

  test("is found by exact characters, not by characters that differ in one bit", () => {
    const head = parseHeadText("Session_ID: 1", "x-9-Z: 2", "b^c: 3");
    expect([head.get("session_id"), head.get("x-9-z"), head.get("b~c")]).toEqual(["1", "2", null]);
  });

  test("is found by a name of any length", () => {
    const [long, longer] = ["x".repeat(31), "x".repeat(64)];
    const head = parseHeadText(`${long}: 1`, `${longer}: 2`);
    expect([head.get(long), head.get(longer), head.get("x".repeat(40))]).toEqual(["1", "2", null]);
  });

  test("has the value that fetch reads, for any characters", () => {
    const allowed = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)).filter((character) =>
      /[\t\x20-\x7e\x80-\xff]/.test(character),
    );
    const value = fc.string({ unit: fc.constantFrom(" ", "\xa0", ...allowed) });
    fc.assert(
      fc.property(fc.array(value, { minLength: 1, maxLength: 3 }), (values) => {
        const expected = new Headers();
        for (const one of values) expected.append("x-a", one);
        const head = parseHeadText("before: À", ...values.map((one) => `X-A:${one}`), "after: 1");
        expect(head.get("x-a")).toBe(expected.get("x-a"));
      }),
    );
  });
});

test("trimming removes spaces and tabs, but not the no-break space", () => {
  expect(trimValue("x \t\xa0a b\xa0 \tx", 1, 10)).toBe("\xa0a b\xa0");
  expect(trimValue("  \t ", 0, 4)).toBe("");
});
