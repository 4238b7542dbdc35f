import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { partBytes } from "../../base/parts.ts";
import { FramedBody } from "./framed-body.ts";
import { CHUNKED, UNTIL_CLOSE } from "./http-fields.ts";

/** Feeds the parts one by one and returns the body, its state and the number of bytes after its end. */
function decode(framing: number, parts: readonly Buffer[]) {
  const body = new FramedBody(framing, true);
  const pieces: Buffer[] = [];
  let excess = 0;
  for (const part of parts) {
    const read = Buffer.from(part);
    body.at = 0;
    for (let piece = body.next(read); piece !== null; piece = body.next(read))
      pieces.push(Buffer.from(partBytes(piece)));
    excess += read.length - body.at;
  }
  return { text: Buffer.concat(pieces).toString("latin1"), pieces, body, excess };
}

const decodeText = (framing: number, ...parts: string[]) =>
  decode(
    framing,
    parts.map((part) => Buffer.from(part, "latin1")),
  );

const content = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes));
const cuts = fc.array(fc.nat({ max: 400 }), { maxLength: 10 });

function cutAt(bytes: Buffer, at: readonly number[]): Buffer[] {
  const places = [
    0,
    ...at.map((place) => place % (bytes.length + 1)).toSorted((a, b) => a - b),
    bytes.length,
  ];
  return places.slice(1).map((place, i) => bytes.subarray(places[i], place));
}

function encodeChunks(chunks: readonly Buffer[], extension: string, trailers: string): Buffer {
  const framed = chunks
    .filter((chunk) => chunk.length > 0)
    .flatMap((chunk) => [
      Buffer.from(`${chunk.length.toString(16)}${extension}\r\n`),
      chunk,
      Buffer.from("\r\n"),
    ]);
  return Buffer.concat([...framed, Buffer.from(`0${extension}\r\n${trailers}\r\n`)]);
}

describe("a body of known length", () => {
  test("ends with its last byte, and the bytes after it are not consumed", () => {
    const { text, body, excess } = decodeText(5, "he", "llo!");
    expect([text, body.hasEnded, excess]).toEqual(["hello", true, 1]);
  });

  test("of length 0 has ended from the start", () => {
    expect(new FramedBody(0, true).hasEnded).toBe(true);
  });

  test("is passed on without a copy", () => {
    const read = Buffer.from("hello");
    expect(new FramedBody(9, true).next(read)?.bytes).toBe(read);
  });
});

test("a body until the close of the connection accepts everything and never ends by itself", () => {
  const { text, body } = decodeText(UNTIL_CLOSE, "a", "", "bc");
  expect([text, body.hasEnded]).toEqual(["abc", false]);
});

describe("a chunked body", () => {
  test("is the same for any split", () => {
    fc.assert(
      fc.property(
        fc.array(content, { maxLength: 6 }),
        fc.constantFrom("", ";a", " ; a=b", ';q="x y"', "  "),
        fc.constantFrom("", "a: b\r\n", "a: b\r\nc: d\r\n"),
        cuts,
        (chunks, extension, trailers, at) => {
          const bytes = encodeChunks(chunks, extension, trailers);
          const { text, body, excess } = decode(CHUNKED, cutAt(bytes, at));
          expect(text).toBe(Buffer.concat(chunks).toString("latin1"));
          expect([body.hasEnded, body.fault, excess]).toEqual([true, null, 0]);
        },
      ),
    );
  });

  test("is the same byte by byte", () => {
    const bytes = encodeChunks(
      [Buffer.from("hello "), Buffer.from("w"), Buffer.from("orld")],
      ";x=y",
      "t: u\r\n",
    );
    const { text, body } = decode(
      CHUNKED,
      [...bytes].map((byte) => Buffer.from([byte])),
    );
    expect([text, body.hasEnded]).toEqual(["hello world", true]);
  });

  test("of small chunks is one piece per read", () => {
    const bytes = encodeChunks(
      Array.from({ length: 50 }, () => Buffer.from("data: x\n\n")),
      "",
      "",
    );
    const { pieces, text } = decode(CHUNKED, [bytes]);
    expect([pieces.length, text]).toEqual([1, "data: x\n\n".repeat(50)]);
  });

  test("of large chunks is not copied", () => {
    const large = Buffer.alloc(100_000, "x");
    const { pieces, text } = decode(CHUNKED, [
      encodeChunks([Buffer.from("a"), large, Buffer.from("b")], "", ""),
    ]);
    expect([pieces.length, text === `a${large}b`]).toEqual([2, true]);
  });

  test("does not consume the bytes after its end", () => {
    expect(decodeText(CHUNKED, "1\r\na\r\n0\r\n\r\nHTTP").excess).toBe(4);
  });

  test("may have sizes in either case and with leading zeros", () => {
    const { text, body } = decodeText(CHUNKED, `00A\r\n0123456789\r\n0b\r\n0123456789a\r\n000\r\n\r\n`);
    expect([text.length, body.hasEnded]).toEqual([21, true]);
  });

  test.each([
    ["no size", "\r\n"],
    ["an extension without a size", ";a\r\n"],
    ["a signed size", "-1\r\n"],
    ["a hexadecimal mark", "0x5\r\nhello\r\n"],
    ["a size above the maximum", "fffffffffffffffff\r\n"],
    ["endless zeros", "0".repeat(5_000)],
    ["LF alone after a size", "5\nhello\r\n"],
    ["CR alone after a size", "5\rhello\r\n"],
    ["a chunk longer than its size", "5\r\nhello!\r\n"],
    ["LF alone after a chunk", "5\r\nhello\n0\r\n\r\n"],
    ["a NUL in an extension", "5;\0\r\nhello\r\n"],
    ["LF in an extension", "5;a\nhello\r\n"],
    ["an endless extension", `5;${"a".repeat(5_000)}`],
    ["LF in a trailer", "0\r\na: b\n\r\n"],
    ["CR alone in a trailer", "0\r\na: b\rc\r\n\r\n"],
    ["CR alone at the end", "0\r\n\rx"],
    ["trailers that are too long", `0\r\n${"a: b\r\n".repeat(5_000)}`],
    ["more trailers than a head may have fields", `0\r\n${"a: b\r\n".repeat(129)}\r\n`],
    ["a trailer without a colon", "0\r\nab\r\n\r\n"],
    ["a trailer without a name", "0\r\n: b\r\n\r\n"],
    ["a space before a trailer's colon", "0\r\na : b\r\n\r\n"],
    ["a space in a trailer's name", "0\r\na b: c\r\n\r\n"],
    ["a folded trailer", "0\r\na: b\r\n c\r\n\r\n"],
    ["another request in place of a trailer", "0\r\nGET / HTTP/1.1\r\nHost: gw\r\n\r\n"],
    ["a control character in a trailer's name", "0\r\na\0: b\r\n\r\n"],
    ["a control character in a trailer's value", "0\r\na: b\0\r\n\r\n"],
    ["a trailer's name that is not ASCII", "0\r\n\xe4: b\r\n\r\n"],
  ])("is invalid with %s", (_name, text) => {
    const { body } = decodeText(CHUNKED, text);
    expect([body.fault === null, body.hasEnded]).toEqual([false, false]);
  });

  test("of a request rejects trailer fields that belong to the head, in any case", () => {
    const ending = (name: string, isLenient: boolean) => {
      const body = new FramedBody(CHUNKED, isLenient);
      const bytes = Buffer.from(`0\r\nx-first: 1\r\n${name}: 5\r\n\r\n`);
      while (body.next(bytes) !== null) {}
      return body.fault ?? (body.hasEnded ? "ended" : "unfinished");
    };
    for (const name of ["Content-Length", "TRANSFER-ENCODING", "host"]) {
      expect(ending(name, false)).toBe("a header field that is not allowed in a trailer");
      expect(ending(name, true)).toBe("ended");
    }
    for (const name of ["content-lengthy", "x-host", "authorization", "server-timing", "x".repeat(200)]) {
      expect(ending(name, false)).toBe("ended");
    }
  });

  test("of a request may have 4,096 chunks of a byte, and more only in proportion to its data", () => {
    const decodeRequest = (text: string) => {
      const body = new FramedBody(CHUNKED, false);
      const bytes = Buffer.from(text);
      while (body.next(bytes) !== null) {}
      return body.fault ?? (body.hasEnded ? "ended" : "unfinished");
    };
    const small = (count: number) => "1\r\nx\r\n".repeat(count);
    const end = "0\r\n\r\n";
    expect(decodeRequest(small(4_096) + end)).toBe("ended");
    expect(decodeRequest(small(5_000) + end)).toBe("too many small chunks");
    expect(decodeRequest(`${(16_384).toString(16)}\r\n${"x".repeat(16_384)}\r\n${small(5_000)}${end}`)).toBe(
      "ended",
    );
    expect(decodeText(CHUNKED, small(5_000) + end).body.hasEnded).toBe(true);
  });

  test("never throws, and is never both ended and invalid, for any input", () => {
    const fragment = fc.oneof(fc.constantFrom("0", "5", "\r\n", "\r", "\n", ";", "hello"), fc.string());
    fc.assert(
      fc.property(fc.array(fragment), (parts) => {
        const { body } = decodeText(CHUNKED, ...parts);
        expect(body.hasEnded && body.fault !== null).toBe(false);
      }),
    );
  });
});
