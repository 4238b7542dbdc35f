import { afterEach, describe, expect, test } from "bun:test";
import { eventually } from "../../../test/eventually.ts";
import { type Answer, type ClientSink, StreamAnswer, WholeAnswer } from "../../wire/http-message.ts";
import { wholePart } from "../../wire/splice.ts";
import { Upgrade } from "./exchange.ts";
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

/** Passes by so much, and returns when all connections were looked at since. */
async function pass(ms: number): Promise<void> {
  listener.pass(ms);
  await listener.looked();
}

/** Requests that wait until the test answers them. */
function byHand() {
  const waiting: ((answer: Answer | Upgrade) => void)[] = [];
  const serve = () => new Promise<Answer | Upgrade>((resolve) => waiting.push(resolve));
  const next = () => eventually(() => waiting.shift());
  return { serve, next };
}

function open(): StreamAnswer & { sink: Promise<ClientSink> } {
  const flowing = Promise.withResolvers<ClientSink>();
  const answer = new StreamAnswer("", { flowTo: (sink) => flowing.resolve(sink), leave() {} });
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
    await start(() => new WholeAnswer(200, "", LONG));
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
    await start(() => new WholeAnswer(200, "", LONG));
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

describe("more connections than may be", () => {
  test("are cut off as they come, and the others are served", async () => {
    listener = listenForTest(() => textAnswer("<answer>"), { max: 2 });
    client = await dial(listener.port);
    const second = await dial(listener.port);
    second.send(GET);
    await second.hears("<answer>");
    const third = await dial(listener.port);
    third.send(GET);
    await third.end();
    expect(third.heard()).toBe("");
    client.send(GET);
    await client.hears("<answer>");
    second.leave();
    await eventually(async () => {
      const fourth = await dial(listener.port);
      fourth.send(GET);
      await eventually(() => fourth.heard() !== "" || fourth.ending() !== "open");
      fourth.leave();
      return fourth.heard().includes("<answer>");
    });
    third.leave();
  });

  test("count while they linger", async () => {
    listener = listenForTest(() => textAnswer("<answer>"), { max: 1 });
    client = await dial(listener.port);
    client.send(post("Connection: close"));
    await client.end();
    const second = await dial(listener.port);
    await second.end();
    expect(second.heard()).toBe("");
    second.leave();
  });
});

test("a listener tells where it listens", async () => {
  await start(() => textAnswer("<answer>"));
  expect(listener.hostname).toBe("127.0.0.1");
  expect(await (await fetch(`http://127.0.0.1:${listener.port}/`)).text()).toBe("<answer>");
});

/** What was sent before this was read: somebody else, who came later, has an answer. */
async function arrived(): Promise<void> {
  const other = await dial(listener.port);
  other.send("nonsense\r\n\r\n");
  await other.end();
  other.leave();
}
