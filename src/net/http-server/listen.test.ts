import { afterEach, describe, expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { wholePart } from "../../base/parts.ts";
import { type HttpResponse, StreamedResponse, type StreamSink, WholeResponse } from "../wire/http-message.ts";
import { Upgrade } from "./incoming-request.ts";
import {
  dial,
  listenForTest,
  type RawClient,
  streamSource,
  type TestListener,
  textResponse,
} from "./listen.test-support.ts";
import type { ListenOptions } from "./listen.ts";

const HEAD_MS = 100;
const IDLE_MS = 1_000;
const LINGER_MS = 500;
const STALL_MS = 5_000;
const LIMITS = { headMs: HEAD_MS, idleMs: IDLE_MS, lingerMs: LINGER_MS, stallMs: STALL_MS };

let listener: TestListener;
let client: RawClient;

async function start(serve: ListenOptions["serve"]) {
  listener = listenForTest(serve, LIMITS);
  client = await dial(listener.port);
}

afterEach(() => {
  client.destroy();
  listener.closeNow();
});

const GET = "GET / HTTP/1.1\r\nHost: gw\r\n\r\n";
const post = (...fields: string[]) => ["POST / HTTP/1.1", "Host: gw", ...fields, "", ""].join("\r\n");
const LONG = Buffer.alloc(20_000_000, "x");

/** Advances the clock and waits for a check of all connections. */
async function pass(ms: number): Promise<void> {
  listener.pass(ms);
  await listener.nextCheck();
}

/** Requests that wait until the test responds. */
function byHand() {
  const waiting: ((response: HttpResponse | Upgrade) => void)[] = [];
  const serve = () => new Promise<HttpResponse | Upgrade>((resolve) => waiting.push(resolve));
  const next = () => eventually(() => waiting.shift());
  return { serve, next };
}

function open(): StreamedResponse & { sink: Promise<StreamSink> } {
  const flowing = Promise.withResolvers<StreamSink>();
  const response = new StreamedResponse("", streamSource({ flowTo: flowing.resolve }));
  return Object.assign(response, { sink: flowing.promise });
}

describe("a connection is closed", () => {
  test("gracefully after the idle timeout", async () => {
    await start(() => textResponse("<body>"));
    await pass(IDLE_MS);
    expect(client.ending()).toBe("open");
    client.send(GET);
    await client.waitForText("<body>");
    await pass(IDLE_MS);
    expect(client.ending()).toBe("open");
    await pass(1);
    await client.end();
    expect(client.ending()).toBe("closed");
  });

  test("with an error if a head is incomplete after its timeout, even if bytes keep arriving", async () => {
    await start(() => textResponse("<body>"));
    client.send("GET / HTTP/1.1\r\n");
    await arrived();
    await pass(HEAD_MS);
    client.send("Host: gw\r\n");
    await arrived();
    expect(client.received()).toBe("");
    await pass(1);
    expect(await client.end()).toContain("late: ");
    expect(client.ending()).toBe("closed");
  });

  test("but not for an empty line that arrives in two parts", async () => {
    await start(() => textResponse("<body>"));
    client.send("\r");
    await arrived();
    client.send("\n");
    await arrived();
    await pass(HEAD_MS + 1);
    client.send(GET);
    expect(await client.waitForText("<body>")).not.toContain("late");
  });

  test("if the client keeps sending long after the last response", async () => {
    await start(() => textResponse("<body>"));
    client.send(post("Connection: close", "Content-Length: 1000000"), "x");
    await client.waitForText("<body>");
    await pass(LINGER_MS);
    client.send("y");
    await arrived();
    expect(client.ending()).toBe("closed");
    await pass(1);
    await eventually(() => {
      client.send("z");
      return client.ending() === "reset";
    });
  });

  test("if an unread body does not end in time", async () => {
    await start(() => textResponse("<body>"));
    client.send(post("Content-Length: 1000000"), "x");
    await client.waitForText("<body>");
    await pass(LINGER_MS + 1);
    await client.end();
    expect(client.ending()).toBe("reset");
  });

  test("if its client reads nothing of the response for too long", async () => {
    await start(() => new WholeResponse(200, "", LONG));
    client.pause();
    client.send(GET);
    await arrived();
    await pass(STALL_MS);
    await pass(1);
    client.resume();
    await client.end();
    expect([client.ending(), client.received().length < LONG.length]).toEqual(["reset", true]);
  });
});

describe("a connection stays open", () => {
  test("while a request is served, for any time and any body framing", async () => {
    const { serve, next } = byHand();
    await start(serve);
    for (const body of [
      GET,
      `${post("Content-Length: 2")}hi`,
      `${post("Transfer-Encoding: chunked")}2\r\nhi\r\n0\r\n\r\n`,
    ]) {
      const before = client.received().length;
      client.send(body);
      const respond = await next();
      await pass(1_000_000);
      respond(textResponse("<body>"));
      await eventually(() => client.received().slice(before).includes("<body>"));
    }
  });

  test("while its client reads the last response slowly", async () => {
    await start(() => new WholeResponse(200, "", LONG));
    client.pause();
    client.send(post("Connection: close"));
    await arrived();
    await pass(LINGER_MS + 1);
    client.resume();
    const received = await client.end();
    expect([client.ending(), received.length > LONG.length]).toEqual(["closed", true]);
  });

  test("while it uses an upgraded protocol", async () => {
    const closed = Promise.withResolvers<void>();
    const protocol = { onData() {}, onDrain() {}, onClose: () => closed.resolve() };
    await start(() => new Upgrade(Buffer.from("HTTP/1.1 101 Switching Protocols\r\n\r\n"), () => protocol));
    client.send(GET);
    await client.waitForText("101");
    await pass(1_000_000);
    expect(client.ending()).toBe("open");
    client.destroy();
    await closed.promise;
  });
});

describe("closing the listener", () => {
  test("closes idle connections at once, including partial heads, and accepts no new ones", async () => {
    await start(() => textResponse(""));
    const busy = await dial(listener.port);
    busy.send("GET / HTTP/1.1\r\n");
    await arrived();
    await listener.close();
    await Promise.all([client.end(), busy.end()]);
    expect([client.ending(), busy.ending()]).toEqual(["closed", "closed"]);
    await expect(fetch(listener.url)).rejects.toThrow();
    busy.destroy();
  });

  test("lets each request finish with Connection: close", async () => {
    const { serve, next } = byHand();
    await start(serve);
    client.send(GET);
    const respond = await next();
    let isClosed = false;
    const closing = listener.close().then(() => {
      isClosed = true;
    });
    await listener.nextCheck();
    expect(isClosed).toBe(false);
    respond(textResponse("<body>"));
    expect(await client.end()).toMatch(/connection: close.*<body>/s);
    expect(client.ending()).toBe("closed");
    await closing;
  });

  test("lets streams in flight finish", async () => {
    const { serve, next } = byHand();
    await start(serve);
    client.send(GET);
    const stream = open();
    (await next())(stream);
    const sink = await stream.sink;
    sink.data(wholePart(Buffer.from("one")));
    await client.waitForText("one");
    const closing = listener.close();
    sink.data(wholePart(Buffer.from("two")));
    sink.end([]);
    expect(await client.end()).toEndWith("3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
    await closing;
  });

  test("resets the remaining connections when cut is called", async () => {
    const { serve, next } = byHand();
    await start(serve);
    client.send(GET);
    await next();
    const closing = listener.close();
    listener.closeNow();
    await closing;
    await client.end();
    expect(client.ending()).toBe("reset");
  });
});

describe("a connection without any byte", () => {
  test("is closed sooner than an idle connection between two requests", async () => {
    listener = listenForTest(() => textResponse("<body>"), { ...LIMITS, firstByteMs: 300 });
    client = await dial(listener.port);
    const spoken = await dial(listener.port);
    spoken.send(GET);
    await spoken.waitForText("<body>");
    await pass(301);
    expect(await client.end()).toBe("");
    expect([client.ending(), spoken.ending()]).toEqual(["closed", "open"]);
    await pass(IDLE_MS);
    await spoken.end();
    spoken.destroy();
  });

  test("or with empty lines only is closed as well", async () => {
    listener = listenForTest(() => textResponse("<body>"), { ...LIMITS, firstByteMs: 300 });
    client = await dial(listener.port);
    client.send("\r\n\r\n\r");
    await pass(301);
    expect(await client.end()).toBe("");
  });
});

describe("the connection limit", () => {
  /** Sends a request on a new connection and returns the connection after its response. */
  async function clientOfResponse(): Promise<RawClient> {
    const opened = await dial(listener.port);
    opened.send(GET);
    await opened.waitForText("<body>");
    return opened;
  }

  test("closes the longest idle connection for a new one", async () => {
    listener = listenForTest(() => textResponse("<body>"), { max: 3 });
    client = await clientOfResponse();
    await pass(10);
    const second = await clientOfResponse();
    await pass(10);
    const third = await clientOfResponse();
    await pass(10);
    client.send(GET);
    await eventually(() => client.received().split("<body>").length, { equals: 3 });
    await pass(10);
    const fourth = await clientOfResponse();
    await second.end();
    expect([client, third, fourth].map((one) => one.ending())).toEqual(["open", "open", "open"]);
    const fifth = await clientOfResponse();
    await third.end();
    for (const one of [second, third, fourth, fifth]) one.destroy();
  });

  test("closes a lingering connection for a new one", async () => {
    listener = listenForTest(() => textResponse("<body>"), { max: 1 });
    client = await dial(listener.port);
    client.send(post("Connection: close"));
    await client.end();
    const second = await clientOfResponse();
    second.destroy();
  });

  test("closes a connection with an incomplete head for a new one", async () => {
    listener = listenForTest(() => textResponse("<body>"), { max: 1 });
    client = await dial(listener.port);
    client.send("GET / HT");
    await pass(10);
    const second = await clientOfResponse();
    expect(await client.end()).toBe("");
    second.destroy();
  });

  test("closes authenticated connections last, and never with a request in flight", async () => {
    const gate = Promise.withResolvers<void>();
    let waiting = 0;
    listener = listenForTest(
      async ({ target, peer }) => {
        if (target !== "/stranger") peer.authenticated();
        if (target === "/slow") {
          waiting++;
          await gate.promise;
        }
        return textResponse("<body>");
      },
      { max: 3 },
    );
    client = await dial(listener.port);
    client.send(GET.replace("/", "/slow"));
    await eventually(() => waiting, { equals: 1 });
    await pass(10);
    const idle = await clientOfResponse();
    await pass(10);
    const stranger = await dial(listener.port);
    stranger.send(GET.replace("/", "/stranger"));
    await stranger.waitForText("<body>");
    await pass(10);
    const fourth = await clientOfResponse();
    await stranger.end();
    expect(idle.ending()).toBe("open");
    const fifth = await clientOfResponse();
    await idle.end();
    gate.resolve();
    await client.waitForText("<body>");
    for (const one of [stranger, idle, fourth, fifth]) one.destroy();
  });

  test("closes a new connection if all others wait for a response", async () => {
    const { serve, next } = byHand();
    listener = listenForTest(
      (request) => {
        request.peer.authenticated();
        return serve();
      },
      { max: 1 },
    );
    client = await dial(listener.port);
    client.send(GET);
    const give = await next();
    const second = await dial(listener.port);
    expect(await second.end()).toBe("");
    give(textResponse("<body>"));
    await client.waitForText("<body>");
    second.destroy();
  });
});

describe("connections of one address block", () => {
  test("are limited to half of all, except for a trusted proxy", async () => {
    for (const [isProxy, openMax] of [
      [false, 2],
      [true, 4],
    ] as const) {
      listener = listenForTest(
        () => textResponse("<body>"),
        { max: 4 },
        undefined,
        () => isProxy,
      );
      const clients: RawClient[] = [];
      for (let i = 0; i < 4; i++) {
        clients.push(await dial(listener.port));
        await pass(10);
      }
      await eventually(() => clients.filter((one) => one.ending() === "open").length === openMax);
      client = clients[3] as RawClient;
      client.send(GET);
      await client.waitForText("<body>");
      for (const one of clients) one.destroy();
      listener.closeNow();
    }
  });
});

test("a listener reports its address", async () => {
  await start(() => textResponse("<body>"));
  expect(listener.hostname).toBe("127.0.0.1");
  expect(await (await fetch(`http://127.0.0.1:${listener.port}/`)).text()).toBe("<body>");
});

/** Waits until everything sent before was read: another client that connected later has its response. */
async function arrived(): Promise<void> {
  const other = await dial(listener.port);
  other.send("nonsense\r\n\r\n");
  await other.end();
  other.destroy();
}
