import { describe, expect, test } from "bun:test";
import { wholePart } from "../../base/parts.ts";
import type { OutgoingRequest } from "./contract.ts";
import { buildHead, encodeHead, findHeadFault } from "./request-head.ts";

const target = { origin: "http://127.0.0.1:1", hostHeader: null, tls: null };
const request = (given: Partial<OutgoingRequest>): OutgoingRequest => ({
  target,
  method: "POST",
  path: "/v1/x",
  headers: "a: b\r\n",
  body: null,
  ...given,
});

const encodeText = (asked: OutgoingRequest, hostLine: string) =>
  Buffer.from(encodeHead(buildHead(asked, hostLine))).toString("latin1");

const readStart = (asked: OutgoingRequest) => buildHead(asked, "host: h\r\n").start;
const body = wholePart(Buffer.from("{}"));

describe("a request head", () => {
  test("consists of the request line, the host, the header lines and the framing", () => {
    expect(encodeText(request({ body: wholePart(Buffer.from("abc")) }), "host: h\r\n")).toBe(
      "POST /v1/x HTTP/1.1\r\nhost: h\r\na: b\r\ncontent-length: 3\r\n\r\n",
    );
  });

  test("is not cached without a body or if it is long", () => {
    const bare = request({ path: "/v1/responses/resp_1" });
    expect(readStart(bare)).not.toBe(readStart(bare));
    const long = request({ body, headers: `a: ${"b".repeat(3_000)}\r\n` });
    expect(readStart(long)).not.toBe(readStart(long));
  });

  test("is cached for the latest thousand", () => {
    const first = readStart(request({ body, path: "/v1/first" }));
    for (let i = 0; i < 1_000; i++)
      readStart(request({ body, path: `/v1/${i}`, headers: `a: ${i % 7}\r\n` }));
    expect(readStart(request({ body, path: "/v1/first" }))).not.toBe(first);
  });

  test("is built again if any part differs", () => {
    expect(readStart(request({ body }))).toBe(readStart(request({ body })));
    const others = [
      encodeText(request({ method: "DELETE" }), "host: h\r\n"),
      encodeText(request({ path: "/v1/y" }), "host: h\r\n"),
      encodeText(request({ headers: "" }), "host: h\r\n"),
      encodeText(request({}), "host: i\r\n"),
      encodeText(request({}), "host: h\r\n"),
    ];
    expect(others).toEqual([
      "DELETE /v1/x HTTP/1.1\r\nhost: h\r\na: b\r\n\r\n",
      "POST /v1/y HTTP/1.1\r\nhost: h\r\na: b\r\ncontent-length: 0\r\n\r\n",
      "POST /v1/x HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n",
      "POST /v1/x HTTP/1.1\r\nhost: i\r\na: b\r\ncontent-length: 0\r\n\r\n",
      "POST /v1/x HTTP/1.1\r\nhost: h\r\na: b\r\ncontent-length: 0\r\n\r\n",
    ]);
  });

  test("announces an empty body for POST only", () => {
    expect(encodeText(request({}), "")).toContain("content-length: 0\r\n");
    expect(encodeText(request({ method: "GET" }), "")).toBe("GET /v1/x HTTP/1.1\r\na: b\r\n\r\n");
  });

  test("announces chunks for a stream of unknown length", () => {
    const open = () => new ReadableStream<Uint8Array>();
    expect(encodeText(request({ body: { contentLength: null, open } }), "")).toContain(
      "transfer-encoding: chunked",
    );
    expect(encodeText(request({ body: { contentLength: 7, open } }), "")).toContain("content-length: 7");
  });

  test.each(["/", "/v1/models?x=%20&y=~"])("accepts the path %j", (path) => {
    expect(findHeadFault(request({ path }))).toBeNull();
  });

  test.each(["", "x", "/a b", "/a\r\nb: c", "/a\nb", "/a\tb", "/a\0", "/é", "/a\u010ab"])(
    "rejects the path %j",
    (path) => {
      expect(findHeadFault(request({ path }))).toBeString();
    },
  );

  test.each(["", "a: b\r\n", "a:\r\n", "a: é\xff\t\r\nb: c\r\n"])(
    "accepts the header lines %j",
    (headers) => {
      expect(findHeadFault(request({ headers }))).toBeNull();
    },
  );

  test.each([
    "a: b",
    "a: b\n",
    "a: b\r",
    "a: b\r\n\r\n",
    "\r\na: b\r\n",
    "a: b\nc: d\r\n",
    "a: b\rc: d\r\n",
    "a: \0\r\n",
    "a : b\r\n",
    " a: b\r\n",
    ": b\r\n",
    "ab\r\n",
    "a: \u010ac: d\r\n",
  ])("rejects the header lines %j", (headers) => {
    expect(findHeadFault(request({ headers }))).toBeString();
  });
});
