/** Messages that two readers could cut differently: refused, never sent upstream, and nothing behind them is heard. */

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { openDoor } from "./door.ts";
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
import { openWire } from "./raw-client.ts";
import { expectCutOff, refusalIn } from "./refusals.ts";

const BODY = chatBody();
const LENGTH = `Content-Length: ${BODY.length}`;
const CHUNKED = "Transfer-Encoding: chunked";
const WHOLE = chunk(BODY) + chunk("");

const door = openDoor({ models: { fast: "sim-fast" }, limits: { bodyIdleTimeoutMs: 500 } });
const arrived = () => door.gateway.simulator.ledger.totals().requests;

describe("what is refused:", () => {
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
    ["chunks and a length of nothing", [CHUNKED, "Content-Length: 0"], WHOLE],
    ["two lengths that differ", [LENGTH, "Content-Length: 5"], BODY],
    ["two lengths that do not", [LENGTH, LENGTH], BODY],
    ["a list of lengths", [`${LENGTH}, ${BODY.length}`], BODY],
    ["a list of lengths without a space", [`${LENGTH},${BODY.length}`], BODY],
    ["a length with a plus", [`Content-Length: +${BODY.length}`], BODY],
    ["a length below nothing", ["Content-Length: -1"], BODY],
    ["a length of minus nothing", ["Content-Length: -0"], BODY],
    ["a length in hex", [`Content-Length: 0x${BODY.length.toString(16)}`], BODY],
    ["a length with a fraction", [`${LENGTH}.0`], BODY],
    ["a length with an exponent", [`${LENGTH}e0`], BODY],
    ["a length with a space in it", ["Content-Length: 5 5"], BODY],
    ["a length with a letter", [`${LENGTH}a`], BODY],
    ["a length in other digits", ["Content-Length: ６"], BODY],
    ["a length in quotes", [`Content-Length: "${BODY.length}"`], BODY],
    ["a length that is empty", ["Content-Length:"], BODY],
    ["a length beyond 64 bits", ["Content-Length: 18446744073709551616"], BODY],
    [
      "a length that wraps around to the right one",
      [`Content-Length: ${2n ** 64n + BigInt(BODY.length)}`],
      BODY,
    ],
    ["a length beyond what numbers hold", ["Content-Length: 9007199254740993"], BODY],
    ["a length of a thousand digits", [`Content-Length: ${"9".repeat(1_000)}`], BODY],
    ["a length before whose colon a space stands", [LENGTH.replace(":", " :")], BODY],
    ["a length on the next line", [`Content-Length:\r\n ${BODY.length}`], BODY],
    ["chunks before whose colon a space stands", [CHUNKED.replace(":", " :")], WHOLE],
    ["chunks on the next line", ["Transfer-Encoding:\r\n chunked"], WHOLE],
  ] as const)("%s", async (_, fields, body) => {
    await expectCutOff(door.gateway.url, postHead(...fields) + body, 400);
  });

  test.each([
    ["of another name", ["xchunked"]],
    ["of more than its name", ["chunkedx"]],
    ["with a parameter", ["chunked;q=1"]],
    ["with a NUL", ["chunked\0"]],
    ["with a vertical tab", ["\u000bchunked"]],
    ["in quotes", ['"chunked"']],
    ["twice in one", ["chunked, chunked"]],
    ["twice", ["chunked", "chunked"]],
    ["and another in front of it", ["gzip, chunked"]],
    ["and another behind it", ["chunked, gzip"]],
    ["and another on its own line", ["chunked", "identity"]],
    ["and another on a line before", ["identity", "chunked"]],
    ["and nothing", ["chunked,"]],
    ["of nothing", [""]],
    ["that is none", ["identity"]],
    ["that we do not know", ["gzip"]],
  ])("a coding %s", async (_, codings) => {
    const fields = codings.map((coding) => `Transfer-Encoding: ${coding}`);
    await expectCutOff(door.gateway.url, postHead(...fields) + WHOLE, 400, 501);
  });

  test("chunks in 1.0", async () => {
    await expectCutOff(door.gateway.url, postChunked([BODY]).replace("HTTP/1.1", "HTTP/1.0"), 400, 501);
  });

  const size = BODY.length.toString(16);
  test.each([
    ["no size", `\r\n${BODY}\r\n`],
    ["a size that is no number", `zz\r\n${BODY}\r\n`],
    ["a size with a plus", `+${size}\r\n${BODY}\r\n`],
    ["a size with a minus", `-${size}\r\n${BODY}\r\n`],
    ["a size that says it is hex", `0x${size}\r\n${BODY}\r\n`],
    ["a space before its size", ` ${size}\r\n${BODY}\r\n`],
    ["a space behind its size", `${size} \r\n${BODY}\r\n`],
    ["a size with an underscore", `0_${size}\r\n${BODY}\r\n`],
    ["a size with a NUL", `${size}\0\r\n${BODY}\r\n`],
    ["a size beyond 64 bits that wraps around", `1${size.padStart(16, "0")}\r\n${BODY}\r\n`],
    ["a size of a thousand digits", `${"f".repeat(1_000)}\r\n${BODY}\r\n`],
    ["a bare LF behind its size", `${size}\n${BODY}\r\n`],
    ["a bare CR behind its size", `${size}\r${BODY}\r\n`],
    ["a bare LF within an extension", `${size};a\nb\r\n${BODY}\r\n`],
    ["a bare LF behind its bytes", `${size}\r\n${BODY}\n`],
    ["nothing behind its bytes", `${size}\r\n${BODY}`],
    ["a byte too many", `${size}\r\n${BODY} \r\n`],
    ["a byte too few", `${size}\r\n${BODY.slice(1)}\r\n`],
    ["an extension that does not end", `${size};${"a".repeat(1024 * 1024)}`],
  ])("a chunk with %s", async (_, broken) => {
    await expectCutOff(door.gateway.url, `${postHead(CHUNKED)}${broken}${chunk("")}`, 400, 413, 431);
  });

  test.each([
    ["behind a bare LF", "0\n\r\n"],
    ["ended by a bare LF", "0\r\n\n"],
    ["ended by a bare CR", "0\r\n\rX"],
    ["with a control character", "0\r\nX-A: b\0\r\n\r\n"],
    ["with a field without a colon", "0\r\nX-A\r\n\r\n"],
    ["with a space before a field's colon", "0\r\nX-A : b\r\n\r\n"],
    ["with a folded field", "0\r\nX-A: b\r\n c\r\n\r\n"],
    ["with another length", "0\r\nContent-Length: 5\r\n\r\n"],
    ["with another coding", "0\r\nTransfer-Encoding: chunked\r\n\r\n"],
    ["with another host", "0\r\nHost: elsewhere\r\n\r\n"],
    ["with a request in place of a field", `0\r\n${get("/v1/models")}`],
    ["with headers that do not end", `0\r\n${"X-A: bbbbbbbb\r\n".repeat(100_000)}`],
    ["with a header that does not end", `0\r\nX-A: ${"b".repeat(1024 * 1024)}`],
  ])("an end of chunks %s", async (_, end) => {
    await expectCutOff(door.gateway.url, `${postHead(CHUNKED)}${chunk(BODY)}${end}`, 400, 413, 431);
  });

  test("chunks with very many extensions", async () => {
    const crumbs = `1;${"a".repeat(200)}\r\n \r\n`.repeat(50_000);
    refusalIn(await door.answerTo(`${postHead(CHUNKED)}${crumbs}${WHOLE}`), 400, 413, 431);
  });

  test("a chunk whose size would be the right one in 32 bits", async () => {
    const body = `1${size.padStart(8, "0")}\r\n${BODY}\r\n${chunk("")}`;
    refusalIn(await door.answerTo(postHead(CHUNKED) + body), 400, 408, 413);
  });

  test("a key that comes behind the body", async () => {
    const head = message(`POST ${CHAT} HTTP/1.1`, [HOST, TYPE, CHUNKED]);
    refusalIn(await door.answerTo(`${head}${chunk(BODY)}0\r\n${KEY}\r\n\r\n`), 401);
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
  ])("a request within the body of one that was refused, %s", async (_, wrap) => {
    const client = await openWire(door.gateway.url);
    await client.send(wrap(post(BODY)) + get("/v1/models"));
    refusalIn(await client.answer(), 401);
    // What stands behind the body is a request or the connection is over; what stands in it is neither.
    const next = await client.next();
    if (typeof next !== "string") {
      expect(JSON.parse(next.body.toString())).toMatchObject({ object: "list" });
      await client.send(get("/healthz"));
      expect((await client.answer()).body.toString()).toBe('{"status":"ok"}');
    }
    client.leave("fin");
  });
});

describe("what is taken:", () => {
  test.each([
    ["a length with spaces around it", postHead(`Content-Length: \t ${BODY.length} \t`) + BODY],
    [
      "a size in capitals",
      `${postHead(CHUNKED)}${BODY.length.toString(16).toUpperCase()}\r\n${BODY}\r\n${chunk("")}`,
    ],
    ["a size with noughts", `${postHead(CHUNKED)}000${chunk(BODY)}000\r\n\r\n`],
    ["a coding in capitals", postHead("Transfer-Encoding: Chunked") + WHOLE],
    [
      "extensions of chunks",
      `${postHead(CHUNKED)}${chunk(BODY).replace("\r\n", ';a;b=c;d="e f"\r\n')}0;z\r\n\r\n`,
    ],
    ["headers behind the body", `${postHead(CHUNKED)}${chunk(BODY)}0\r\nX-Sum: 5\r\nX-Other: 6\r\n\r\n`],
    [
      "headers behind the body that matter only before it",
      `${postHead(CHUNKED)}${chunk(BODY)}0\r\nConnection: close\r\nAuthorization: no\r\n\r\n`,
    ],
  ])("%s", async (_, request) => {
    const client = await openWire(door.gateway.url);
    const count = arrived();
    await client.send(request);
    expect((await client.answer()).status).toBe(200);
    expect(arrived()).toBe(count + 1);
    const { ledger } = door.gateway.simulator;
    const body = Buffer.from(ledger.bodyOf(ledger.last()?.id ?? "") ?? []).toString();
    expect(body).toBe(BODY.replace('"fast"', '"sim-fast"'));
    await client.send(get("/healthz"));
    expect((await client.answer()).status).toBe(200);
    client.leave("fin");
  });
});
