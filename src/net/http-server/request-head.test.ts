import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { CHUNKED } from "../wire/http-fields.ts";
import { parseRequestHead, type RequestFault, RequestHead } from "./request-head.ts";

const HEAD_BYTES_MAX = 16_384;
const parse = (text: string) => parseRequestHead(Buffer.from(text, "latin1"), 0, HEAD_BYTES_MAX);

function parseHead(text: string): RequestHead {
  const head = parse(text);
  if (!(head instanceof RequestHead)) throw new Error(`no head: ${JSON.stringify(head)}`);
  return head;
}

function findFault(text: string): RequestFault | null {
  const head = parse(text);
  if (head instanceof RequestHead) throw new Error("a proper head");
  return head;
}

const asking = (line: string, ...fields: string[]) => `${[line, ...fields, "", ""].join("\r\n")}`;
const posting = (...fields: string[]) => asking("POST /v1/responses HTTP/1.1", "Host: gw", ...fields);

describe("a request head", () => {
  test("contains the method, the target and the start of the body", () => {
    const text = asking("POST /v1/models?a=%20b HTTP/1.1", "Host: gw.example:8080", "Content-Length: 42");
    const head = parseHead(`${text}rest`);
    expect(head).toMatchObject({ options: { method: "POST", target: "/v1/models?a=%20b" }, framing: 42 });
    expect(head.bodyAt).toBe(text.length);
  });

  test("may begin anywhere in the bytes", () => {
    const text = posting("X-A: 1");
    const head = parseRequestHead(Buffer.from(`before${text}`), 6, HEAD_BYTES_MAX);
    expect(head).toMatchObject({ options: { method: "POST" }, bodyAt: 6 + text.length });
    expect(head instanceof RequestHead && head.options.headers.get("x-a")).toBe("1");
  });

  test.each([
    ["no body", [], 0],
    ["an empty one", ["content-length: 0"], 0],
    ["one of known length", ["content-length: 7"], 7],
    ["one in chunks", ["transfer-encoding: chunked"], CHUNKED],
  ])("announces its body framing: %s", (_name, fields, framing) => {
    expect(parseHead(posting(...fields)).framing).toBe(framing);
  });

  test.each([
    ["HTTP/1.1", [], true],
    ["HTTP/1.1", ["connection: close"], false],
    ["HTTP/1.1", ["connection: keep-alive"], true],
    ["HTTP/1.0", [], false],
    ["HTTP/1.0", ["connection: keep-alive"], true],
    ["HTTP/1.0", ["connection: keep-alive, close"], false],
  ])("of %s with %p keeps the connection alive: %p", (version, fields, keepsAlive) => {
    const { options } = parseHead(asking(`GET / ${version}`, "host: gw", ...fields));
    expect([options.keepsAlive, options.isHttp10]).toEqual([keepsAlive, version === "HTTP/1.0"]);
  });

  test("needs no Host in HTTP/1.0", () => {
    expect(parseHead("GET / HTTP/1.0\r\n\r\n").options.isHttp10).toBe(true);
  });

  test.each(["gw", "gw.example", "gw.example:8080", "127.0.0.1:80", "[::1]", "[::1]:8080", "a_b-c~d"])(
    "accepts the host %p",
    (host) => {
      expect(parseHead(asking("GET / HTTP/1.1", `Host: ${host}`)).options.headers.get("host")).toBe(host);
    },
  );

  test("reports Expect: 100-continue, except in HTTP/1.0", () => {
    expect(parseHead(posting("Expect: 100-Continue")).options.expectsContinue).toBe(true);
    expect(parseHead(posting()).options.expectsContinue).toBe(false);
    expect(parseHead(asking("GET / HTTP/1.0", "Expect: 100-continue")).options.expectsContinue).toBe(false);
  });

  test("blanks the value of Content-Length, which is only used for framing", () => {
    const { options, framing, lengthAt } = parseHead(posting("Content-Length: 007 ", "X-A: 1"));
    expect([framing, options.headers.get("content-length"), options.headers.get("x-a")]).toEqual([
      7,
      "",
      "1",
    ]);
    expect(posting("Content-Length: 007 ").slice(lengthAt)).toStartWith("007 ");
  });

  test("may have 128 header lines", () => {
    const fields = Array.from({ length: 127 }, (_, i) => `x-${i}: 1`);
    expect(parseHead(posting(...fields)).options.headers.get("x-126")).toBe("1");
    expect(findFault(posting(...fields, "x-127: 1"))?.kind).toBe("head_too_large");
  });
});

describe("a request is rejected", () => {
  test.each([
    ["without a method", " / HTTP/1.1"],
    ["with a method that is not a token", "G(T / HTTP/1.1"],
    ["with a TLS handshake", "\x16\x03\x01\x02\x00\x01"],
    ["with a tab after the method", "GET\t/ HTTP/1.1"],
    ["with two spaces after the method", "GET  / HTTP/1.1"],
    ["with two spaces after the path", "GET /  HTTP/1.1"],
    ["with a space in the path", "GET /a b HTTP/1.1"],
    ["with a non-ASCII character in the path", "GET /\xe9 HTTP/1.1"],
    ["with a control character in the path", "GET /\x01 HTTP/1.1"],
    ["with a DEL in the path", "GET /\x7f HTTP/1.1"],
    ["of HTTP/0.9", "GET /"],
    ["with the target *", "OPTIONS * HTTP/1.1"],
    ["with an authority as target", "CONNECT example.com:443 HTTP/1.1"],
    ["with an absolute URL, as sent to proxies", "GET http://example.com/v1/models HTTP/1.1"],
    ["with an absolute URL in capitals", "GET HTTPS://example.com HTTP/1.1"],
    ["with a URL of another scheme", "GET ftp://example.com/ HTTP/1.1"],
    ["with a URL without a host", "GET http:///a HTTP/1.1"],
    ["with a version in lower case", "GET / http/1.1"],
    ["with a space after the version", "GET / HTTP/1.1 "],
    ["with a longer version", "GET / HTTP/1.10"],
    ["with LF alone after the request line", "GET / HTTP/1.1\nHost: gw"],
  ])("%s", (_name, line) => {
    expect(findFault(asking(line, "Host: gw"))).toMatchObject({ kind: "malformed" });
  });

  test.each([
    ["no Host", []],
    ["two Hosts", ["Host: gw", "Host: gw"]],
    ["an empty one", ["Host:"]],
    ["a list", ["Host: a, b"]],
    ["a path in it", ["Host: a/b"]],
    ["a user name in it", ["Host: me@a"]],
    ["an invalid port", ["Host: a:b"]],
    ["an incomplete IPv6 address", ["Host: [::1"]],
  ])("with an invalid Host: %s", (_name, fields) => {
    expect(findFault(asking("GET / HTTP/1.1", ...fields))).toMatchObject({ kind: "malformed" });
  });

  test.each([
    ["a length and chunks", ["content-length: 3", "transfer-encoding: chunked"]],
    ["chunks and a length", ["transfer-encoding: chunked", "content-length: 0"]],
    ["the same length twice", ["content-length: 3", "content-length: 3"]],
    ["two lengths", ["content-length: 3", "content-length: 4"]],
    ["an unknown coding", ["transfer-encoding: gzip, chunked"]],
    ["a space before a colon", ["transfer-encoding : chunked"]],
    ["a folded line", ["a: b", " transfer-encoding: chunked"]],
  ])("with ambiguous body framing: %s", (_name, fields) => {
    expect(findFault(posting(...fields))).toMatchObject({ kind: "malformed" });
  });

  test("with chunks in HTTP/1.0", () => {
    const text = asking("POST / HTTP/1.0", "transfer-encoding: chunked");
    expect(findFault(text)).toMatchObject({ kind: "malformed" });
  });

  test.each(["HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "HTTP/11."])("with the version %s, by name", (version) => {
    expect(findFault(asking(`GET / ${version}`, "Host: gw"))).toMatchObject({ kind: "version" });
  });

  test("with an HTTP/2 preface, by name", () => {
    expect(findFault("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")).toMatchObject({ kind: "version" });
  });

  test.each(["200-ok", "", "100-continue, 100-continue"])("that expects %p", (expectation) => {
    expect(findFault(posting(`Expect: ${expectation}`))).toMatchObject({ kind: "expectation" });
  });

  test("for an invalid Host even after requests with a valid one", () => {
    expect(parseHead(posting()).options.headers.get("host")).toBe("gw");
    expect(findFault(asking("GET / HTTP/1.1", "Host: g w"))).toMatchObject({ kind: "malformed" });
  });
});

describe("a request head in arbitrary bytes", () => {
  const text = posting("Content-Length: 3", "X-A: b", "Expect: 100-continue");

  test("is incomplete until its last byte", () => {
    for (let to = 0; to < text.length; to++) expect(parse(text.slice(0, to))).toBeNull();
    expect(parseHead(text).bodyAt).toBe(text.length);
  });

  test("with any change is parsed, incomplete or rejected, and never throws", () => {
    const byte = fc.nat({ max: 255 }).map((code) => String.fromCharCode(code));
    const put = fc.string({ unit: fc.oneof(byte, fc.constantFrom("\r\n", " ", ":", "/")), maxLength: 4 });
    const change = fc.tuple(fc.nat({ max: text.length }), fc.nat({ max: 3 }), put);
    fc.assert(
      fc.property(fc.array(change, { maxLength: 4 }), (changes) => {
        let changed = text;
        for (const [at, taken, added] of changes) {
          changed = changed.slice(0, at) + added + changed.slice(at + taken);
        }
        const head = parse(changed);
        if (head instanceof RequestHead) {
          expect(head.bodyAt).toBeLessThanOrEqual(changed.length);
          expect(head.options.target).toStartWith("/");
        } else if (head !== null) expect(head.reason).not.toBe("");
      }),
      { numRuns: 1_000 },
    );
  });

  test("that is rejected at its end was rejected or incomplete before", () => {
    fc.assert(
      fc.property(fc.nat({ max: text.length - 1 }), fc.nat({ max: 255 }), (at, byte) => {
        const changed = text.slice(0, at) + String.fromCharCode(byte) + text.slice(at + 1);
        const isRejected = !(parse(changed) instanceof RequestHead);
        for (let to = 0; isRejected && to < changed.length; to++) {
          expect(parse(changed.slice(0, to))).not.toBeInstanceOf(RequestHead);
        }
      }),
    );
  });
});
