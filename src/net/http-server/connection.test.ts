import { afterEach, describe, expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import type { HttpResponse } from "../wire/http-message.ts";
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
import type { SocketWriter } from "./socket-writer.ts";

let listener: TestListener;
let client: RawClient;

async function start(serve: ListenOptions["serve"], limits: Partial<ListenOptions["limits"]> = {}) {
  listener = listenForTest(serve, limits);
  client = await dial(listener.port);
}

afterEach(() => {
  client.leave();
  listener.cut();
});

/** Responds with the path of the request, and its body if it has one. */
async function echo({ target, body }: IncomingRequest): Promise<HttpResponse> {
  const read = await body?.whole();
  if (read === undefined) return textAnswer(`<${target}>`);
  return textAnswer(`<${target} ${wholeText(read)}>`);
}

const statusesIn = (heard: string) => [...heard.matchAll(/HTTP\/1\.1 (\d+) /g)].map((match) => match[1]);

/** The texts between angle brackets in the responses, in order. */
const answersIn = (heard: string) => [...heard.matchAll(/<(.*?)>/g)].map((match) => match[1]);

/** Each request waits until the test responds. */
function byHand() {
  const waiting = new Map<string, (answer: HttpResponse) => void>();
  const serve = ({ target }: IncomingRequest) =>
    new Promise<HttpResponse>((resolve) => waiting.set(target, resolve));
  return {
    serve,
    asked: () => [...waiting.keys()],
    answer: (path: string) => waiting.get(path)?.(textAnswer(`<${path}>`)),
  };
}

describe("a connection", () => {
  test("serves one request after the other", async () => {
    await start(echo);
    client.send(getText("/a"));
    await client.hears("</a>");
    client.send(postText("/b", "Content-Length: 5"), "hello");
    const heard = await client.hears("</b hello>");
    expect(heard).not.toContain("connection:");
  });

  test("does not begin a request before the one before it is answered", async () => {
    const { serve, asked, answer } = byHand();
    await start(serve);
    client.send(getText("/a") + getText("/b"), getText("/c"));
    await eventually(() => asked().length > 0);
    const other = await dial(listener.port);
    other.send(getText("/other"));
    await eventually(() => asked().includes("/other"));
    expect(asked()).toEqual(["/a", "/other"]);
    other.leave();
    for (const path of ["/a", "/b", "/c"]) {
      await eventually(() => asked().includes(path));
      answer(path);
    }
    expect(answersIn(await client.hears("</c>"))).toEqual(["/a", "/b", "/c"]);
  });

  test("serves thousands of requests that came at once, in order", async () => {
    await start(({ target }) => textAnswer(`<${target}>`));
    const paths = Array.from({ length: 5_000 }, (_, i) => `/${i}`);
    client.send(paths.map((path) => getText(path)).join(""));
    expect(answersIn(await client.hears("</4999>"))).toEqual(paths);
  });

  test("goes on when its client has taken what it asked for, and not before", async () => {
    let served = 0;
    await start(({ target }) => {
      served++;
      return textAnswer(`${"x".repeat(1_000_000)}<${target}>`);
    });
    client.stopTaking();
    const paths = Array.from({ length: 60 }, (_, i) => `/${i}`);
    client.send(paths.map((path) => getText(path)).join(""));
    await eventually(() => served > 0);
    await fetch(listener.url);
    expect(served).toBeLessThan(60);
    client.goOnTaking();
    expect(answersIn(await client.hears("</59>"))).toEqual(paths);
  });

  test("serves requests with bodies that came at once, in order", async () => {
    await start(echo);
    client.send(
      postText("/a", "Content-Length: 3") + "abc".concat(postText("/b", "Transfer-Encoding: chunked")),
      `2\r\nde\r\n0\r\n\r\n${getText("/c")}`,
    );
    expect(answersIn(await client.hears("</c>"))).toEqual(["/a abc", "/b de", "/c"]);
  });

  test("is within a request whose chunks came with its head, and begins no other", async () => {
    const { serve, asked, answer } = byHand();
    await start(serve);
    client.send(`${postText("/a", "Transfer-Encoding: chunked")}1\r\nx\r\n0\r\n\r\n${getText("/b")}`);
    await eventually(() => asked().length > 0);
    expect(asked()).toEqual(["/a"]);
    answer("/a");
    await eventually(() => asked().includes("/b"));
    answer("/b");
    expect(answersIn(await client.hears("</b>"))).toEqual(["/a", "/b"]);
  });

  test("understands requests wherever they are cut", async () => {
    await start(echo);
    const sent = `\r\n${postText("/a", "Content-Length: 2")}hi\r\n${postText("/b", "Transfer-Encoding: chunked")}1\r\nx\r\n0\r\n\r\n`;
    const clients = await Promise.all(Array.from(sent, () => dial(listener.port)));
    for (const [at, one] of clients.entries()) one.send(sent.slice(0, at));
    // When another connection has its response, the first parts were read.
    client.send(getText("/other"));
    await client.hears("</other>");
    for (const [at, one] of clients.entries()) one.send(sent.slice(at));
    for (const one of clients) {
      expect(answersIn(await one.hears("</b x>"))).toEqual(["/a hi", "/b x"]);
      one.leave();
    }
  });

  test("closes after the answer when the client asks for that", async () => {
    await start(echo);
    client.send(getText("/a", "Connection: close") + getText("/b"));
    const heard = await client.end();
    expect(heard).toContain("connection: close\r\n");
    expect([answersIn(heard), client.ending()]).toEqual([["/a"], "closed"]);
  });

  test("of HTTP/1.0 closes after the answer, unless the client asks to keep it", async () => {
    await start(echo);
    client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    expect(await client.hears("</a>")).toContain("connection: keep-alive\r\n");
    client.send("GET /b HTTP/1.0\r\n\r\n");
    expect(answersIn(await client.end())).toEqual(["/a", "/b"]);
  });

  test("tells its client's address, also when that has left", async () => {
    const left = Promise.withResolvers<string>();
    await start(({ peer, signal }) => {
      signal.addEventListener("abort", () => left.resolve(peer.address));
      return textAnswer(`<${peer.address}>`);
    });
    client.send(getText("/"));
    await client.hears("<127.0.0.1>");
    client.leave();
    expect(await left.promise).toBe("127.0.0.1");
  });

  test("tells its client's address to those who first ask when that has left", async () => {
    const left = Promise.withResolvers<string>();
    await start(({ peer, signal }) => {
      signal.addEventListener("abort", () => left.resolve(peer.address));
      return textAnswer("<answer>");
    });
    client.send(getText("/"));
    await client.hears("<answer>");
    client.leave();
    expect(await left.promise).toBe("127.0.0.1");
  });
});

describe("what is no request", () => {
  test.each([
    ["malformed", "GET / HTTP/1.1\r\nHost : gw\r\n\r\n"],
    ["malformed", postText("/", "Content-Length: 3", "Transfer-Encoding: chunked")],
    ["version", "GET / HTTP/3.0\r\n\r\n"],
    ["expectation", postText("/", "Expect: a miracle", "Content-Length: 3")],
    ["head_too_large", getText("/", `x: ${"x".repeat(20_000)}`)],
  ])("is refused as %s, and nothing behind it is read", async (kind, sent) => {
    const paths: string[] = [];
    await start(({ target }) => {
      paths.push(target);
      return textAnswer("served");
    });
    client.send(sent + getText("/behind"));
    const heard = await client.end();
    expect(heard).toContain(`${kind}: `);
    expect(heard).toContain("connection: close\r\n");
    expect([statusesIn(heard), paths, client.ending()]).toEqual([["400"], [], "closed"]);
  });

  test("is refused as head_too_large before its end, which may never come", async () => {
    await start(echo);
    client.send(`GET /${"x".repeat(20_000)}`);
    expect(await client.end()).toContain("head_too_large: ");
  });

  test("is refused after the answers to what came before it", async () => {
    await start(echo);
    client.send(`${getText("/a")}nonsense\r\n\r\n`);
    expect(await client.end()).toMatch(/<\/a>HTTP\/1.1 400 .*malformed/s);
  });
});

describe("a client that waits for a word before its body", () => {
  const waiting = (path: string) => postText(path, "Expect: 100-continue", "Content-Length: 5");

  test("is told to go on, once, when somebody wants it", async () => {
    await start(async ({ body }) => {
      let text = "";
      for (let read = await body?.next(); read instanceof Uint8Array; read = await body?.next()) {
        text += Buffer.from(read).toString();
      }
      return textAnswer(`<${text}>`);
    });
    client.send(waiting("/"));
    await client.hears("HTTP/1.1 100 Continue\r\n\r\n");
    client.send("he");
    client.send("llo");
    const heard = await client.hears("<hello>");
    expect(heard.split("100 Continue")).toHaveLength(2);
    expect(heard).not.toContain("connection: close");
  });

  test("is not told anything when the body came all the same", async () => {
    await start(echo);
    client.send(`${waiting("/a")}hello${waiting("/b")}he`);
    await client.hears("</a hello>");
    client.send("llo");
    expect(await client.hears("</b hello>")).not.toContain("100 Continue");
  });

  test("gets its answer and the end of the connection when nobody wants it", async () => {
    await start(() => textAnswer("no"));
    client.send(waiting("/"));
    expect(await client.end()).toContain("connection: close\r\n");
    client.send("hello", getText("/body-or-request"));
    expect([statusesIn(client.heard()), client.ending()]).toEqual([["200"], "closed"]);
  });
});

describe("a body that nobody reads", () => {
  const LONG = "x".repeat(3_000_000);

  test.each([
    ["of known length", [`Content-Length: ${LONG.length}`], LONG],
    ["in chunks", ["Transfer-Encoding: chunked"], `${LONG.length.toString(16)}\r\n${LONG}\r\n0\r\n\r\n`],
  ])("%s is thrown away after the answer, and the next request is served", async (_name, fields, sent) => {
    await start(({ target }) => textAnswer(`<${target}>`));
    client.send(postText("/a", ...fields));
    await client.hears("</a>");
    client.send(sent, getText("/b"));
    expect(answersIn(await client.hears("</b>"))).toEqual(["/a", "/b"]);
  });

  test("and whose framing is wrong ends the connection: nothing behind it is a request", async () => {
    await start(({ target }) => textAnswer(`<${target}>`));
    client.send(postText("/a", "Transfer-Encoding: chunked"));
    await client.hears("</a>");
    client.send("5\r\nhello!\r\n", getText("/b"));
    expect(answersIn(await client.end())).toEqual(["/a"]);
  });

  test("of a client that takes nothing before all of it is sent does not stop a long answer", async () => {
    await start(() => textAnswer(`${LONG.repeat(6)}<whole>`));
    client.stopTaking();
    client.send(postText("/", "Connection: close", `Content-Length: ${LONG.length * 6}`));
    for (let i = 0; i < 6; i++) client.send(LONG);
    await eventually(() => client.unsentBytes() === 0);
    client.goOnTaking();
    await client.hears("<whole>");
  });
});

describe("a body", () => {
  test("whose framing is wrong is broken for its reader, and the last of its connection", async () => {
    await start(echo);
    client.send(`${postText("/a", "Transfer-Encoding: chunked")}5\r\nhello!\r\n${getText("/b")}`);
    expect(answersIn(await client.end())).toEqual(["/a broken"]);
  });

  test("that nobody asks for at first is whole when somebody does", async () => {
    const gate = Promise.withResolvers<void>();
    await start(async ({ body }) => {
      await gate.promise;
      const read = await body?.whole();
      return textAnswer(`<${read && wholeText(read).length}>`);
    });
    client.send(postText("/", "Content-Length: 9000000"));
    for (let i = 0; i < 9; i++) client.send(new Uint8Array(1_000_000));
    await eventually(() => client.unsentBytes() < 9_000_000);
    gate.resolve();
    await client.hears("<9000000>");
  });

  test("that is taken more slowly than it comes leaves a connection that serves, and sees its client leave", async () => {
    const left = Promise.withResolvers<void>();
    await start(async ({ target, body, signal }) => {
      if (target === "/last") signal.addEventListener("abort", () => left.resolve());
      let bytes = 0;
      for (let read = await body?.next(); read instanceof Uint8Array; read = await body?.next()) {
        bytes += read.length;
        await new Promise((resolve) => setImmediate(resolve));
      }
      return target === "/last" ? left.promise.then(() => textAnswer("")) : textAnswer(`<${bytes}>`);
    });
    const chunk = `30d40\r\n${"x".repeat(200_000)}\r\n`;
    const body = `${chunk.repeat(10)}0\r\n\r\n`;
    client.send(postText("/a", "Transfer-Encoding: chunked"), body);
    await client.hears("<2000000>");
    client.send(postText("/b", "Transfer-Encoding: chunked"), body);
    await eventually(() => answersIn(client.heard()).length === 2);
    client.send(postText("/last", "Transfer-Encoding: chunked"), body);
    await eventually(() => client.unsentBytes() === 0);
    client.leave();
    await left.promise;
  });

  test("is gone when its client is", async () => {
    const read = Promise.withResolvers<unknown>();
    await start(async ({ body }) => {
      read.resolve(await body?.whole());
      return textAnswer("");
    });
    client.send(postText("/", "Content-Length: 10"), "half");
    client.leave();
    expect(await read.promise).toEqual({ kind: "gone" });
  });
});

describe("the signal of a request", () => {
  test("fires when its client leaves", async () => {
    const asked = Promise.withResolvers<IncomingRequest>();
    await start((request) => {
      asked.resolve(request);
      return new Promise<never>(() => {});
    });
    client.send(getText("/"));
    const { signal } = await asked.promise;
    expect(signal.aborted).toBe(false);
    client.leave();
    await eventually(() => signal.aborted);
  });

  test("has fired for whoever asks for it afterwards", async () => {
    const aborted = Promise.withResolvers<boolean>();
    await start(async (request) => {
      await request.body?.whole();
      aborted.resolve(request.signal.aborted);
      return textAnswer("");
    });
    client.send(postText("/", "Content-Length: 10"));
    client.leave();
    expect(await aborted.promise).toBe(true);
  });
});

describe("a connection that goes on in another language", () => {
  const SWITCH = Buffer.from("HTTP/1.1 101 Switching Protocols\r\n\r\n");

  function upgrading() {
    const heard: string[] = [];
    const outlets: SocketWriter[] = [];
    const serve = () =>
      new Upgrade(SWITCH, (outlet) => {
        outlets.push(outlet);
        return {
          received: (bytes) => void heard.push(bytes.toString()),
          drained: () => void heard.push("(drained)"),
          closed: () => void heard.push("(closed)"),
        };
      });
    const outlet = () => eventually(() => outlets[0]);
    return { heard, outlet, serve };
  }

  test("hears what came behind the request, and everything after it", async () => {
    const { heard, serve, outlet } = upgrading();
    await start(serve);
    client.send(`${getText("/")}behind`);
    (await outlet()).write(Buffer.from("said"));
    await client.hears("101 Switching Protocols\r\n\r\nsaid");
    client.send(getText("/"));
    await eventually(() => heard.length === 2);
    expect(heard).toEqual(["behind", getText("/")]);
  });

  test("is told once that it is closed, whoever did it", async () => {
    for (const leave of [
      (_: SocketWriter) => client.leave(),
      (outlet: SocketWriter) => outlet.terminate(),
      (outlet: SocketWriter) => {
        outlet.end();
        client.leave();
      },
    ]) {
      const { heard, serve, outlet } = upgrading();
      await start(serve);
      client.send(getText("/"));
      leave(await outlet());
      await eventually(() => heard.length > 0);
      (await outlet()).terminate();
      expect(heard).toEqual(["(closed)"]);
      listener.cut();
    }
  });

  test("keeps what its client does not take, in order, and says when it is gone", async () => {
    const { heard, serve, outlet } = upgrading();
    await start(serve);
    client.stopTaking();
    client.send(getText("/"));
    const to = await outlet();
    const bytes = Buffer.alloc(1_000_000);
    for (let i = 0; i < 30; i++) to.write(bytes.fill(`${i % 10}`));
    expect(to.bufferedBytes).toBeGreaterThan(0);
    to.write(Buffer.from("last"));
    client.goOnTaking();
    const all = await client.hears("last");
    await eventually(() => heard.includes("(drained)"));
    expect(to.bufferedBytes).toBe(0);
    expect(all.slice(SWITCH.length)).toBe(
      `${Array.from({ length: 30 }, (_, i) => `${i % 10}`.repeat(1_000_000)).join("")}last`,
    );
  });

  test("ends in order, after all it said", async () => {
    const { serve, outlet } = upgrading();
    await start(serve);
    client.send(getText("/"));
    const to = await outlet();
    to.write(Buffer.from("goodbye"));
    to.end();
    expect(await client.end()).toEndWith("goodbye");
    expect(client.ending()).toBe("closed");
  });
});
