/** Bytes that arrive in pieces of a few bytes: what is unfinished is not read again for each piece. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { encodeEventFrame } from "../../simulator/cloud/encode-event-frame.ts";
import { UpstreamSocket } from "../../src/accounts/websocket/upstream-socket.ts";
import { systemClock } from "../../src/base/clock.ts";
import { openDeadlines } from "../../src/base/deadlines.ts";
import { wholeBytesPart } from "../../src/base/parts.ts";
import { responseBounds } from "../../src/count-limits.ts";
import { ClientConnectionSocket } from "../../src/net/http-client/connection.ts";
import { FrameReader } from "../../src/net/websocket/frames.ts";
import { FrameSplitter } from "../../src/net/wire/event-frames.ts";
import { FramedBody } from "../../src/net/wire/framed-body.ts";
import { CHUNKED } from "../../src/net/wire/http-fields.ts";
import { MultipartParser } from "../../src/net/wire/multipart.ts";
import { SseSplitter } from "../../src/net/wire/sse.ts";
import { measureOwnWork } from "./own-work.ts";

setDefaultTimeout(120_000);

const KIB = 1024;
const MIB = 1024 * KIB;
/** Three doublings. Linear work grows by 8, quadratic by 64. */
const FACTOR = 8;
const GROWTH_MAX = 2.6 ** 3;
const RUNS = 5;
const ATTEMPTS = 4;
const NOISE_MS = 1.5;

function* split(bytes: Buffer, pieceBytes: number): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield Buffer.copyBytesFrom(bytes, at, pieceBytes);
}

const boundary = "a-boundary";
const multipartForm = (bytes: number, content: string) =>
  Buffer.from(
    `--${boundary}\r\ncontent-disposition: form-data; name="a"\r\n\r\n${content.repeat(bytes / content.length)}\r\n--${boundary}--\r\n`,
  );
interface Case {
  readonly pieceBytes: number;
  /** Of the larger size. */
  readonly bytes: number;
  build(bytes: number): Buffer;
  read(pieces: Iterable<Buffer>): void;
}

function readEvents(pieces: Iterable<Buffer>): void {
  const splitter = new SseSplitter({ eventBytesMax: 16 * MIB, eventLinesMax: responseBounds.eventLinesMax });
  let events = 0;
  for (const piece of pieces) splitter.push(wholeBytesPart(piece), () => void events++);
  expect(events).toBe(1);
}

function readFrames(pieces: Iterable<Buffer>): void {
  const splitter = new FrameSplitter({
    frameBytesMax: 16 * MIB,
    headersMax: responseBounds.frameHeadersMax,
  });
  let frames = 0;
  for (const piece of pieces) splitter.push(wholeBytesPart(piece), () => void frames++);
  expect(frames).toBe(1);
}

function readForm(pieces: Iterable<Buffer>): void {
  const parser = new MultipartParser<never>(
    boundary,
    { partsMax: 8, headerBytesMax: 8 * KIB },
    { startPart: () => null, addContent: () => null, endPart: () => null },
  );
  for (const piece of pieces) parser.push(piece);
  parser.end();
}

function readMessage(pieces: Iterable<Buffer>): void {
  const reader = new FrameReader({ isMasked: false, messageBytesMax: 16 * MIB });
  let messages = 0;
  const handler = { onMessage: () => void messages++, onControl() {} };
  for (const piece of pieces) expect(reader.push(piece, handler)).toBeNull();
  expect(messages).toBe(1);
}

function readChunks(pieces: Iterable<Buffer>): void {
  const body = new FramedBody(CHUNKED, true);
  for (const piece of pieces) {
    body.at = 0;
    while (body.next(piece) !== null) {}
  }
  expect([body.hasEnded, body.fault]).toEqual([true, null]);
}

const deadlines = openDeadlines(5, systemClock);

/** The response to the handshake of a WebSocket. The connection is never opened. */
function readHandshake(pieces: Iterable<Buffer>): void {
  const slot = { hostname: "127.0.0.1", port: 1, tls: null, idle: [] };
  let statuses = 0;
  const connections = {
    resolveRoute: () => ({ slot, hostLine: "" }),
    takeIdle: () => null,
    open: (_: unknown, user: ConstructorParameters<typeof ClientConnectionSocket>[1]) =>
      new ClientConnectionSocket(slot, user, deadlines, 60_000),
    returnIdle() {},
    close() {},
  };
  const socket = new UpstreamSocket(
    {
      connections,
      deadlines,
      monotonicMs: systemClock.monotonicMs,
      headBytesMax: MIB,
      messageBytesMax: MIB,
      errorBytesMax: MIB,
      handshakeTimeoutMs: 60_000,
    },
    { route: connections.resolveRoute(), path: "/", headers: "" },
    { onOpen() {}, onReject: () => void statuses++, onMessage() {}, onReadEnd() {}, onClose() {} },
  );
  const connection = connections.open(slot, socket);
  for (const piece of pieces) socket.onData(connection, piece);
  connection.destroy();
  expect(statuses).toBe(1);
}

const END = "HTTP/1.1 400 Bad\r\ncontent-length: 0\r\n\r\n";
const text = (bytes: number, unit: string) => unit.repeat(Math.ceil(bytes / unit.length));
/** A frame of a WebSocket without a mask. */
function frame(first: number, bytes: number): Buffer {
  const head = Buffer.from([first, 127, 0, 0, 0, 0, 0, 0, 0, 0]);
  head.writeBigUInt64BE(BigInt(bytes), 2);
  return Buffer.concat([head, Buffer.alloc(bytes, "a")]);
}

const CASES: Readonly<Record<string, Case>> = {
  "an event": {
    pieceBytes: 3,
    bytes: 512 * KIB,
    build: (bytes) => Buffer.from(`data: ${text(bytes, "a")}\n\n`),
    read: readEvents,
  },
  "an event of lines": {
    pieceBytes: 3,
    bytes: 96 * KIB,
    build: (bytes) => Buffer.from(`data: ${text(bytes, "a:bcdefgh\n")}\n`),
    read: readEvents,
  },
  "a frame of Amazon Bedrock": {
    pieceBytes: 3,
    bytes: 512 * KIB,
    build: (bytes) => encodeEventFrame({ ":event-type": "chunk" }, Buffer.alloc(bytes, "a")),
    read: readFrames,
  },
  "the content of a form": {
    pieceBytes: 3,
    bytes: 256 * KIB,
    build: (bytes) => multipartForm(bytes, "a"),
    read: readForm,
  },
  "beginnings of a boundary": {
    pieceBytes: 3,
    bytes: 256 * KIB,
    build: (bytes) => multipartForm(bytes, "\r\n--a-bound"),
    read: readForm,
  },
  "a message of a WebSocket": {
    pieceBytes: 3,
    bytes: 512 * KIB,
    build: (bytes) => frame(0x81, bytes),
    read: readMessage,
  },
  "fragments of a message": {
    pieceBytes: 3,
    bytes: 256 * KIB,
    build: (bytes) =>
      Buffer.concat([
        Buffer.from([0x01, 1, 0x61]),
        Buffer.alloc(3 * Math.floor(bytes / 3), Buffer.from([0x00, 1, 0x61])),
        Buffer.from([0x80, 0]),
      ]),
    read: readMessage,
  },
  "chunks of one byte": {
    pieceBytes: 5,
    bytes: MIB,
    build: (bytes) => Buffer.from(`${text(bytes, "1\r\na\r\n")}0\r\n\r\n`),
    read: readChunks,
  },
  "interim responses to a handshake": {
    pieceBytes: 19,
    bytes: 128 * KIB,
    build: (bytes) => Buffer.from(`${text(bytes, "HTTP/1.1 100 \r\n\r\n")}${END}`),
    read: readHandshake,
  },
  "header lines of the response to a handshake": {
    pieceBytes: 19,
    bytes: 128 * KIB,
    build: (bytes) =>
      Buffer.from(`HTTP/1.1 400 Bad\r\n${text(bytes, "x-header: a value\r\n")}content-length: 0\r\n\r\n`),
    read: readHandshake,
  },
};

test.each(Object.entries(CASES))("%s", (name, { pieceBytes, bytes, build, read }) => {
  const measure = (size: number) => {
    const whole = build(size);
    return measureOwnWork(`${name} of ${size / KIB} KiB, in pieces of ${pieceBytes} bytes`, {
      bytes: whole.length,
      runs: RUNS,
      run: () => read(split(whole, pieceBytes)),
    });
  };
  // The first runs compile the code.
  measure(bytes / FACTOR);
  // Other work on the machine makes a run longer. Work that grows too fast does so in every attempt.
  let growth = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < ATTEMPTS && growth >= GROWTH_MAX; attempt++) {
    const small = Math.max(NOISE_MS, measure(bytes / FACTOR));
    growth = Math.min(growth, measure(bytes) / small);
  }
  expect(growth).toBeLessThan(GROWTH_MAX);
});
