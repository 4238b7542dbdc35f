import { afterEach, describe, expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { type ClientSink, type HttpResponse, StreamedResponse, WholeResponse } from "../wire/http-message.ts";
import { wholePart } from "../wire/parts.ts";
import { Upgrade } from "./incoming-request.ts";
import { dial, listenForTest, type RawClient, type TestListener, textAnswer } from "./listen.test-support.ts";
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
  client.leave();
  listener.cut();
});

const GET = "GET / HTTP/1.1\r\nHost: gw\r\n\r\n";
const post = (...fields: string[]) => ["POST / HTTP/1.1", "Host: gw", ...fields, "", ""].join("\r\n");
const LONG = Buffer.alloc(20_000_000, "x");

/** Advances the clock and waits for a check of all connections. */
async function pass(ms: number): Promise<void> {
  listener.pass(ms);
  await listener.looked();
}

/** Requests that wait until the test responds. */
function byHand() {
  const waiting: ((answer: HttpResponse | Upgrade) => void)[] = [];
  const serve = () => new Promise<HttpResponse | Upgrade>((resolve) => waiting.push(resolve));
  const next = () => eventually(() => waiting.shift());
  return { serve, next };
}

function open(): StreamedResponse & { sink: Promise<ClientSink> } {
  const flowing = Promise.withResolvers<ClientSink>();
  const answer = new StreamedResponse("", { flowTo: (sink) => flowing.resolve(sink), leave() {} });
  return Object.assign(answer, { sink: flowing.promise });
}

describe("a connection is closed", () => {
  test("in order when nothing was asked for so long", async () => {
    await start(() => textAnswer("<answer>"));
    await pass(IDLE_MS);
    expect(client.ending()).toBe("open");
    client.send(GET);
    await client.hears("<answer>");
    await pass(IDLE_MS);
    expect(client.ending()).toBe("open");
    await pass(1);
    await client.end();
    expect(client.ending()).toBe("closed");
  });

  test("with words when a head does not come to its end, however busily it comes", async () => {
    await start(() => textAnswer("<answer>"));
    client.send("GET / HTTP/1.1\r\n");
    await arrived();
    await pass(HEAD_MS);
    client.send("Host: gw\r\n");
    await arrived();
    expect(client.heard()).toBe("");
    await pass(1);
    expect(await client.end()).toContain("late: ");
    expect(client.ending()).toBe("closed");
  });

  test("not for an empty line that comes in two parts", async () => {
    await start(() => textAnswer("<answer>"));
    client.send("\r");
    await arrived();
    client.send("\n");
    await arrived();
    await pass(HEAD_MS + 1);
    client.send(GET);
    expect(await client.hears("<answer>")).not.toContain("late");
  });

  test("when the client still sends, long after its last answer", async () => {
    await start(() => textAnswer("<answer>"));
    client.send(post("Connection: close", "Content-Length: 1000000"), "x");
    await client.hears("<answer>");
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

  test("when a body that nobody reads does not come to its end", async () => {
    await start(() => textAnswer("<answer>"));
    client.send(post("Content-Length: 1000000"), "x");
    await client.hears("<answer>");
    await pass(LINGER_MS + 1);
    await client.end();
    expect(client.ending()).toBe("reset");
  });

  test("when its client takes nothing of the answer for so long", async () => {
    await start(() => new WholeResponse(200, "", LONG));
    client.stopTaking();
    client.send(GET);
    await arrived();
    await pass(STALL_MS);
    await pass(1);
    client.goOnTaking();
    await client.end();
    expect([client.ending(), client.heard().length < LONG.length]).toEqual(["reset", true]);
  });
});

describe("a connection is kept", () => {
  test("while a request is served, however long that takes, wherever its body came", async () => {
    const { serve, next } = byHand();
    await start(serve);
    for (const body of [
      GET,
      `${post("Content-Length: 2")}hi`,
      `${post("Transfer-Encoding: chunked")}2\r\nhi\r\n0\r\n\r\n`,
    ]) {
      const before = client.heard().length;
      client.send(body);
      const answer = await next();
      await pass(1_000_000);
      answer(textAnswer("<answer>"));
      await eventually(() => client.heard().slice(before).includes("<answer>"));
    }
  });

  test("while its client takes the last answer, slowly", async () => {
    await start(() => new WholeResponse(200, "", LONG));
    client.stopTaking();
    client.send(post("Connection: close"));
    await arrived();
    await pass(LINGER_MS + 1);
    client.goOnTaking();
    const heard = await client.end();
    expect([client.ending(), heard.length > LONG.length]).toEqual(["closed", true]);
  });

  test("while it goes on in another language", async () => {
    const closed = Promise.withResolvers<void>();
    const protocol = { received() {}, drained() {}, closed: () => closed.resolve() };
    await start(() => new Upgrade(Buffer.from("HTTP/1.1 101 Switching Protocols\r\n\r\n"), () => protocol));
    client.send(GET);
    await client.hears("101");
    await pass(1_000_000);
    expect(client.ending()).toBe("open");
    client.leave();
    await closed.promise;
  });
});

describe("closing", () => {
  test("ends idle connections at once, half-sent heads too, and takes no new ones", async () => {
    await start(() => textAnswer(""));
    const busy = await dial(listener.port);
    busy.send("GET / HTTP/1.1\r\n");
    await arrived();
    await listener.close();
    await Promise.all([client.end(), busy.end()]);
    expect([client.ending(), busy.ending()]).toEqual(["closed", "closed"]);
    await expect(fetch(listener.url)).rejects.toThrow();
    busy.leave();
  });

  test("lets each request have its answer, told that it is the last", async () => {
    const { serve, next } = byHand();
    await start(serve);
    client.send(GET);
    const answer = await next();
    let isClosed = false;
    const closing = listener.close().then(() => {
      isClosed = true;
    });
    await listener.looked();
    expect(isClosed).toBe(false);
    answer(textAnswer("<answer>"));
    expect(await client.end()).toMatch(/connection: close.*<answer>/s);
    expect(client.ending()).toBe("closed");
    await closing;
  });

  test("lets streams that are under way come to their end", async () => {
    const { serve, next } = byHand();
    await start(serve);
    client.send(GET);
    const stream = open();
    (await next())(stream);
    const sink = await stream.sink;
    sink.write(wholePart(Buffer.from("one")));
    await client.hears("one");
    const closing = listener.close();
    sink.write(wholePart(Buffer.from("two")));
    sink.end([]);
    expect(await client.end()).toEndWith("3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
    await closing;
  });

  test("cuts off whoever is left when the time is over", async () => {
    const { serve, next } = byHand();
    await start(serve);
    client.send(GET);
    await next();
    const closing = listener.close();
    listener.cut();
    await closing;
    await client.end();
    expect(client.ending()).toBe("reset");
  });
});

describe("a connection on which no byte comes", () => {
  test("is closed sooner than one between two requests", async () => {
    listener = listenForTest(() => textAnswer("<answer>"), { ...LIMITS, firstByteMs: 300 });
    client = await dial(listener.port);
    const spoken = await dial(listener.port);
    spoken.send(GET);
    await spoken.hears("<answer>");
    await pass(301);
    expect(await client.end()).toBe("");
    expect([client.ending(), spoken.ending()]).toEqual(["closed", "open"]);
    await pass(IDLE_MS);
    await spoken.end();
    spoken.leave();
  });

  test("or only empty lines, is closed as well", async () => {
    listener = listenForTest(() => textAnswer("<answer>"), { ...LIMITS, firstByteMs: 300 });
    client = await dial(listener.port);
    client.send("\r\n\r\n\r");
    await pass(301);
    await client.end();
  });
});

describe("when there are as many connections as may be", () => {
  /** Sends a request on a new connection and returns the connection after its response. */
  async function answeredClient(): Promise<RawClient> {
    const opened = await dial(listener.port);
    opened.send(GET);
    await opened.hears("<answer>");
    return opened;
  }

  test("a further one is served, and the one that was idle for longest is closed", async () => {
    listener = listenForTest(() => textAnswer("<answer>"), { max: 3 });
    client = await answeredClient();
    await pass(10);
    const second = await answeredClient();
    await pass(10);
    const third = await answeredClient();
    await pass(10);
    client.send(GET);
    await eventually(() => client.heard().split("<answer>").length === 3);
    await pass(10);
    const fourth = await answeredClient();
    await second.end();
    expect([client, third, fourth].map((one) => one.ending())).toEqual(["open", "open", "open"]);
    const fifth = await answeredClient();
    await third.end();
    for (const one of [second, third, fourth, fifth]) one.leave();
  });

  test("one that lingers gives way to a further one", async () => {
    listener = listenForTest(() => textAnswer("<answer>"), { max: 1 });
    client = await dial(listener.port);
    client.send(post("Connection: close"));
    await client.end();
    const second = await answeredClient();
    second.leave();
  });

  test("one that sends its head slowly gives way to a further one", async () => {
    listener = listenForTest(() => textAnswer("<answer>"), { max: 1 });
    client = await dial(listener.port);
    client.send("GET / HT");
    await pass(10);
    const second = await answeredClient();
    await client.end();
    second.leave();
  });

  test("those of clients that have authenticated give way last, and never while a request is under way", async () => {
    const gate = Promise.withResolvers<void>();
    let waiting = 0;
    listener = listenForTest(
      async ({ target, peer }) => {
        if (target !== "/stranger") peer.authenticated();
        if (target === "/slow") {
          waiting++;
          await gate.promise;
        }
        return textAnswer("<answer>");
      },
      { max: 3 },
    );
    client = await dial(listener.port);
    client.send(GET.replace("/", "/slow"));
    await eventually(() => waiting === 1);
    await pass(10);
    const idle = await answeredClient();
    await pass(10);
    const stranger = await dial(listener.port);
    stranger.send(GET.replace("/", "/stranger"));
    await stranger.hears("<answer>");
    await pass(10);
    const fourth = await answeredClient();
    await stranger.end();
    expect(idle.ending()).toBe("open");
    const fifth = await answeredClient();
    await idle.end();
    gate.resolve();
    await client.hears("<answer>");
    for (const one of [stranger, idle, fourth, fifth]) one.leave();
  });

  test("and all of them wait for an answer, a further one is cut off", async () => {
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
    give(textAnswer("<answer>"));
    await client.hears("<answer>");
    second.leave();
  });
});

describe("connections of one block of addresses", () => {
  test("may not be more than half, unless the block is our proxy's", async () => {
    for (const [isProxy, openMax] of [
      [false, 2],
      [true, 4],
    ] as const) {
      listener = listenForTest(
        () => textAnswer("<answer>"),
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
      await client.hears("<answer>");
      for (const one of clients) one.leave();
      listener.cut();
    }
  });
});

test("a listener tells where it listens", async () => {
  await start(() => textAnswer("<answer>"));
  expect(listener.hostname).toBe("127.0.0.1");
  expect(await (await fetch(`http://127.0.0.1:${listener.port}/`)).text()).toBe("<answer>");
});

/** Waits until everything sent before was read: another client that connected later has its response. */
async function arrived(): Promise<void> {
  const other = await dial(listener.port);
  other.send("nonsense\r\n\r\n");
  await other.end();
  other.leave();
}
