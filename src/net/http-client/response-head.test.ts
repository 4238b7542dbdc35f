import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { CHUNKED, UNTIL_CLOSE } from "../wire/http-fields.ts";
import { parseResponseHead, ResponseHead } from "./response-head.ts";

const parse = (text: string) => parseResponseHead(Buffer.from(text, "latin1"), 0);

function parseHead(text: string): ResponseHead {
  const head = parse(text);
  if (!(head instanceof ResponseHead)) throw new Error(`no head: ${head}`);
  return head;
}

const withLines = (...lines: string[]) =>
  `HTTP/1.1 200 OK\r\n${lines.map((line) => `${line}\r\n`).join("")}\r\n`;

describe("a response head", () => {
  test("contains the status, the body length and the start of the body", () => {
    const text = withLines("Content-Length: 42");
    const head = parseHead(`${text}rest`);
    expect([head.status, head.framing, head.keepsAlive, head.bodyAt]).toEqual([200, 42, true, text.length]);
  });

  test("needs no reason phrase and no space before it", () => {
    expect(parseHead("HTTP/1.1 404 \r\n\r\n").status).toBe(404);
    expect(parseHead("HTTP/1.1 404\r\n\r\n").status).toBe(404);
  });

  test("returns a header by its lower-case name, independent of the case on the wire", () => {
    const head = parseHead(withLines("X-Request-ID: \t Abc ", "Empty:"));
    expect(head.get("x-request-id")).toBe("Abc");
    expect(head.get("empty")).toBe("");
    expect(head.get("request-id")).toBeNull();
    expect(head.has("empty")).toBe(true);
    expect(head.has("mpty")).toBe(false);
  });

  test("joins a repeated header as fetch does", () => {
    expect(parseHead(withLines("a: 1", "b: x", "A: 2", "a:3")).get("a")).toBe("1, 2, 3");
  });

  test("preserves Latin-1 characters, including a no-break space at either end", () => {
    expect(parseHead(withLines("a: \xa0\xe9\xc9\xa0")).get("a")).toBe("\xa0\xe9\xc9\xa0");
  });

  test("does not find a header name inside a value", () => {
    expect(parseHead(withLines("a: b: c")).get("b")).toBeNull();
  });

  test("without a Content-Length has a body until the connection closes", () => {
    const head = parseHead(withLines("a: b"));
    expect([head.framing, head.keepsAlive]).toEqual([UNTIL_CLOSE, false]);
  });

  test("with Transfer-Encoding: chunked has a chunked body", () => {
    const head = parseHead(withLines("Transfer-Encoding: Chunked"));
    expect([head.framing, head.keepsAlive]).toEqual([CHUNKED, true]);
  });

  test("with chunks and a Content-Length uses the chunks, and the connection is not reused", () => {
    for (const lines of [
      ["content-length: 3", "transfer-encoding: chunked"],
      ["transfer-encoding: chunked", "content-length: 3"],
    ]) {
      const head = parseHead(withLines(...lines));
      expect([head.framing, head.keepsAlive]).toEqual([CHUNKED, false]);
    }
  });

  test("with a status without body ignores its framing headers", () => {
    for (const status of [100, 103, 204, 304]) {
      expect(parseHead(`HTTP/1.1 ${status} x\r\ncontent-length: 9\r\n\r\n`).framing).toBe(0);
      expect(parseHead(`HTTP/1.1 ${status} x\r\ntransfer-encoding: chunked\r\n\r\n`).framing).toBe(0);
    }
  });

  test("of HTTP/1.0 or with Connection: close ends the connection", () => {
    expect(parseHead("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n").keepsAlive).toBe(false);
    for (const value of ["close", "Close", "keep-alive, close", "x,close ,y"]) {
      expect(parseHead(withLines(`Connection: ${value}`, "content-length: 0")).keepsAlive).toBe(false);
    }
    for (const value of ["keep-alive", "Keep-Alive", "closed", "x"]) {
      expect(parseHead(withLines(`Connection: ${value}`, "content-length: 0")).keepsAlive).toBe(true);
    }
  });

  test("accepts the same Content-Length twice, and rejects two different ones", () => {
    expect(parseHead(withLines("content-length: 5", "Content-Length: 5")).framing).toBe(5);
    expect(parse(withLines("content-length: 5", "content-length: 6"))).toBeString();
  });

  test.each([
    ["another protocol", "SSH-2.0-OpenSSH_9.9\r\n\r\n"],
    ["HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"],
    ["HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n"],
    ["lower case", "http/1.1 200 OK\r\n\r\n"],
    ["an empty line before it", "\r\nHTTP/1.1 200 OK\r\n\r\n"],
    ["no status", "HTTP/1.1 OK fine\r\n\r\n"],
    ["a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"],
    ["an invalid status", "HTTP/1.1 099 OK\r\n\r\n"],
    ["another impossible status", "HTTP/1.1 600 OK\r\n\r\n"],
    ["a folded line", withLines("a: b", " c: d")],
    ["a folded line after a tab", withLines("a: b", "\tc: d")],
    ["a space before the colon", withLines("a : b")],
    ["a header without a name", withLines(": b")],
    ["a line without a colon", withLines("ab")],
    ["a NUL", withLines("a: b\0")],
    ["a NUL in the status line", "HTTP/1.1 200 O\0K\r\n\r\n"],
    ["a bare CR", withLines("a: b\rc: d")],
    ["a bare LF", withLines("a: b\nc: d")],
    ["only LF", "HTTP/1.1 200 OK\ncontent-length: 0\n\n"],
    ["a signed length", withLines("content-length: +5")],
    ["a negative length", withLines("content-length: -5")],
    ["a hexadecimal length", withLines("content-length: 0x5")],
    ["an empty length", withLines("content-length:")],
    ["a list of lengths", withLines("content-length: 5, 5")],
    ["a length above the maximum", withLines("content-length: 9999999999999999")],
    ["a length with a no-break space", withLines("content-length: 5\xa0")],
    ["another transfer encoding", withLines("transfer-encoding: gzip")],
    ["two transfer encodings", withLines("transfer-encoding: gzip, chunked")],
    ["chunked twice", withLines("transfer-encoding: chunked", "transfer-encoding: chunked")],
    ["a transfer encoding that only looks like chunked", withLines("transfer-encoding: \x0bchunked")],
  ])("is rejected with %s", (_name, text) => {
    expect(parse(text)).toBeString();
  });

  test("is incomplete at every cut, and never rejected", () => {
    const text = withLines("Content-Length: 5", "Connection: close", "transfer-encoding: chunked");
    for (let length = 0; length < text.length; length++) expect(parse(text.slice(0, length))).toBeNull();
    expect(parse(text)).toBeInstanceOf(ResponseHead);
  });

  test("never throws, on any input", () => {
    const fragments = fc.constantFrom(
      "HTTP/1.1 ",
      "200",
      " OK",
      "\r\n",
      "\r",
      "\n",
      ":",
      "content-length",
      "5",
      " ",
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(fragments, fc.string({ unit: "binary", maxLength: 3 }))), (parts) => {
        const result = parse(parts.join(""));
        expect(result === null || typeof result === "string" || result instanceof ResponseHead).toBe(true);
      }),
    );
  });
});
