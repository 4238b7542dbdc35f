import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { wholePart } from "../../base/parts.ts";
import {
  type HttpResponse,
  SharedResponse,
  StreamedResponse,
  type StreamSink,
  WholeResponse,
} from "../wire/http-message.ts";
import { writeBatcher } from "../wire/write-batcher.ts";
import {
  dial,
  listenForTest,
  type RawClient,
  streamSource,
  type TestListener,
  textResponse,
} from "./listen.test-support.ts";
import { type ResponseWriter, startStream } from "./response-writer.ts";

const DATE = "date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";

let listener: TestListener;
let client: RawClient;
/** The response to the next requests. */
let give: () => HttpResponse | Promise<HttpResponse>;

beforeEach(async () => {
  listener = listenForTest(({ target }) => (target === "/next" ? textResponse("<next>") : give()));
  client = await dial(listener.port);
});

afterEach(() => {
  client.destroy();
  listener.closeNow();
});

function ask(method = "GET", version = "1.1"): void {
  client.send(`${method} / HTTP/${version}\r\nHost: gw\r\n\r\n`);
}

/** The whole response on a connection that stays open, up to the next one. */
async function responseBeforeNext(): Promise<string> {
  client.send("GET /next HTTP/1.1\r\nHost: gw\r\n\r\n");
  const received = await client.waitForText("<next>");
  return received.slice(0, received.lastIndexOf("HTTP/1.1 200"));
}

/** A stream that the test writes to, with its outcome. */
function streamByHand() {
  const flowing = Promise.withResolvers<StreamSink>();
  let left = 0;
  let isPaused = false;
  const source = {
    flowTo: flowing.resolve,
    pause() {
      isPaused = true;
    },
    resume() {
      isPaused = false;
    },
    abort: () => void left++,
  };
  give = () => new StreamedResponse("content-type: text/event-stream\r\n", source);
  return { sink: flowing.promise, left: () => left, isPaused: () => isPaused };
}

function unchunked(text: string): string {
  let joined = "";
  for (let at = 0; ; ) {
    const lineEnd = text.indexOf("\r\n", at);
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    if (size === 0) return joined;
    joined += text.slice(lineEnd + 2, lineEnd + 2 + size);
    at = lineEnd + size + 4;
  }
}

/** A connection that accepts all writes. */
function writingTo(written: Buffer[], endsByClosing = false): ResponseWriter {
  return {
    connectionLines: "",
    bufferedBytes: 0,
    isOver: false,
    endsByClosing: () => endsByClosing,
    bodySource: null,
    write: (bytes, from = 0, to = bytes.length) =>
      void written.push(Buffer.copyBytesFrom(bytes, from, to - from)),
    writeShared: (bytes) => void written.push(Buffer.from(bytes)),
    batch(_from, to) {
      writeBatcher.add({ send: (bytes, from, end) => this.write(bytes, from, end) }, to);
      writeBatcher.flush();
    },
    endResponse() {},
    failResponse() {},
  };
}

describe("a shared response", () => {
  const long = Buffer.alloc(8_000_000, "0123456789");
  const headers = { "content-type": "text/plain", etag: '"1"' };

  test.each([5, 64 * 1024, 200_000])("of %d bytes is complete", async (length) => {
    give = () => new SharedResponse(200, headers, long.subarray(0, length));
    ask();
    expect(await responseBeforeNext()).toBe(
      `HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\netag: "1"\r\n${DATE}content-length: ${length}\r\n\r\n${long.toString("latin1", 0, length)}`,
    );
  });

  test("to HEAD has its Content-Length", async () => {
    give = () => new SharedResponse(200, {}, long);
    ask("HEAD");
    expect(await responseBeforeNext()).toBe(`HTTP/1.1 200 OK\r\n${DATE}content-length: 8000000\r\n\r\n`);
  });

  test("of status 304 has neither length nor body", async () => {
    give = () => new SharedResponse(304, {}, new Uint8Array(0));
    ask();
    expect(await responseBeforeNext()).toBe(`HTTP/1.1 304 Not Modified\r\n${DATE}\r\n`);
  });

  test("arrives completely at a client that reads slowly", async () => {
    give = () => new SharedResponse(200, {}, long);
    client.pause();
    ask();
    await Bun.sleep(50);
    client.resume();
    const received = await responseBeforeNext();
    expect(received.endsWith(long.toString("latin1"))).toBe(true);
  });
});

describe("a whole response", () => {
  test("consists of the status, the headers, the date, the length and the body", async () => {
    give = () => new WholeResponse(404, "a: b\r\nc: d\r\n", Buffer.from("hello"));
    ask();
    expect(await responseBeforeNext()).toBe(
      `HTTP/1.1 404 Not Found\r\na: b\r\nc: d\r\n${DATE}content-length: 5\r\n\r\nhello`,
    );
  });

  test("joins the parts of its body", async () => {
    const long = "0123456789".repeat(10_000);
    const bytes = Buffer.from(`<${long}>`);
    const parts = [
      { bytes, start: 0, end: 3 },
      { bytes: Buffer.from("xyz"), start: 1, end: 2 },
      { bytes, start: 4, end: bytes.length },
    ];
    give = () => new WholeResponse(200, "", parts);
    ask();
    expect(await responseBeforeNext()).toBe(
      `HTTP/1.1 200 OK\r\n${DATE}content-length: 100002\r\n\r\n<01y${long.slice(3)}>`,
    );
  });

  test("to HEAD has the Content-Length of the omitted body", async () => {
    give = () => new WholeResponse(200, "", Buffer.from("hello"));
    ask("HEAD");
    expect(await responseBeforeNext()).toBe(`HTTP/1.1 200 OK\r\n${DATE}content-length: 5\r\n\r\n`);
  });

  test.each([204, 304])("of status %d has neither length nor body", async (status) => {
    give = () => new WholeResponse(status, "", Buffer.from("hello"));
    ask();
    expect(await responseBeforeNext()).toMatch(/^HTTP\/1.1 \d+ [A-Za-z ]+\r\ndate: [^\r]+\r\n\r\n$/);
  });

  test("of a status without a reason phrase has a valid status line", async () => {
    give = () => new WholeResponse(499, "", Buffer.from(""));
    ask();
    expect(await responseBeforeNext()).toStartWith("HTTP/1.1 499 Unknown\r\n");
  });

  test("that is long arrives completely, even if its memory is reused afterwards", async () => {
    const body = Buffer.alloc(12_000_000, "0123456789");
    give = () => new WholeResponse(200, "", body);
    client.pause();
    ask();
    await eventually(async () => (await fetch(`${listener.url}next`)).ok);
    body.fill("x");
    client.resume();
    const received = await responseBeforeNext();
    expect(received.slice(received.indexOf("\r\n\r\n") + 4) === "0123456789".repeat(1_200_000)).toBe(true);
  });
});

describe("a streamed response", () => {
  test("is sent in chunks without delay, and leaves the connection open", async () => {
    const { sink, left, isPaused } = streamByHand();
    ask();
    const to = await sink;
    await client.waitForText(
      `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n${DATE}transfer-encoding: chunked\r\n\r\n`,
    );
    to.data(wholePart(Buffer.from("hello world, hello")));
    expect(isPaused()).toBe(false);
    await client.waitForText("\r\n\r\n12\r\nhello world, hello\r\n");
    to.data(wholePart(new Uint8Array(0)));
    to.data(wholePart(Buffer.from("x")));
    to.end([]);
    expect(await responseBeforeNext()).toEndWith("hello\r\n1\r\nx\r\n0\r\n\r\n");
    expect(left()).toBe(0);
  });

  test("sends its head together with data that is already available", async () => {
    const written: Buffer[] = [];
    const flowing = new StreamedResponse("a: b\r\n", {
      ...streamSource({}),
      flowTo: (sink) => void Promise.resolve().then(() => sink.data(wholePart(Buffer.from("hello")))),
    });
    startStream(writingTo(written), flowing, false);
    await Bun.sleep(0);
    expect(written.map(String)).toEqual([
      "HTTP/1.1 200 OK\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ]);
  });

  test.each([0, 1, 5, 100])(
    "has a head of any length before its first chunk, also %d bytes below the batch size",
    async (short) => {
      const written: Buffer[] = [];
      const fixed = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".length;
      const headers = `a: ${"b".repeat(64 * 1024 - short - fixed - 5)}\r\n`;
      const piece = "c".repeat(64 * 1024);
      const flowing = new StreamedResponse(headers, {
        ...streamSource({}),
        flowTo(sink) {
          sink.data(wholePart(Buffer.from(piece)));
          sink.end([]);
        },
      });
      startStream(writingTo(written), flowing, false);
      await Bun.sleep(0);
      expect(written.join("")).toBe(
        `HTTP/1.1 200 OK\r\n${headers}transfer-encoding: chunked\r\n\r\n10000\r\n${piece}\r\n0\r\n\r\n`,
      );
    },
  );

  test("accepts parts of several arrays, also at its end", async () => {
    const { sink } = streamByHand();
    ask();
    const to = await sink;
    const bytes = Buffer.from("--hello world--");
    const parts = [
      { bytes, start: 2, end: 7 },
      { bytes, start: 7, end: 13 },
    ];
    to.data(parts);
    to.end([...parts, { bytes, start: 3, end: 3 }, { bytes, start: 0, end: 1 }]);
    expect(await responseBeforeNext()).toEndWith(
      "\r\n\r\nb\r\nhello world\r\nc\r\nhello world-\r\n0\r\n\r\n",
    );
  });

  test("accepts a last piece of any length", async () => {
    for (const length of [0, 1, 15, 16, 255, 256, 4_095, 4_096, 65_519, 65_520, 65_536, 100_000]) {
      const { sink } = streamByHand();
      const reading = fetch(listener.url).then((response) => response.bytes());
      (await sink).end(wholePart(Buffer.alloc(length, "x")));
      expect((await reading).length).toBe(length);
    }
  });

  test("accepts long pieces", async () => {
    const { sink } = streamByHand();
    const reading = fetch(listener.url).then((response) => response.bytes());
    const to = await sink;
    const pieces = [65_000, 65_520, 65_523, 65_536, 300_000].map((length, i) => Buffer.alloc(length, `${i}`));
    for (const piece of pieces) to.data(wholePart(piece));
    to.end([]);
    expect(Buffer.concat(pieces).equals(await reading)).toBe(true);
  });

  test.each(["in chunks", "until the connection closes"])(
    "of many small pieces, %s, is few writes and complete",
    async (how) => {
      const written: Buffer[] = [];
      const sinks: StreamSink[] = [];
      const carrier = writingTo(written, how !== "in chunks");
      const source = streamSource({ flowTo: (sink) => void sinks.push(sink) });
      startStream(carrier, new StreamedResponse("", source), false);
      await Bun.sleep(0);
      const head = written.length;
      const read = Buffer.from(Array.from({ length: 9_000 }, (_, i) => `<${i}>${"x".repeat(40)}`).join(""));
      const pieces = Array.from({ length: 9_000 }, (_, i) => {
        const start = read.indexOf(`<${i}>`);
        return { bytes: read, start, end: i === 8_999 ? read.length : read.indexOf(`<${i + 1}>`) };
      });
      const long = { bytes: Buffer.alloc(200_000, "y"), start: 7, end: 150_007 };
      sinks[0]?.data([...pieces, long, ...pieces.slice(0, 3)]);
      sinks[0]?.end(pieces.slice(0, 2));
      expect(written.length - head).toBeLessThanOrEqual(11);
      const body = Buffer.concat(written.slice(head)).toString("latin1");
      const received = how === "in chunks" ? unchunked(body) : body;
      const first = read.toString("latin1", 0, pieces[2]?.end);
      const again = read.toString("latin1", 0, pieces[1]?.end);
      expect(received === read.toString("latin1") + "y".repeat(150_000) + first + again).toBe(true);
    },
  );

  test("to a client of HTTP/1.0 ends with the connection", async () => {
    const { sink } = streamByHand();
    ask("GET", "1.0");
    const to = await sink;
    to.data(wholePart(Buffer.from("one ")));
    to.end(wholePart(Buffer.from("two")));
    const received = await client.end();
    expect(received).toEndWith("connection: close\r\n\r\none two");
    expect(received).not.toContain("transfer-encoding");
  });

  test("to HEAD is its head alone, and its source is cancelled", async () => {
    const { left } = streamByHand();
    ask("HEAD");
    expect(await responseBeforeNext()).toEndWith("transfer-encoding: chunked\r\n\r\n");
    expect(left()).toBe(1);
  });

  test("pauses its source while the client does not keep up, and arrives in order", async () => {
    const { sink, isPaused } = streamByHand();
    client.pause();
    ask();
    const to = await sink;
    const piece = Buffer.alloc(100_000);
    let written = 0;
    while (!isPaused()) to.data(wholePart(piece.fill(`${written++ % 10}`)));
    client.resume();
    await eventually(() => !isPaused());
    to.data(wholePart(Buffer.from("last")));
    expect(isPaused()).toBe(false);
    to.end([]);
    const received = await responseBeforeNext();
    const chunks = Array.from({ length: written }, (_, i) => `186a0\r\n${`${i % 10}`.repeat(100_000)}\r\n`);
    expect(received.endsWith(`\r\n\r\n${chunks.join("")}4\r\nlast\r\n0\r\n\r\n`)).toBe(true);
  });

  test("is aborted once when its client disconnects, and later writes have no effect", async () => {
    const { sink, left, isPaused } = streamByHand();
    client.pause();
    ask();
    const to = await sink;
    while (!isPaused()) to.data(wholePart(Buffer.alloc(100_000)));
    client.destroy();
    await eventually(() => left(), { equals: 1 });
    to.data(wholePart(Buffer.from("discarded")));
    to.end([]);
    expect(left()).toBe(1);
  });

  test("that begins after its client disconnected gets its leave call at once", async () => {
    const asked = Promise.withResolvers<void>();
    const responding = Promise.withResolvers<HttpResponse>();
    const left = Promise.withResolvers<void>();
    give = () => {
      asked.resolve();
      return responding.promise;
    };
    ask();
    await asked.promise;
    client.destroy();
    const source = streamSource({
      flowTo: () => left.reject(new Error("it flowed")),
      abort: left.resolve,
    });
    await eventually(async () => (await fetch(`${listener.url}next`)).ok);
    responding.resolve(new StreamedResponse("", source));
    await left.promise;
  });
});

describe("a Response", () => {
  const streamBody = (...pieces: string[]) =>
    new ReadableStream<Uint8Array>({
      async pull(controller) {
        await null;
        const piece = pieces.shift();
        if (piece === undefined) controller.close();
        else controller.enqueue(Buffer.from(piece));
      },
    });

  test("that is whole is sent with its length and each of its cookies", async () => {
    const headers = new Headers({ a: "b" });
    headers.append("set-cookie", "c=1");
    headers.append("set-cookie", "d=2");
    give = () => new Response("hello", { status: 201, headers });
    ask();
    const received = await responseBeforeNext();
    expect(received).toStartWith("HTTP/1.1 201 Created\r\n");
    expect(received).toEndWith(`set-cookie: c=1\r\nset-cookie: d=2\r\n${DATE}content-length: 5\r\n\r\nhello`);
  });

  test.each([
    ["nothing", null],
    ["no bytes", ""],
    ["a stream of nothing", streamBody()],
  ])("of %s has the length 0", async (_name, body) => {
    give = () => new Response(body);
    ask();
    expect(await responseBeforeNext()).toEndWith("content-length: 0\r\n\r\n");
  });

  test("of status 204 has no body", async () => {
    give = () => new Response(null, { status: 204 });
    ask();
    expect(await responseBeforeNext()).toBe(`HTTP/1.1 204 No Content\r\n${DATE}\r\n`);
  });

  test("with several pieces is sent in chunks", async () => {
    give = () => new Response(streamBody("one ", "two ", "three ", "four"));
    const response = await fetch(listener.url);
    expect(response.headers.get("transfer-encoding")).toBe("chunked");
    expect(await response.text()).toBe("one two three four");
  });

  test("to HEAD is its head alone, and its stream is cancelled", async () => {
    const cancelled = Promise.withResolvers<void>();
    const pull = (controller: ReadableStreamDefaultController) => controller.enqueue(Buffer.from("more"));
    const cancel = () => cancelled.resolve();
    give = () => new Response(new ReadableStream({ pull, cancel }));
    ask("HEAD");
    expect(await responseBeforeNext()).toEndWith("\r\n\r\n");
    await cancelled.promise;
  });

  test("with server-sent events begins before the first event", async () => {
    const headers = { "content-type": "text/event-stream" };
    let controller: ReadableStreamDefaultController | null = null;
    const start = (given: ReadableStreamDefaultController) => {
      controller = given;
    };
    give = () => new Response(new ReadableStream({ start }), { headers });
    ask();
    await client.waitForText("transfer-encoding: chunked\r\n\r\n");
    const events = await eventually(() => controller);
    events.enqueue(Buffer.from("data: 1\n\n"));
    await client.waitForText("9\r\ndata: 1\n\n\r\n");
    events.close();
    await client.waitForText("0\r\n\r\n");
  });

  test("is cancelled when its client disconnects", async () => {
    const cancelled = Promise.withResolvers<void>();
    const pull = (controller: ReadableStreamDefaultController) => controller.enqueue(Buffer.alloc(100_000));
    give = () => new Response(new ReadableStream({ pull, cancel: () => cancelled.resolve() }));
    client.pause();
    ask();
    await client.waitForText("");
    client.destroy();
    await cancelled.promise;
  });

  test("that fails midway is reset, so that it is not taken for complete", async () => {
    let count = 0;
    const pull = (controller: ReadableStreamDefaultController) => {
      if (count++ < 3) controller.enqueue(Buffer.from("more"));
      else controller.error(new Error("a bug"));
    };
    give = () => new Response(new ReadableStream({ pull }));
    ask();
    expect(await client.end()).not.toContain("0\r\n\r\n");
    expect(client.ending()).toBe("reset");
  });
});
