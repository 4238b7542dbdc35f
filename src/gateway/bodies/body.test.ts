import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";
import {
  brotliCompressSync,
  constants,
  createZstdCompress,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from "node:zlib";
import fc from "fast-check";
import { eventually } from "../../../test/support/eventually.ts";
import { systemClock } from "../../base/clock.ts";
import { openDeadlines } from "../../base/deadlines.ts";
import { wholeBytesPart } from "../../base/parts.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { IncomingBody } from "../../net/http-server/incoming-body.ts";
import { listenForTest, type TestListener, textResponse } from "../../net/http-server/listen.test-support.ts";
import { CHUNKED } from "../../net/wire/http-fields.ts";
import { WholeResponse } from "../../net/wire/http-message.ts";
import { freeBody, readBody } from "./body.ts";
import { type BodyBudget, openBodyBudget } from "./body-budget.ts";
import { gatherChunks } from "./body-reader.ts";
import type { BodyResult } from "./large-body.ts";

const deadlines = openDeadlines(10, systemClock);

const BYTES_MAX = 2_000_000;
const PATIENT_MS = 20_000;
const HASTY_MS = 60;

const LIMITS = { ...limits.bodyReading, bytesMax: BYTES_MAX, idleTimeoutMs: PATIENT_MS, deadlines };
const ROOM_BYTES = 2 * BYTES_MAX;
const OWNER = { id: "key_1", userId: null };
const ANOTHER = { id: "key_2", userId: null };
const STAYING = { signal: new AbortController().signal };

/**
 * Responds with the result of reading the body. `/hasty` has a short timeout. `results` keeps the results that
 * a disconnected client does not receive.
 */
let server: TestListener;
let results: PromiseWithResolvers<BodyResult>;
const budget = createBudget(ROOM_BYTES);

beforeAll(() => {
  server = listenForTest(async (request) => {
    const idleTimeoutMs = request.target.endsWith("/hasty") ? HASTY_MS : PATIENT_MS;
    const result = await readBody(request, { ...LIMITS, idleTimeoutMs }, budget, OWNER);
    results?.resolve(result);
    if (!("ok" in result)) return new WholeResponse(200, "", [result]);
    if (!result.ok) return textResponse(result.reason, 400);
    result.reservation.release();
    return new WholeResponse(200, "", result.bytes);
  });
});

afterAll(() => server.closeNow());

/** After every test the whole budget is free. */
afterEach(() => expect(budget.report()).toMatchObject({ heldBytes: 0, waiting: 0 }));

function createBudget(bytesMax: number): BodyBudget {
  const { monotonicMs } = systemClock;
  return openBodyBudget({
    bytesMax,
    ownerBytesMax: bytesMax,
    waitingMax: 10,
    ownerWaitingMax: 10,
    waitTimeoutMs: HASTY_MS,
    deadlines,
    monotonicMs,
  });
}

type Init = { headers?: Record<string, string>; path?: string };

async function send(body: NonNullable<RequestInit["body"]> | null, { headers = {}, path = "" }: Init = {}) {
  const response = await fetch(`${server.url}${path}`, { method: "POST", body, headers });
  return { ok: response.ok, bytes: await response.bytes() };
}

async function rejection(...args: Parameters<typeof send>): Promise<string> {
  const { ok, bytes } = await send(...args);
  return ok ? "accepted" : Buffer.from(bytes).toString();
}

/** Sends the chunks without a Content-Length. */
function chunked(chunks: Iterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = chunks[Symbol.iterator]();
  return new ReadableStream({
    pull(controller) {
      const next = iterator.next();
      if (next.done) controller.close();
      else controller.enqueue(next.value);
    },
  });
}

/** A client that may break the protocol. */
function raw(head: string, after: (socket: Socket) => void = () => {}): Promise<string> {
  results = Promise.withResolvers();
  return new Promise((resolve) => {
    let response = "";
    const socket = connect(server.port, "127.0.0.1", () => socket.write(head, () => after(socket)));
    socket.on("data", (data) => {
      response += data.toString();
      if (/\r\n\r\n.+/s.test(response)) socket.destroy();
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(response));
  });
}

const post = (headers: string, path = "/") => `POST ${path} HTTP/1.1\r\nHost: test\r\n${headers}\r\n\r\n`;

const createBytes = (length: number) =>
  Buffer.from(Array.from({ length: 251 }, (_, i) => i))
    .toString("latin1")
    .repeat(length / 251 + 1)
    .slice(0, length);

const MIB = 1024 * 1024;

/** Bytes that compress to about an eighth. */
function loose(length: number): Buffer {
  return randomBytes(length).map((byte) => byte & 1) as Buffer;
}

describe("a request body", () => {
  test.each([0, 1, 1000, 1_500_000, BYTES_MAX])(
    "of %d bytes with a Content-Length is read completely",
    async (length) => {
      const body = Buffer.from(createBytes(length), "latin1");
      const { ok, bytes } = await send(body);
      expect(ok).toBe(true);
      expect(Buffer.from(bytes).equals(body)).toBe(true);
    },
  );

  test("without a Content-Length is read completely, up to the maximum", async () => {
    const piece = Buffer.from(createBytes(100_000), "latin1");
    const { ok, bytes } = await send(chunked(Array.from({ length: BYTES_MAX / 100_000 }, () => piece)));
    expect(ok).toBe(true);
    expect(bytes.length).toBe(BYTES_MAX);
    expect(Buffer.from(bytes.subarray(-100_000)).equals(piece)).toBe(true);
  });

  test("of tiny chunks is read completely if they arrive together", async () => {
    const crumbs = `10000\r\n${"x".repeat(65_536)}\r\n${"1\r\nx\r\n".repeat(8_000)}0\r\n\r\n`;
    await raw(post("Transfer-Encoding: chunked") + crumbs);
    const result = await results.promise;
    if (!("ok" in result) || !result.ok) throw new Error("not read");
    expect(result.bytes.length).toBe(73_536);
  });

  test("that is absent is empty", async () => {
    expect(await send(null)).toEqual({ ok: true, bytes: new Uint8Array(0) });
  });
});

describe("a too large request body", () => {
  test("is rejected by its Content-Length before any of it is sent", async () => {
    expect(await raw(post(`Content-Length: ${BYTES_MAX + 1}`))).toEndWith("too_large");
  });

  test("is rejected by a Content-Length a thousand times larger than memory", async () => {
    expect(await raw(post("Content-Length: 999999999999"))).toEndWith("too_large");
  });

  test("without a Content-Length is rejected at the maximum, while the client is still sending", async () => {
    let sent = 0;
    const piece = new Uint8Array(65_536);
    function* endless() {
      for (; sent < 500_000_000; sent += piece.length) yield piece;
    }
    expect(await rejection(chunked(endless()))).toBe("too_large");
    expect(sent).toBeLessThan(400_000_000);
  });

  test("leaves the connection usable for the next request", async () => {
    const socket = await new Promise<Socket>((resolve) => {
      const opened = connect(server.port, "127.0.0.1", () => resolve(opened));
    });
    const responses: string[] = [];
    const responded = () =>
      new Promise<void>((resolve) => {
        socket.once("data", (data) => {
          responses.push(data.toString().split("\r\n\r\n")[1] ?? "");
          resolve();
        });
      });
    socket.write(post(`Content-Length: ${BYTES_MAX + 10}`));
    await responded();
    socket.write(new Uint8Array(BYTES_MAX + 10));
    socket.write(`${post("Content-Length: 5")}hello`);
    await responded();
    socket.destroy();
    expect(responses).toEqual(["too_large", "hello"]);
  });

  test("is rejected if it arrives in too many pieces", async () => {
    const body = new IncomingBody(CHUNKED, { onBodyRequested() {}, resume() {} });
    const request = { method: "POST", headers: new Headers(), signal: new AbortController().signal, body };
    const reading = readBody(request, LIMITS, budget, OWNER);
    for (let i = 0; i < 25_000; i++) body.push(Buffer.from("10\r\n0123456789abcdef\r\n"), 0);
    expect(await reading).toMatchObject({ ok: false, reason: "too_large" });
  });
});

/** The default quality takes seconds for two megabytes. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };
const ENCODERS = {
  gzip: gzipSync,
  deflate: deflateSync,
  br: (data: string | Uint8Array) => brotliCompressSync(data, BROTLI),
  zstd: zstdCompressSync,
};
const encodings = Object.entries(ENCODERS);

describe("a compressed request body", () => {
  test.each(encodings)("in %s is decoded", async (encoding, encode) => {
    const text = `{"model":"fast-chat","input":"${"hello ".repeat(50_000)}"}`;
    const { ok, bytes } = await send(encode(text), { headers: { "content-encoding": encoding } });
    expect(ok).toBe(true);
    expect(Buffer.from(bytes).toString()).toBe(text);
  });

  test.each(["identity", "GZIP", " gzip", "x-gzip"])(
    "may be named %p in Content-Encoding",
    async (encoding) => {
      const body = encoding === "identity" ? Buffer.from("hello") : gzipSync("hello");
      const { bytes } = await send(body, { headers: { "content-encoding": encoding } });
      expect(Buffer.from(bytes).toString()).toBe("hello");
    },
  );

  test.each(["gzip, gzip", "gzip,br", "identity, gzip", "compress", "aws-chunked", "gzip;q=1"])(
    "with Content-Encoding %p is rejected",
    async (encoding) => {
      expect(await rejection(gzipSync("hello"), { headers: { "content-encoding": encoding } })).toBe(
        "unsupported_encoding",
      );
    },
  );

  test.each(encodings)("in %s may decode to the maximum and not one byte more", async (encoding, encode) => {
    const headers = { "content-encoding": encoding };
    expect((await send(encode(loose(BYTES_MAX)), { headers })).bytes.length).toBe(BYTES_MAX);
    expect(await rejection(encode(loose(BYTES_MAX + 1)), { headers })).toBe("too_large");
  });

  test.each(encodings)("in %s that expands more than a hundredfold is rejected", async (encoding, encode) => {
    const headers = { "content-encoding": encoding };
    expect(await rejection(encode(Buffer.alloc(MIB + 1)), { headers })).toBe("too_dense");
  });

  test.each(encodings)("in %s may expand by any factor up to 1 MiB", async (encoding, encode) => {
    const headers = { "content-encoding": encoding };
    expect((await send(encode(Buffer.alloc(MIB)), { headers })).bytes.length).toBe(MIB);
  });

  test.each(encodings)("in %s with invalid data is rejected", async (encoding) => {
    const headers = { "content-encoding": encoding };
    expect(await rejection(Buffer.from('{"model":"fast-chat"}'), { headers })).toBe("bad_encoding");
  });

  // The zstd decoder returns truncated data without an error; half a JSON body is then rejected as JSON.
  test.each(encodings.filter(([encoding]) => encoding !== "zstd"))(
    "in %s that is truncated is rejected",
    async (encoding, encode) => {
      const whole = encode(createBytes(5000));
      const headers = { "content-encoding": encoding };
      expect(await rejection(whole.subarray(0, whole.length - 9), { headers })).toBe("bad_encoding");
    },
  );

  test("in zstd that requires a window of more than 8 MiB is rejected", async () => {
    const body = await streamedZstd(26);
    expect(await rejection(body, { headers: { "content-encoding": "zstd" } })).toBe("bad_encoding");
    expect((await send(await streamedZstd(23), { headers: { "content-encoding": "zstd" } })).ok).toBe(true);
  });
});

/** Written in two steps, so that the encoder cannot know the size and uses the requested window. */
async function streamedZstd(windowLog: number): Promise<Buffer> {
  const encoder = createZstdCompress({ params: { [constants.ZSTD_c_windowLog]: windowLog } });
  const chunks: Buffer[] = [];
  encoder.on("data", (chunk: Buffer) => chunks.push(chunk));
  const ended = new Promise((resolve) => encoder.on("end", resolve));
  encoder.write("hello ", () => encoder.flush(() => encoder.end("world")));
  await ended;
  return Buffer.concat(chunks);
}

test("a body with invalid framing is rejected", async () => {
  expect(await raw(`${post("Transfer-Encoding: chunked")}5\r\nhello!\r\n`)).toEndWith("bad_framing");
});

describe("a client", () => {
  const promised = post("Content-Length: 1000");
  const large = post("Content-Length: 1900000");
  const open = post("Transfer-Encoding: chunked");

  test.each([
    ["closes", (socket: Socket) => socket.end()],
    ["resets", (socket: Socket) => socket.resetAndDestroy()],
  ])("that %s before its body is complete is reported as aborted", async (_, leave) => {
    for (const head of [`${promised}half`, `${large}half`, `${open}4\r\nhalf\r\n`]) {
      await raw(head, leave);
      expect(await results.promise).toMatchObject({ ok: false, reason: "aborted" });
    }
  });

  test("that stops sending gets an idle timeout", async () => {
    expect(await raw(`${post("Content-Length: 10", "/hasty")}half`)).toEndWith("idle_timeout");
    expect(await raw(`${post("Content-Length: 1900000", "/hasty")}half`)).toEndWith("idle_timeout");
    expect(await raw(`${post("Transfer-Encoding: chunked", "/hasty")}4\r\nhalf\r\n`)).toEndWith(
      "idle_timeout",
    );
  });

  test("that sends continuously but far too slowly gets an idle timeout", async () => {
    const response = await raw(post("Transfer-Encoding: chunked", "/hasty"), (socket) => {
      const drip = setInterval(() => socket.write("1\r\nx\r\n"), HASTY_MS / 4);
      socket.on("close", () => clearInterval(drip));
    });
    expect(response).toEndWith("idle_timeout");
  });
});

describe("a large request body", () => {
  const MANY = 1_500_000;
  const plain = loose(MANY);

  /** Reports when more data is requested. */
  function incoming(framing: number) {
    let asked = 0;
    const body = new IncomingBody(framing, { onBodyRequested() {}, resume: () => void asked++ });
    const request = { method: "POST", headers: new Headers(), signal: new AbortController().signal, body };
    return { body, request, asked: () => asked };
  }

  async function readLarge(reading: BodyResult | Promise<BodyResult>) {
    const result = await reading;
    if (!("ok" in result) || !result.ok) throw new Error("no large body");
    return result;
  }

  test("reserves its size in the budget until it is released", async () => {
    const own = createBudget(ROOM_BYTES);
    const { body, request } = incoming(MANY);
    const reading = readBody(request, LIMITS, own, OWNER);
    body.push(Buffer.from(plain), 0);
    const { bytes, reservation } = await readLarge(reading);
    expect(plain.equals(bytes)).toBe(true);
    expect(own.report().heldBytes).toBe(MANY);
    reservation.release();
    reservation.release();
    expect(own.report().heldBytes).toBe(0);
  });

  test("is not read until the budget has reserved all of it", async () => {
    const own = createBudget(ROOM_BYTES);
    const before = own.open(ANOTHER, STAYING);
    expect(before.growNow(ROOM_BYTES - MANY + 1)).toBe(true);
    const { body, request, asked } = incoming(MANY);
    const reading = readBody(request, LIMITS, own, OWNER);
    expect(own.report().waiting).toBe(1);
    expect(asked()).toBe(0);
    before.release();
    await eventually(() => asked(), { equals: 1 });
    body.push(Buffer.from(plain), 0);
    expect((await readLarge(reading)).reservation.bytes).toBe(MANY);
  });

  test("is rejected with Retry-After if the budget stays full", async () => {
    const own = createBudget(ROOM_BYTES);
    own.open(ANOTHER, STAYING).growNow(ROOM_BYTES);
    const { request, asked } = incoming(MANY);
    expect(await readBody(request, LIMITS, own, OWNER)).toEqual({
      ok: false,
      reason: "no_room",
      of: "memory",
      retryAfterSeconds: 1,
    });
    expect(asked()).toBe(0);
  });

  test("without a Content-Length reserves as it grows, and releases what it did not need", async () => {
    const own = createBudget(ROOM_BYTES);
    const { body, request } = incoming(CHUNKED);
    const reading = readBody(request, LIMITS, own, OWNER);
    const piece = (bytes: Buffer) =>
      Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
    body.push(piece(plain.subarray(0, 1_000_000)), 0);
    expect(own.report().heldBytes).toBe(0);
    body.push(piece(plain.subarray(1_000_000)), 0);
    await eventually(() => own.report().heldBytes, { equals: BYTES_MAX });
    body.push(Buffer.from("0\r\n\r\n"), 0);
    const { bytes } = await readLarge(reading);
    expect(plain.equals(bytes)).toBe(true);
    expect(own.report().heldBytes).toBe(MANY);
  });

  test("that outgrows a full budget is rejected and releases its reservation", async () => {
    const own = createBudget(ROOM_BYTES);
    own.open(ANOTHER, STAYING).growNow(ROOM_BYTES - BYTES_MAX + 1);
    const { body, request } = incoming(CHUNKED);
    const reading = readBody(request, LIMITS, own, OWNER);
    body.push(Buffer.concat([Buffer.from("16e360\r\n"), plain]), 0);
    expect(await reading).toMatchObject({ reason: "no_room" });
    expect(own.report().heldBytes).toBe(ROOM_BYTES - BYTES_MAX + 1);
  });

  test.each(encodings)("compressed with %s reserves its decoded size", async (encoding, encode) => {
    const own = createBudget(ROOM_BYTES);
    const packed = encode(plain);
    const { body, request } = incoming(packed.length);
    request.headers.set("content-encoding", encoding);
    const reading = readBody(request, LIMITS, own, OWNER);
    body.push(packed, 0);
    const { bytes } = await readLarge(reading);
    expect(plain.equals(bytes)).toBe(true);
    expect(own.report().heldBytes).toBe(MANY);
  });

  test("is rejected if the budget has no space for its decoded size", async () => {
    const own = createBudget(ROOM_BYTES);
    own.open(ANOTHER, STAYING).growNow(ROOM_BYTES);
    const packed = gzipSync(plain);
    const { body, request } = incoming(packed.length);
    request.headers.set("content-encoding", "gzip");
    const reading = readBody(request, LIMITS, own, OWNER);
    body.push(packed, 0);
    expect(await reading).toMatchObject({ reason: "no_room" });
  });

  test("that arrives slowly is rejected when another body waits for the budget", async () => {
    const own = createBudget(ROOM_BYTES);
    const { body, request } = incoming(MANY);
    const reading = readBody(request, { ...LIMITS, idleTimeoutMs: 500 }, own, OWNER);
    const crowd = new AbortController();
    const waiting = own.open(ANOTHER, crowd);
    let sent = 0;
    let heldBytes = 0;
    const drip = setInterval(() => {
      body.push(Buffer.alloc(1_000), 0);
      sent++;
      // Fast enough for longer than the idle timeout, as long as no other body waits.
      if (sent === 50) heldBytes = own.report().heldBytes;
      if (sent > 50 && own.report().waiting === 0) void waiting.growTo(ROOM_BYTES);
    }, 15);
    expect(await reading).toMatchObject({ reason: "idle_timeout" });
    clearInterval(drip);
    expect(heldBytes).toBe(MANY);
    crowd.abort();
    waiting.release();
    expect(own.report().heldBytes).toBe(0);
  });
});

test("gathered chunks are joined in order, for all sizes", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.nat(20), fc.nat(9000)), { maxLength: 60 }), (sizes) => {
      const gathered = gatherChunks();
      const chunks = sizes.map((size, index) => new Uint8Array(size).fill(index));
      const [first, second] = [chunks.slice(0, 30), chunks.slice(30)];
      for (const batch of [first, second]) {
        for (const chunk of batch) gathered.add(chunk);
        expect(gathered.take().equals(Buffer.concat(batch))).toBe(true);
      }
    }),
  );
});

test("a body is freed at the end of its request, except for a background response", () => {
  const done = new Uint8Array(200_000);
  freeBody({ inputText: { kind: "json", values: 0, body: wholeBytesPart(done) }, background: false });
  expect(done.length).toBe(0);
  const kept = new Uint8Array(200_000);
  freeBody({ inputText: { kind: "json", values: 0, body: wholeBytesPart(kept) }, background: true });
  expect(kept.length).toBe(200_000);
});

describe("a small request body", () => {
  const LENGTH = 300_000;
  const plain = loose(LENGTH);

  function incoming(framing: number, headers: Record<string, string> = {}) {
    const body = new IncomingBody(framing, { onBodyRequested() {}, resume() {} });
    const { signal } = new AbortController();
    return { body, request: { method: "POST", headers: new Headers(headers), signal, body } };
  }

  async function counted(reading: BodyResult | Promise<BodyResult>) {
    const result = await reading;
    if (!("ok" in result) || !result.ok) throw new Error("not counted");
    return result;
  }

  test.each([LENGTH, MIB])("of %p bytes is counted until it is released", async (length) => {
    const smallBudget = createBudget(4 * MIB);
    const { body, request } = incoming(length);
    const reading = readBody(request, { ...LIMITS, smallBudget }, createBudget(0), OWNER);
    expect(smallBudget.report().heldBytes).toBe(length);
    body.push(Buffer.alloc(length), 0);
    (await counted(reading)).reservation.release();
    expect(smallBudget.report().heldBytes).toBe(0);
  });

  test("is counted if it is compressed or has no Content-Length", async () => {
    const packed = gzipSync(plain);
    const chunks = Buffer.from(
      `${LENGTH.toString(16)}\r\n${plain.toString("latin1")}\r\n0\r\n\r\n`,
      "latin1",
    );
    for (const [framing, sent, headers] of [
      [packed.length, packed, { "content-encoding": "gzip" }],
      [CHUNKED, chunks, {}],
    ] as const) {
      const smallBudget = createBudget(4 * MIB);
      const { body, request } = incoming(framing, headers);
      const reading = readBody(request, { ...LIMITS, smallBudget }, createBudget(0), OWNER);
      body.push(Buffer.from(sent), 0);
      const { bytes, reservation } = await counted(reading);
      expect(plain.equals(bytes)).toBe(true);
      expect(smallBudget.report().heldBytes).toBe(LENGTH);
      reservation.release();
      expect(smallBudget.report().heldBytes).toBe(0);
    }
  });

  test("is rejected if the budget stays full", async () => {
    const smallBudget = createBudget(4 * MIB);
    smallBudget.open(ANOTHER, STAYING).growNow(4 * MIB - LENGTH + 1);
    const { request } = incoming(LENGTH);
    expect(await readBody(request, { ...LIMITS, smallBudget }, budget, OWNER)).toMatchObject({
      reason: "no_room",
    });
  });

  test("moves to the budget for large bodies if it decodes to a large one", async () => {
    const smallBudget = createBudget(4 * MIB);
    const largeRoom = createBudget(4 * MIB);
    const long = loose(1_500_000);
    const packed = gzipSync(long);
    const { body, request } = incoming(packed.length, { "content-encoding": "gzip" });
    const reading = readBody(request, { ...LIMITS, smallBudget }, largeRoom, OWNER);
    body.push(Buffer.from(packed), 0);
    const { bytes, reservation } = await counted(reading);
    expect(long.equals(bytes)).toBe(true);
    expect([smallBudget.report().heldBytes, largeRoom.report().heldBytes]).toEqual([0, 1_500_000]);
    reservation.release();
    expect(largeRoom.report().heldBytes).toBe(0);
  });

  test("that arrives too slowly is rejected", async () => {
    const { body, request } = incoming(64_000);
    const reading = readBody(request, { ...LIMITS, idleTimeoutMs: 200 }, budget, OWNER);
    const startedMs = performance.now();
    const trickle = setInterval(() => body.push(Buffer.from("x"), 0), 20);
    expect(await reading).toMatchObject({ reason: "idle_timeout" });
    clearInterval(trickle);
    expect(performance.now() - startedMs).toBeLessThan(2_000);
  });
});
