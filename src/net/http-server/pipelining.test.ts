/** Tests of pipelined requests, and of bodies without a reader. */

import { afterEach, describe, expect, test } from "bun:test";
import { eventually, untilStill } from "../../../test/support/eventually.ts";
import { freeBytes } from "../../base/bytes.ts";
import { type Part, partBytes, wholePart } from "../../base/parts.ts";
import { type HttpResponse, StreamedResponse, type StreamSink } from "../wire/http-message.ts";
import { writeBatcher } from "../wire/write-batcher.ts";
import { ServerConnection } from "./connection.ts";
import { type IncomingRequest, Upgrade } from "./incoming-request.ts";
import {
  dial,
  getText,
  listenForTest,
  postText,
  type RawClient,
  streamSource,
  type TestListener,
  textResponse,
  wholeText,
} from "./listen.test-support.ts";
import type { ListenOptions } from "./listen.ts";

const UNASKED_MS = 100;

let listener: TestListener;
let client: RawClient;

async function start(serve: ListenOptions["serve"]) {
  listener = listenForTest(serve, { unreadBodyMs: UNASKED_MS });
  client = await dial(listener.port);
}

afterEach(() => {
  client.destroy();
  listener.closeNow();
});

/** A handler that the test controls and that reports when the client of a request disconnects. */
function watched() {
  const paths: string[] = [];
  const responses: ((response: HttpResponse) => void)[] = [];
  let hasLeft = false;
  const serve = ({ target, signal }: IncomingRequest) => {
    paths.push(target);
    signal.addEventListener("abort", () => {
      hasLeft = true;
    });
    return new Promise<HttpResponse>((resolve) => responses.push(resolve));
  };
  return {
    serve,
    paths,
    respond: () => eventually(() => responses.shift()),
    left: () => eventually(() => hasLeft),
  };
}

describe("a client's disconnect is detected", () => {
  test.each([1_000, 40_000])("with %d bytes of pipelined data", async (length) => {
    const { serve, left, respond } = watched();
    await start(serve);
    client.send(getText("/a"));
    await respond();
    client.send(postText("/b", `Content-Length: ${length}`), Buffer.alloc(length));
    await eventually(() => client.unsentBytes(), { equals: 0 });
    client.destroy();
    await left();
  });

  test.each([200_000, 2_000_000])("with %d bytes in the kernel buffers, after some time", async (length) => {
    const { serve, left, respond } = watched();
    await start(serve);
    client.send(getText("/a"));
    await respond();
    client.send(postText("/b", `Content-Length: ${length}`), Buffer.alloc(length));
    await arrived();
    client.destroy();
    listener.pass(UNASKED_MS + 1);
    await left();
  });

  test("with a long unread body, after some time", async () => {
    const { serve, left, respond } = watched();
    await start(serve);
    client.send(postText("/", "Content-Length: 300000"), Buffer.alloc(200_000));
    await respond();
    await eventually(() => client.unsentBytes(), { equals: 0 });
    client.destroy();
    listener.pass(UNASKED_MS + 1);
    await left();
  });

  test("with a long body that was unread when the response began", async () => {
    const left = Promise.withResolvers<void>();
    await start(() => new StreamedResponse("", streamSource({ abort: left.resolve })));
    client.send(postText("/", "Content-Length: 300000"), Buffer.alloc(200_000));
    await client.waitForText("HTTP/1.1 200");
    await eventually(() => client.unsentBytes(), { equals: 0 });
    client.destroy();
    await left.promise;
  });
});

describe("a long unread body", () => {
  test("is discarded after some time, and the connection serves the next request", async () => {
    const begun = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    await start(async ({ target, body }) => {
      if (target === "/b") return textResponse("<b>");
      begun.resolve();
      await gate.promise;
      const read = await body?.whole();
      return textResponse(`<${read && wholeText(read)}>`);
    });
    // More than the kernel buffers.
    client.send(postText("/a", "Content-Length: 40000000"), Buffer.alloc(40_000_000));
    await begun.promise;
    listener.pass(UNASKED_MS + 1);
    await eventually(() => client.unsentBytes(), { equals: 0 });
    gate.resolve();
    client.send(getText("/b"));
    expect(await client.waitForText("<b>")).toContain("<gone>");
  });

  test("is still awaited if it is short", async () => {
    const begun = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    await start(async ({ body }) => {
      begun.resolve();
      await gate.promise;
      const read = await body?.whole();
      return textResponse(`<${read && wholeText(read)}>`);
    });
    client.send(postText("/", "Content-Length: 5"), "he");
    await begun.promise;
    listener.pass(UNASKED_MS + 1);
    await listener.nextCheck();
    gate.resolve();
    client.send("llo");
    await client.waitForText("<hello>");
  });
});

describe("pipelined requests", () => {
  test("do not block the event loop", async () => {
    let served = 0;
    let servedBefore = 0;
    await start(({ target }) => {
      if (target === "/0")
        setImmediate(() => {
          servedBefore = served;
        });
      served++;
      return textResponse(`<${target}>`);
    });
    const paths = Array.from({ length: 1_000 }, (_, i) => `/${i}`);
    client.send(paths.map((path) => getText(path)).join(""));
    const received = await client.waitForText("</999>");
    expect([...received.matchAll(/<(.*?)>/g)].map((match) => match[1])).toEqual(paths);
    expect(servedBefore).toBeGreaterThan(0);
    expect(servedBefore).toBeLessThanOrEqual(64);
  });

  test("stay in the kernel buffers when they are many, and are served later", async () => {
    const slow = Promise.withResolvers<HttpResponse>();
    let served = 0;
    await start(({ target }) => {
      served++;
      return target === "/a" ? slow.promise : textResponse(`<${target}>`);
    });
    client.send(getText("/a"));
    await eventually(() => served, { equals: 1 });
    // More than the kernel buffers.
    const padding = `X-Padding: ${"x".repeat(2_000)}`;
    client.send(getText("/b", padding).repeat(5_000), getText("/last"));
    await arrived();
    await listener.nextCheck();
    expect(client.unsentBytes()).toBeGreaterThan(0);
    slow.resolve(textResponse("<a>"));
    const received = await client.waitForText("</last>");
    expect([received.split("</b>").length - 1, served]).toEqual([5_000, 5_002]);
  });

  test("above the limit behind a slow request are dropped, and the connection ends", async () => {
    const { serve, respond, paths } = watched();
    await start(serve);
    client.send(getText("/a"));
    const give = await respond();
    client.send(getText("/b").repeat(50_000));
    await arrived();
    listener.pass(UNASKED_MS + 1);
    await eventually(() => client.unsentBytes(), { equals: 0 });
    await listener.nextCheck();
    await listener.nextCheck();
    give(textResponse("<a>"));
    expect(await client.end()).toMatch(/connection: close.*<a>$/s);
    expect([paths, client.ending()]).toEqual([["/a"], "closed"]);
  });

  test("are not read while a response is not read", async () => {
    await start(() => textResponse("x".repeat(60_000)));
    client.pause();
    // More than the kernel buffers.
    client.send(getText("/", `X-Padding: ${"x".repeat(15_000)}`).repeat(1_000));
    await arrived();
    await listener.nextCheck();
    expect(client.unsentBytes()).toBeGreaterThan(0);
    client.resume();
    await eventually(() => client.unsentBytes(), { equals: 0 });
  });

  test("do not change the body of the request before them", async () => {
    const bodies: Part[] = [];
    await start(async ({ body }) => {
      const read = await body?.whole();
      if (read !== undefined && !("kind" in read)) bodies.push(read);
      // As code that has finished with a long body does.
      if (bodies[1] !== undefined) freeBytes(bodies[1].bytes);
      return textResponse("<answer>");
    });
    client.send(
      `${postText("/a", "Content-Length: 5000")}${"a".repeat(5_000)}${postText("/b", "Content-Length: 50000")}${"b".repeat(50_000)}`,
    );
    await eventually(() => client.received().split("<answer>").length, { equals: 3 });
    expect(Buffer.from(bodies[0] ? partBytes(bodies[0]) : []).toString()).toBe("a".repeat(5_000));
  });
});

test("a head in single bytes is served, and not validated before its end", async () => {
  await start(({ target }) => textResponse(`<${target}>`));
  for (const byte of getText("/crumbs", "X-A: 1", "X-B: 2")) client.send(byte);
  await client.waitForText("</crumbs>");
  client.send("GET / HTTP/1.1\r\n");
  await arrived();
  client.send("Host : gw\r\n");
  await arrived();
  expect(client.received()).not.toContain("malformed");
  client.send("\r\n");
  expect(await client.end()).toContain("malformed: ");
});

test("a protocol upgrade with a body is refused, however much of it is here", async () => {
  for (const isTogether of [true, false]) {
    let isOpened = false;
    await start(
      async () =>
        new Upgrade(Buffer.from("HTTP/1.1 101 Switching Protocols\r\n\r\n"), () => {
          isOpened = true;
          return { onData() {}, onDrain() {}, onClose() {} };
        }),
    );
    const head = getText("/", "Content-Length: 4");
    client.send(isTogether ? `${head}BODYframe` : head);
    expect(await client.end()).toContain("malformed: ");
    client.send("BODYframe");
    expect([isOpened, client.ending()]).toEqual([false, "closed"]);
    client.destroy();
    listener.closeNow();
  }
});

test("a request during shutdown is not begun, and the response before it is complete", async () => {
  const begun = Promise.withResolvers<{ sink: StreamSink; connection: ServerConnection }>();
  const paths: string[] = [];
  await start(({ target, peer }) => {
    paths.push(target);
    if (!(peer instanceof ServerConnection)) throw new Error("not on a connection");
    return new StreamedResponse(
      "",
      streamSource({ flowTo: (sink) => begun.resolve({ sink, connection: peer }) }),
    );
  });
  client.pause();
  client.send(getText("/a"));
  const { sink, connection } = await begun.promise;
  let bytes = 0;
  // Fewer bytes are buffered than would delay the next request.
  for (const piece = Buffer.alloc(16_000, "x"); connection.bufferedBytes === 0; bytes += piece.length)
    sink.data(wholePart(piece));
  sink.end([]);
  void listener.close();
  client.send(getText("/b"));
  await listener.nextCheck();
  client.resume();
  const received = await client.end();
  expect([paths, client.ending(), received.split("x").length - 1]).toEqual([["/a"], "closed", bytes]);
});

test("an ended stream writes nothing into the next response", async () => {
  const sinks: StreamSink[] = [];
  await start(() => new StreamedResponse("", streamSource({ flowTo: (sink) => void sinks.push(sink) })));
  client.send(getText("/a") + getText("/b"));
  const first = await eventually(() => sinks[0]);
  first.data(wholePart(Buffer.from("one")));
  first.end([]);
  const second = await eventually(() => sinks[1]);
  first.data(wholePart(Buffer.from("late")));
  first.end([]);
  second.data(wholePart(Buffer.from("two")));
  second.end([]);
  const received = await client.waitForText("3\r\ntwo\r\n0\r\n\r\n");
  expect(received).not.toContain("late");
  expect(received.split("0\r\n\r\n")).toHaveLength(3);
});

describe("a batched response", () => {
  /** Even if single-write batches of other tests have disabled batching. */
  const expectCompany = () => {
    while (writeBatcher.reserve(1) < 0);
  };

  test.each([
    [
      "a stream",
      () => new StreamedResponse("", streamSource({ flowTo: (sink) => sink.end([]) })),
      "0\r\n\r\n",
    ],
    [
      "an upgraded protocol",
      () => new Upgrade(Buffer.from("HTTP/1.1 101 OK\r\n\r\n"), () => PROTOCOL),
      "101 OK\r\n\r\n",
    ],
  ] as const)("is sent before %s that follows it", async (_what, second, end) => {
    await start(({ target }) => (target === "/a" ? textResponse("first") : second()));
    expectCompany();
    client.send(getText("/a") + getText("/b"));
    const received = await client.waitForText(end);
    expect(received.indexOf("first")).toBeGreaterThan(0);
    expect(received.indexOf("first")).toBeLessThan(received.lastIndexOf("HTTP/1.1"));
  });

  test("is sent even if the next request breaks the connection", async () => {
    await start(({ target }) => {
      if (target === "/a") return textResponse("first");
      throw new Error("a bug");
    });
    expectCompany();
    client.send(getText("/a") + getText("/b"));
    expect(await client.end()).toContain("first");
  });

  test("counts as buffered bytes of a client that does not read", async () => {
    const connections = new Set<ServerConnection>();
    let asked = 0;
    await start(({ peer }) => {
      asked++;
      if (peer instanceof ServerConnection) connections.add(peer);
      return textResponse("x".repeat(15_000));
    });
    client.pause();
    expectCompany();
    client.send(getText("/").repeat(5_000));
    await eventually(() => [...connections].some(({ bufferedBytes }) => bufferedBytes > 0));
    expect(await untilStill(() => asked, 50)).toBeLessThan(5_000);
    const [connection] = connections;
    expect(connection?.bufferedBytes).toBeLessThan(100_000);
  });
});

const PROTOCOL = { onData() {}, onDrain() {}, onClose() {} };

/** Waits until everything sent before was read: another client that connected later has its response. */
async function arrived(): Promise<void> {
  const other = await dial(listener.port);
  other.send("nonsense\r\n\r\n");
  await other.end();
  other.destroy();
}
