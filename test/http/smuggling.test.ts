/**
 * Messages that two parsers could split differently (request smuggling): rejected, never sent upstream, and nothing
 * after them is processed.
 */

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { expectCutOff, rejectionIn } from "./expect-rejection.ts";
import {
  CHAT,
  chatBody,
  chunk,
  get,
  HOST,
  KEY,
  message,
  post,
  postChunked,
  postHead,
  TYPE,
} from "./messages.ts";
import { openRawClient } from "./raw-client.ts";
import { startServerForTests } from "./test-gateway.ts";

const BODY = chatBody();
const LENGTH = `Content-Length: ${BODY.length}`;
const CHUNKED = "Transfer-Encoding: chunked";
const WHOLE = chunk(BODY) + chunk("");

const server = startServerForTests({ models: { fast: "sim-fast" }, limits: { bodyIdleTimeoutMs: 500 } });
const arrived = () => server.gateway.simulator.ledger.totals().requests;

describe("rejected:", () => {
  let before = 0;
  beforeEach(() => {
    before = arrived();
  });

  afterEach(() => {
    expect(arrived()).toBe(before);
  });

  test.each([
    ["a length and chunks", [LENGTH, CHUNKED], WHOLE],
    ["chunks and a length", [CHUNKED, LENGTH], WHOLE],
    ["chunks and a length of zero", [CHUNKED, "Content-Length: 0"], WHOLE],
    ["two different lengths", [LENGTH, "Content-Length: 5"], BODY],
    ["two equal lengths", [LENGTH, LENGTH], BODY],
    ["a list of lengths", [`${LENGTH}, ${BODY.length}`], BODY],
    ["a list of lengths without a space", [`${LENGTH},${BODY.length}`], BODY],
    ["a length with a plus", [`Content-Length: +${BODY.length}`], BODY],
    ["a negative length", ["Content-Length: -1"], BODY],
    ["a length of minus zero", ["Content-Length: -0"], BODY],
    ["a length in hex", [`Content-Length: 0x${BODY.length.toString(16)}`], BODY],
    ["a length with a fraction", [`${LENGTH}.0`], BODY],
    ["a length with an exponent", [`${LENGTH}e0`], BODY],
    ["a length with a space in it", ["Content-Length: 5 5"], BODY],
    ["a length with a letter", [`${LENGTH}a`], BODY],
    ["a length in full-width digits", ["Content-Length: ６"], BODY],
    ["a length in quotes", [`Content-Length: "${BODY.length}"`], BODY],
    ["a length that is empty", ["Content-Length:"], BODY],
    ["a length beyond 64 bits", ["Content-Length: 18446744073709551616"], BODY],
    [
      "a length that overflows to the right one",
      [`Content-Length: ${2n ** 64n + BigInt(BODY.length)}`],
      BODY,
    ],
    ["a length beyond the safe integers", ["Content-Length: 9007199254740993"], BODY],
    ["a length of a thousand digits", [`Content-Length: ${"9".repeat(1_000)}`], BODY],
    ["a length with a space before the colon", [LENGTH.replace(":", " :")], BODY],
    ["a length on the next line", [`Content-Length:\r\n ${BODY.length}`], BODY],
    ["chunks with a space before the colon", [CHUNKED.replace(":", " :")], WHOLE],
    ["chunks on the next line", ["Transfer-Encoding:\r\n chunked"], WHOLE],
  ] as const)("%s", async (_, fields, body) => {
    await expectCutOff(server.gateway.url, postHead(...fields) + body, 400);
  });

  test.each([
    ["of another name", ["xchunked"]],
    ["with a suffix", ["chunkedx"]],
    ["with a parameter", ["chunked;q=1"]],
    ["with a NUL", ["chunked\0"]],
    ["with a vertical tab", ["\u000bchunked"]],
    ["in quotes", ['"chunked"']],
    ["repeated in one field", ["chunked, chunked"]],
    ["twice", ["chunked", "chunked"]],
    ["after another one", ["gzip, chunked"]],
    ["before another one", ["chunked, gzip"]],
    ["followed by another one in a second field", ["chunked", "identity"]],
    ["preceded by another one in another field", ["identity", "chunked"]],
    ["followed by an empty one", ["chunked,"]],
    ["with an empty value", [""]],
    ["of identity", ["identity"]],
    ["that is unsupported", ["gzip"]],
  ])("a transfer coding %s", async (_, codings) => {
    const fields = codings.map((coding) => `Transfer-Encoding: ${coding}`);
    await expectCutOff(server.gateway.url, postHead(...fields) + WHOLE, 400, 501);
  });

  test("chunks in HTTP/1.0", async () => {
    await expectCutOff(server.gateway.url, postChunked([BODY]).replace("HTTP/1.1", "HTTP/1.0"), 400, 501);
  });

  const size = BODY.length.toString(16);
  test.each([
    ["no size", `\r\n${BODY}\r\n`],
    ["a size that is not a number", `zz\r\n${BODY}\r\n`],
    ["a size with a plus", `+${size}\r\n${BODY}\r\n`],
    ["a size with a minus", `-${size}\r\n${BODY}\r\n`],
    ["a size with the prefix 0x", `0x${size}\r\n${BODY}\r\n`],
    ["a space before its size", ` ${size}\r\n${BODY}\r\n`],
    ["a space after its size", `${size} \r\n${BODY}\r\n`],
    ["a size with an underscore", `0_${size}\r\n${BODY}\r\n`],
    ["a size with a NUL", `${size}\0\r\n${BODY}\r\n`],
    ["a size beyond 64 bits that overflows", `1${size.padStart(16, "0")}\r\n${BODY}\r\n`],
    ["a size of a thousand digits", `${"f".repeat(1_000)}\r\n${BODY}\r\n`],
    ["a bare LF after its size", `${size}\n${BODY}\r\n`],
    ["a bare CR after its size", `${size}\r${BODY}\r\n`],
    ["a bare LF within an extension", `${size};a\nb\r\n${BODY}\r\n`],
    ["a bare LF after its data", `${size}\r\n${BODY}\n`],
    ["nothing after its data", `${size}\r\n${BODY}`],
    ["one byte too many", `${size}\r\n${BODY} \r\n`],
    ["one byte too few", `${size}\r\n${BODY.slice(1)}\r\n`],
    ["an endless extension", `${size};${"a".repeat(1024 * 1024)}`],
  ])("a chunk with %s", async (_, broken) => {
    await expectCutOff(server.gateway.url, `${postHead(CHUNKED)}${broken}${chunk("")}`, 400, 413, 431);
  });

  test.each([
    ["after a bare LF", "0\n\r\n"],
    ["ended by a bare LF", "0\r\n\n"],
    ["ended by a bare CR", "0\r\n\rX"],
    ["with a control character", "0\r\nX-A: b\0\r\n\r\n"],
    ["with a field without a colon", "0\r\nX-A\r\n\r\n"],
    ["with a space before a field's colon", "0\r\nX-A : b\r\n\r\n"],
    ["with a folded field", "0\r\nX-A: b\r\n c\r\n\r\n"],
    ["with a Content-Length", "0\r\nContent-Length: 5\r\n\r\n"],
    ["with a Transfer-Encoding", "0\r\nTransfer-Encoding: chunked\r\n\r\n"],
    ["with a Host", "0\r\nHost: elsewhere\r\n\r\n"],
    ["with a request instead of a field", `0\r\n${get("/v1/models")}`],
    ["with endless headers", `0\r\n${"X-A: bbbbbbbb\r\n".repeat(100_000)}`],
    ["with an endless header", `0\r\nX-A: ${"b".repeat(1024 * 1024)}`],
  ])("a chunked trailer %s", async (_, end) => {
    await expectCutOff(server.gateway.url, `${postHead(CHUNKED)}${chunk(BODY)}${end}`, 400, 413, 431);
  });

  test("chunks with many extensions", async () => {
    const crumbs = `1;${"a".repeat(200)}\r\n \r\n`.repeat(50_000);
    rejectionIn(await server.sendAlone(`${postHead(CHUNKED)}${crumbs}${WHOLE}`), 400, 413, 431);
  });

  test("a chunk size that would be right in 32 bits", async () => {
    const body = `1${size.padStart(8, "0")}\r\n${BODY}\r\n${chunk("")}`;
    rejectionIn(await server.sendAlone(postHead(CHUNKED) + body), 400, 408, 413);
  });

  test("a key in the trailer", async () => {
    const head = message(`POST ${CHAT} HTTP/1.1`, [HOST, TYPE, CHUNKED]);
    rejectionIn(await server.sendAlone(`${head}${chunk(BODY)}0\r\n${KEY}\r\n\r\n`), 401);
  });

  test.each([
    [
      "with a length",
      (inner: string) => message(`POST ${CHAT} HTTP/1.1`, [HOST, `Content-Length: ${inner.length}`], inner),
    ],
    [
      "in chunks",
      (inner: string) => message(`POST ${CHAT} HTTP/1.1`, [HOST, CHUNKED], chunk(inner) + chunk("")),
    ],
  ])("a request within the body of a rejected one, %s", async (_, wrap) => {
    const client = await openRawClient(server.gateway.url);
    await client.send(wrap(post(BODY)) + get("/v1/models"));
    rejectionIn(await client.readResponse(), 401);
    // After the body comes a request or the end of the connection; the content of the body is neither.
    const next = await client.next();
    if (typeof next !== "string") {
      expect(JSON.parse(next.body.toString())).toMatchObject({ object: "list" });
      await client.send(get("/healthz"));
      expect((await client.readResponse()).body.toString()).toBe('{"status":"ok"}');
    }
    client.close("fin");
  });
});

describe("accepted:", () => {
  test.each([
    ["a length with spaces around it", postHead(`Content-Length: \t ${BODY.length} \t`) + BODY],
    [
      "a size in capitals",
      `${postHead(CHUNKED)}${BODY.length.toString(16).toUpperCase()}\r\n${BODY}\r\n${chunk("")}`,
    ],
    ["a size with leading zeros", `${postHead(CHUNKED)}000${chunk(BODY)}000\r\n\r\n`],
    ["a coding in capitals", postHead("Transfer-Encoding: Chunked") + WHOLE],
    [
      "chunk extensions",
      `${postHead(CHUNKED)}${chunk(BODY).replace("\r\n", ';a;b=c;d="e f"\r\n')}0;z\r\n\r\n`,
    ],
    ["trailers", `${postHead(CHUNKED)}${chunk(BODY)}0\r\nX-Sum: 5\r\nX-Other: 6\r\n\r\n`],
    [
      "trailers that matter only in the head",
      `${postHead(CHUNKED)}${chunk(BODY)}0\r\nConnection: close\r\nAuthorization: no\r\n\r\n`,
    ],
  ])("%s", async (_, request) => {
    const client = await openRawClient(server.gateway.url);
    const count = arrived();
    await client.send(request);
    expect((await client.readResponse()).status).toBe(200);
    expect(arrived()).toBe(count + 1);
    const { ledger } = server.gateway.simulator;
    const body = Buffer.from(ledger.findBody(ledger.last()?.id ?? "") ?? []).toString();
    expect(body).toBe(BODY.replace('"fast"', '"sim-fast"'));
    await client.send(get("/healthz"));
    expect((await client.readResponse()).status).toBe(200);
    client.close("fin");
  });
});
