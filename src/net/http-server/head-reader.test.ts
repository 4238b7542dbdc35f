import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { HeadReader } from "./head-reader.ts";
import { parseRequestHead, RequestHead } from "./request-head.ts";

const HEAD_BYTES_MAX = 16_384;

const NAMES = ["host", "content-length", "authorization", "expect", "connection", "x-a", "transfer-encoding"];

const headWith = (...fields: string[]) =>
  Buffer.from(["POST /v1/responses HTTP/1.1", "Host: gw", ...fields, "", ""].join("\r\n"), "latin1");

const ofLength = (length: number | string) =>
  headWith("Authorization: Bearer a", `Content-Length: ${length}`, "X-A: 1");

/** All properties of a head. */
function properties(head: ReturnType<HeadReader["read"]>) {
  if (!(head instanceof RequestHead)) return head;
  const { options, framing, lengthAt, bodyAt } = head;
  const { method, target, keepsAlive, isHttp10, expectsContinue, headers } = options;
  const values = NAMES.map((name) => [headers.get(name), headers.has(name)]);
  return { method, target, keepsAlive, isHttp10, expectsContinue, framing, lengthAt, bodyAt, values };
}

function read(reader: HeadReader, bytes: Buffer, from = 0): RequestHead {
  const head = reader.read(bytes, from, HEAD_BYTES_MAX);
  if (!(head instanceof RequestHead)) throw new Error(`no head: ${JSON.stringify(head)}`);
  return head;
}

describe("heads of one connection", () => {
  test("that differ only in Content-Length share the parsed head", () => {
    const reader = new HeadReader();
    const first = read(reader, ofLength(7));
    const next = read(reader, Buffer.concat([Buffer.from("before"), ofLength(1_024)]), 6);
    expect(next.options).toBe(first.options);
    expect([next.framing, next.bodyAt]).toEqual([1_024, 6 + ofLength(1_024).length]);
  });

  test("that differ in anything else do not share it", () => {
    const reader = new HeadReader();
    const first = read(reader, ofLength(7));
    const other = read(reader, headWith("Authorization: Bearer b", "Content-Length: 7", "X-A: 1"));
    expect(other.options).not.toBe(first.options);
    expect(other.options.headers.get("authorization")).toBe("Bearer b");
  });

  test("are not compared if they never match, or after forget", () => {
    const reader = new HeadReader();
    for (let i = 0; i < 3; i++) read(reader, headWith(`X-A: ${i}`, "Content-Length: 1"));
    const unlike = read(reader, ofLength(7));
    expect(read(reader, ofLength(7)).options).not.toBe(unlike.options);

    const left = new HeadReader();
    const first = read(left, ofLength(7));
    left.forget();
    expect(read(left, ofLength(7)).options).not.toBe(first.options);
  });

  test("are compared as long as some of them match", () => {
    const reader = new HeadReader();
    for (let i = 0; i < 10; i++) {
      const { options } = read(reader, headWith(`X-A: ${i}`, "Content-Length: 1"));
      expect(read(reader, headWith(`X-A: ${i}`, "Content-Length: 2")).options).toBe(options);
    }
  });

  test("that are long are parsed each time", () => {
    const reader = new HeadReader();
    const long = headWith(`X-A: ${"a".repeat(4_000)}`, "Content-Length: 1");
    expect(read(reader, long).options).not.toBe(read(reader, long).options);
  });

  test.each(["", "-1", "+1", "1 1", "1,1", "1e3", "0x1", "9999999999999999", "1\r\nContent-Length: 2"])(
    "are rejected for the Content-Length %p, even after a valid one",
    (length) => {
      const reader = new HeadReader();
      read(reader, ofLength(7));
      expect(reader.read(ofLength(length), 0, HEAD_BYTES_MAX)).not.toBeInstanceOf(RequestHead);
    },
  );

  test("have the same result as when parsed alone", () => {
    const byte = fc.nat({ max: 255 }).map((code) => String.fromCharCode(code));
    const put = fc.string({ unit: fc.oneof(byte, fc.constantFrom("\r\n", " ", ":", "7")), maxLength: 3 });
    const plain = ofLength(7).toString("latin1");
    const changed = fc
      .tuple(fc.nat({ max: plain.length }), fc.nat({ max: 2 }), put)
      .map(([at, taken, added]) => plain.slice(0, at) + added + plain.slice(at + taken));
    const cut = fc.nat({ max: plain.length }).map((to) => plain.slice(0, to));
    const head = fc.oneof(
      fc.nat().map((length) => ofLength(length).toString("latin1")),
      changed,
      cut,
    );
    fc.assert(
      fc.property(fc.array(head, { minLength: 2, maxLength: 8 }), (heads) => {
        const reader = new HeadReader();
        for (const text of heads) {
          const bytes = Buffer.from(`${text}{"model":1}`, "latin1");
          const alone = parseRequestHead(bytes, 0, HEAD_BYTES_MAX);
          expect(properties(reader.read(bytes, 0, HEAD_BYTES_MAX))).toEqual(properties(alone));
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
