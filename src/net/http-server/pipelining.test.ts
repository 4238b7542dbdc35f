/** Tests of requests that are sent before their turn, and of bodies without a reader. */

import { afterEach, describe, expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { freeBytes } from "../wire/bytes.ts";
import { type ClientSink, type HttpResponse, StreamedResponse } from "../wire/http-message.ts";
import { type Part, partBytes, wholePart } from "../wire/parts.ts";
import { writeBatcher } from "../wire/write-batcher.ts";
import { ServerConnection } from "./connection.ts";
import { type IncomingRequest, Upgrade } from "./incoming-request.ts";
import {
  dial,
  getText,
  listenForTest,
  postText,
  type RawClient,
  type TestListener,
  textAnswer,
  wholeText,
} from "./listen.test-support.ts";
import type { ListenOptions } from "./listen.ts";

const UNASKED_MS = 100;

let listener: TestListener;
let client: RawClient;

async function start(serve: ListenOptions["serve"]) {
  listener = listenForTest(serve, { unaskedMs: UNASKED_MS });
  client = await dial(listener.port);
}

afterEach(() => {
  client.leave();
  listener.cut();
});

/** A handler that the test controls and that reports when the client of a request disconnects. */
function watched() {
  const paths: string[] = [];
  const answers: ((answer: HttpResponse) => void)[] = [];
  let hasLeft = false;
  const serve = ({ target, signal }: IncomingRequest) => {
    paths.push(target);
    signal.addEventListener("abort", () => {
      hasLeft = true;
    });
    return new Promise<HttpResponse>((resolve) => answers.push(resolve));
  };
  return {
    serve,
    paths,
    answer: () => eventually(() => answers.shift()),
    left: () => eventually(() => hasLeft),
  };
}

describe("a client that leaves is seen", () => {
  test.each([1_000, 40_000])("with %d bytes sent before their turn", async (length) => {
    const { serve, left, answer } = watched();
    await start(serve);
    client.send(getText("/a"));
    await answer();
    client.send(postText("/b", `Content-Length: ${length}`), Buffer.alloc(length));
    await eventually(() => client.unsentBytes() === 0);
    client.leave();
    await left();
  });

  test.each([200_000, 2_000_000])(
    "with %d bytes that wait in the network, after some time",
    async (length) => {
      const { serve, left, answer } = watched();
      await start(serve);
      client.send(getText("/a"));
      await answer();
      client.send(postText("/b", `Content-Length: ${length}`), Buffer.alloc(length));
      await arrived();
      client.leave();
      listener.pass(UNASKED_MS + 1);
      await left();
    },
  );

  test("with a long body that nobody asks for, after some time", async () => {
    const { serve, left, answer } = watched();
    await start(serve);
    client.send(postText("/", "Content-Length: 300000"), Buffer.alloc(200_000));
    await answer();
    await eventually(() => client.unsentBytes() === 0);
    client.leave();
    listener.pass(UNASKED_MS + 1);
    await left();
  });

  test("with a long body that nobody asked for before the answer began", async () => {
    const left = Promise.withResolvers<void>();
    await start(() => new StreamedResponse("", { flowTo() {}, leave: () => left.resolve() }));
    client.send(postText("/", "Content-Length: 300000"), Buffer.alloc(200_000));
    await client.hears("HTTP/1.1 200");
    await eventually(() => client.unsentBytes() === 0);
    client.leave();
    await left.promise;
  });
});

describe("a long body that nobody asks for", () => {
  test("is gone after some time, and the connection serves on behind it", async () => {
    const begun = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    await start(async ({ target, body }) => {
      if (target === "/b") return textAnswer("<b>");
      begun.resolve();
      await gate.promise;
      const read = await body?.whole();
      return textAnswer(`<${read && wholeText(read)}>`);
    });
    // More than the kernel buffers.
    client.send(postText("/a", "Content-Length: 40000000"), Buffer.alloc(40_000_000));
    await begun.promise;
    listener.pass(UNASKED_MS + 1);
    await eventually(() => client.unsentBytes() === 0);
    gate.resolve();
    client.send(getText("/b"));
    expect(await client.hears("<b>")).toContain("<gone>");
  });

  test("is waited for where it is short", async () => {
    const begun = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    await start(async ({ body }) => {
      begun.resolve();
      await gate.promise;
      const read = await body?.whole();
      return textAnswer(`<${read && wholeText(read)}>`);
    });
    client.send(postText("/", "Content-Length: 5"), "he");
    await begun.promise;
    listener.pass(UNASKED_MS + 1);
    await listener.looked();
    gate.resolve();
    client.send("llo");
    await client.hears("<hello>");
  });
});

describe("requests that come before their turn", () => {
  test("let everybody else have theirs", async () => {
    let served = 0;
    let servedBefore = 0;
    await start(({ target }) => {
      if (target === "/0")
        setImmediate(() => {
          servedBefore = served;
        });
      served++;
      return textAnswer(`<${target}>`);
    });
    const paths = Array.from({ length: 1_000 }, (_, i) => `/${i}`);
    client.send(paths.map((path) => getText(path)).join(""));
    const heard = await client.hears("</999>");
    expect([...heard.matchAll(/<(.*?)>/g)].map((match) => match[1])).toEqual(paths);
    expect(servedBefore).toBeGreaterThan(0);
    expect(servedBefore).toBeLessThanOrEqual(64);
  });

  test("wait in the network when they are many, and are served all the same", async () => {
    const slow = Promise.withResolvers<HttpResponse>();
    let served = 0;
    await start(({ target }) => {
      served++;
      return target === "/a" ? slow.promise : textAnswer(`<${target}>`);
    });
    client.send(getText("/a"));
    await eventually(() => served === 1);
    // More than the kernel buffers.
    const padding = `X-Padding: ${"x".repeat(2_000)}`;
    client.send(getText("/b", padding).repeat(5_000), getText("/last"));
    await arrived();
    await listener.looked();
    expect(client.unsentBytes()).toBeGreaterThan(0);
    slow.resolve(textAnswer("<a>"));
    const heard = await client.hears("</last>");
    expect([heard.split("</b>").length - 1, served]).toEqual([5_000, 5_002]);
  });

  test("are not served when they are many and the one before them takes long, and the connection ends with it", async () => {
    const { serve, answer, paths } = watched();
    await start(serve);
    client.send(getText("/a"));
    const give = await answer();
    client.send(getText("/b").repeat(50_000));
    await arrived();
    listener.pass(UNASKED_MS + 1);
    await eventually(() => client.unsentBytes() === 0);
    await listener.looked();
    await listener.looked();
    give(textAnswer("<a>"));
    expect(await client.end()).toMatch(/connection: close.*<a>$/s);
    expect([paths, client.ending()]).toEqual([["/a"], "closed"]);
  });

  test("are read no further while an answer is not taken", async () => {
    await start(() => textAnswer("x".repeat(60_000)));
    client.stopTaking();
    // More than the kernel buffers.
    client.send(getText("/", `X-Padding: ${"x".repeat(15_000)}`).repeat(1_000));
    await arrived();
    await listener.looked();
    expect(client.unsentBytes()).toBeGreaterThan(0);
    client.goOnTaking();
    await eventually(() => client.unsentBytes() === 0);
  });

  test("keep the body of the one before them as it was", async () => {
    const bodies: Part[] = [];
    await start(async ({ body }) => {
      const read = await body?.whole();
      if (read !== undefined && !("kind" in read)) bodies.push(read);
      // As the code that has finished with a long body does.
      if (bodies[1] !== undefined) freeBytes(bodies[1].bytes);
      return textAnswer("<answer>");
    });
    client.send(
      `${postText("/a", "Content-Length: 5000")}${"a".repeat(5_000)}${postText("/b", "Content-Length: 50000")}${"b".repeat(50_000)}`,
    );
    await eventually(() => client.heard().split("<answer>").length === 3);
    expect(Buffer.from(bodies[0] ? partBytes(bodies[0]) : []).toString()).toBe("a".repeat(5_000));
  });
});

test("a head in crumbs is served, and is not judged before its end", async () => {
  await start(({ target }) => textAnswer(`<${target}>`));
  for (const byte of getText("/crumbs", "X-A: 1", "X-B: 2")) client.send(byte);
  await client.hears("</crumbs>");
  client.send("GET / HTTP/1.1\r\n");
  await arrived();
  client.send("Host : gw\r\n");
  await arrived();
  expect(client.heard()).not.toContain("malformed");
  client.send("\r\n");
  expect(await client.end()).toContain("malformed: ");
});

test("a change of protocol with a body is refused, however much of it is here", async () => {
  for (const isTogether of [true, false]) {
    let isOpened = false;
    await start(
      async () =>
        new Upgrade(Buffer.from("HTTP/1.1 101 Switching Protocols\r\n\r\n"), () => {
          isOpened = true;
          return { received() {}, drained() {}, closed() {} };
        }),
    );
    const head = getText("/", "Content-Length: 4");
    client.send(isTogether ? `${head}BODYframe` : head);
    expect(await client.end()).toContain("malformed: ");
    client.send("BODYframe");
    expect([isOpened, client.ending()]).toEqual([false, "closed"]);
    client.leave();
    listener.cut();
  }
});

test("a request that comes while the process ends is not begun, and the answer before it is taken whole", async () => {
  const begun = Promise.withResolvers<{ sink: ClientSink; connection: ServerConnection }>();
  const paths: string[] = [];
  await start(({ target, peer }) => {
    paths.push(target);
    if (!(peer instanceof ServerConnection)) throw new Error("not on a connection");
    return new StreamedResponse("", {
      flowTo: (sink) => begun.resolve({ sink, connection: peer }),
      leave() {},
    });
  });
  client.stopTaking();
  client.send(getText("/a"));
  const { sink, connection } = await begun.promise;
  let bytes = 0;
  // Fewer bytes are buffered than would delay the next request.
  for (const piece = Buffer.alloc(16_000, "x"); connection.bufferedBytes === 0; bytes += piece.length)
    sink.write(wholePart(piece));
  sink.end([]);
  void listener.close();
  client.send(getText("/b"));
  await listener.looked();
  client.goOnTaking();
  const heard = await client.end();
  expect([paths, client.ending(), heard.split("x").length - 1]).toEqual([["/a"], "closed", bytes]);
});

test("a stream that has ended says nothing into the answer behind it", async () => {
  const sinks: ClientSink[] = [];
  await start(() => new StreamedResponse("", { flowTo: (sink) => void sinks.push(sink), leave() {} }));
  client.send(getText("/a") + getText("/b"));
  const first = await eventually(() => sinks[0]);
  first.write(wholePart(Buffer.from("one")));
  first.end([]);
  const second = await eventually(() => sinks[1]);
  first.write(wholePart(Buffer.from("late")));
  first.end([]);
  second.write(wholePart(Buffer.from("two")));
  second.end([]);
  const heard = await client.hears("3\r\ntwo\r\n0\r\n\r\n");
  expect(heard).not.toContain("late");
  expect(heard.split("0\r\n\r\n")).toHaveLength(3);
});

describe("an answer that waits for the end of the turn", () => {
  /** Even if single-write batches of other tests have disabled batching. */
  const expectCompany = () => {
    while (writeBatcher.roomFor(1) < 0);
  };

  test.each([
    ["a stream", () => new StreamedResponse("", { flowTo: (sink) => sink.end([]), leave() {} }), "0\r\n\r\n"],
    [
      "another protocol",
      () => new Upgrade(Buffer.from("HTTP/1.1 101 OK\r\n\r\n"), () => PROTOCOL),
      "101 OK\r\n\r\n",
    ],
  ] as const)("comes before %s behind it", async (_what, second, end) => {
    await start(({ target }) => (target === "/a" ? textAnswer("first") : second()));
    expectCompany();
    client.send(getText("/a") + getText("/b"));
    const heard = await client.hears(end);
    expect(heard.indexOf("first")).toBeGreaterThan(0);
    expect(heard.indexOf("first")).toBeLessThan(heard.lastIndexOf("HTTP/1.1"));
  });

  test("is sent although the request behind it breaks the connection", async () => {
    await start(({ target }) => {
      if (target === "/a") return textAnswer("first");
      throw new Error("a bug");
    });
    expectCompany();
    client.send(getText("/a") + getText("/b"));
    expect(await client.end()).toContain("first");
  });

  test("counts for what a client that takes nothing may have waiting", async () => {
    const connections = new Set<ServerConnection>();
    let asked = 0;
    await start(({ peer }) => {
      asked++;
      if (peer instanceof ServerConnection) connections.add(peer);
      return textAnswer("x".repeat(15_000));
    });
    client.stopTaking();
    expectCompany();
    client.send(getText("/").repeat(5_000));
    await eventually(() => [...connections].some(({ bufferedBytes }) => bufferedBytes > 0));
    for (let before = 0; before < asked; await Bun.sleep(50)) before = asked;
    const [connection] = connections;
    expect(asked).toBeLessThan(5_000);
    expect(connection?.bufferedBytes).toBeLessThan(100_000);
  });
});

const PROTOCOL = { received() {}, drained() {}, closed() {} };

/** Waits until everything sent before was read: another client that connected later has its response. */
async function arrived(): Promise<void> {
  const other = await dial(listener.port);
  other.send("nonsense\r\n\r\n");
  await other.end();
  other.leave();
}
