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
  textResponse,
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
  client.destroy();
  listener.closeNow();
});

/** Responds with the path of the request, and its body if it has one. */
async function echo({ target, body }: IncomingRequest): Promise<HttpResponse> {
  const read = await body?.whole();
  if (read === undefined) return textResponse(`<${target}>`);
  return textResponse(`<${target} ${wholeText(read)}>`);
}

const statusesIn = (received: string) =>
  [...received.matchAll(/HTTP\/1\.1 (\d+) /g)].map((match) => match[1]);

/** The texts between angle brackets in the responses, in order. */
const responsesIn = (received: string) => [...received.matchAll(/<(.*?)>/g)].map((match) => match[1]);

/** Each request waits until the test responds. */
function byHand() {
  const waiting = new Map<string, (response: HttpResponse) => void>();
  const serve = ({ target }: IncomingRequest) =>
    new Promise<HttpResponse>((resolve) => waiting.set(target, resolve));
  return {
    serve,
    asked: () => [...waiting.keys()],
    respond: (path: string) => waiting.get(path)?.(textResponse(`<${path}>`)),
  };
}

describe("a connection", () => {
  test("serves requests one after the other", async () => {
    await start(echo);
    client.send(getText("/a"));
    await client.waitForText("</a>");
    client.send(postText("/b", "Content-Length: 5"), "hello");
    const received = await client.waitForText("</b hello>");
    expect(received).not.toContain("connection:");
  });

  test("is closed by the response after a shutdown was announced, and new ones are accepted meanwhile", async () => {
    const { serve, asked, respond } = byHand();
    await start(serve);
    client.send(getText("/a"));
    await eventually(() => asked().includes("/a"));
    listener.announceClose();
    const late = await dial(listener.port);
    late.send(getText("/late"));
    await eventually(() => asked().includes("/late"));
    for (const path of ["/a", "/late"]) respond(path);
    for (const connection of [client, late])
      expect(await connection.end()).toContain("connection: close\r\n");
  });

  test("that was not notified of the shutdown stays open for its next request", async () => {
    await start(echo);
    client.send(getText("/a"));
    await client.waitForText("</a>");
    listener.announceClose();
    client.send(getText("/b"));
    expect(await client.end()).toContain("</b>");
  });

  test("does not begin a request before the previous response is complete", async () => {
    const { serve, asked, respond } = byHand();
    await start(serve);
    client.send(getText("/a") + getText("/b"), getText("/c"));
    await eventually(() => asked().length > 0);
    const other = await dial(listener.port);
    other.send(getText("/other"));
    await eventually(() => asked().includes("/other"));
    expect(asked()).toEqual(["/a", "/other"]);
    other.destroy();
    for (const path of ["/a", "/b", "/c"]) {
      await eventually(() => asked().includes(path));
      respond(path);
    }
    expect(responsesIn(await client.waitForText("</c>"))).toEqual(["/a", "/b", "/c"]);
  });

  test("serves thousands of pipelined requests in order", async () => {
    await start(({ target }) => textResponse(`<${target}>`));
    const paths = Array.from({ length: 5_000 }, (_, i) => `/${i}`);
    client.send(paths.map((path) => getText(path)).join(""));
    expect(responsesIn(await client.waitForText("</4999>"))).toEqual(paths);
  });

  test("continues only when its client has read the responses", async () => {
    let served = 0;
    await start(({ target }) => {
      served++;
      return textResponse(`${"x".repeat(1_000_000)}<${target}>`);
    });
    client.pause();
    const paths = Array.from({ length: 60 }, (_, i) => `/${i}`);
    client.send(paths.map((path) => getText(path)).join(""));
    await eventually(() => served > 0);
    await fetch(listener.url);
    expect(served).toBeLessThan(60);
    client.resume();
    expect(responsesIn(await client.waitForText("</59>"))).toEqual(paths);
  });

  test("serves pipelined requests with bodies in order", async () => {
    await start(echo);
    client.send(
      postText("/a", "Content-Length: 3") + "abc".concat(postText("/b", "Transfer-Encoding: chunked")),
      `2\r\nde\r\n0\r\n\r\n${getText("/c")}`,
    );
    expect(responsesIn(await client.waitForText("</c>"))).toEqual(["/a abc", "/b de", "/c"]);
  });

  test("does not begin the next request while a chunked one is in progress", async () => {
    const { serve, asked, respond } = byHand();
    await start(serve);
    client.send(`${postText("/a", "Transfer-Encoding: chunked")}1\r\nx\r\n0\r\n\r\n${getText("/b")}`);
    await eventually(() => asked().length > 0);
    expect(asked()).toEqual(["/a"]);
    respond("/a");
    await eventually(() => asked().includes("/b"));
    respond("/b");
    expect(responsesIn(await client.waitForText("</b>"))).toEqual(["/a", "/b"]);
  });

  test("parses requests that are split at any byte", async () => {
    await start(echo);
    const sent = `\r\n${postText("/a", "Content-Length: 2")}hi\r\n${postText("/b", "Transfer-Encoding: chunked")}1\r\nx\r\n0\r\n\r\n`;
    const clients = await Promise.all(Array.from(sent, () => dial(listener.port)));
    for (const [at, one] of clients.entries()) one.send(sent.slice(0, at));
    // The response on another connection shows that the first parts were read.
    client.send(getText("/other"));
    await client.waitForText("</other>");
    for (const [at, one] of clients.entries()) one.send(sent.slice(at));
    for (const one of clients) {
      expect(responsesIn(await one.waitForText("</b x>"))).toEqual(["/a hi", "/b x"]);
      one.destroy();
    }
  });

  test("closes after the response to Connection: close", async () => {
    await start(echo);
    client.send(getText("/a", "Connection: close") + getText("/b"));
    const received = await client.end();
    expect(received).toContain("connection: close\r\n");
    expect([responsesIn(received), client.ending()]).toEqual([["/a"], "closed"]);
  });

  test("of HTTP/1.0 closes after the response, except with Connection: keep-alive", async () => {
    await start(echo);
    client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    expect(await client.waitForText("</a>")).toContain("connection: keep-alive\r\n");
    client.send("GET /b HTTP/1.0\r\n\r\n");
    expect(responsesIn(await client.end())).toEqual(["/a", "/b"]);
  });

  test("reports the client's address, even after the disconnect", async () => {
    const left = Promise.withResolvers<string>();
    await start(({ peer, signal }) => {
      signal.addEventListener("abort", () => left.resolve(peer.address));
      return textResponse(`<${peer.address}>`);
    });
    client.send(getText("/"));
    await client.waitForText("<127.0.0.1>");
    client.destroy();
    expect(await left.promise).toBe("127.0.0.1");
  });

  test("reports the client's address if it is first read after the disconnect", async () => {
    const left = Promise.withResolvers<string>();
    await start(({ peer, signal }) => {
      signal.addEventListener("abort", () => left.resolve(peer.address));
      return textResponse("<answer>");
    });
    client.send(getText("/"));
    await client.waitForText("<answer>");
    client.destroy();
    expect(await left.promise).toBe("127.0.0.1");
  });
});

describe("an invalid request", () => {
  test.each([
    ["malformed", "GET / HTTP/1.1\r\nHost : gw\r\n\r\n"],
    ["malformed", postText("/", "Content-Length: 3", "Transfer-Encoding: chunked")],
    ["version", "GET / HTTP/3.0\r\n\r\n"],
    ["expectation", postText("/", "Expect: a miracle", "Content-Length: 3")],
    ["head_too_large", getText("/", `x: ${"x".repeat(20_000)}`)],
  ])("is rejected as %s, and nothing after it is read", async (kind, sent) => {
    const paths: string[] = [];
    await start(({ target }) => {
      paths.push(target);
      return textResponse("served");
    });
    client.send(sent + getText("/behind"));
    const received = await client.end();
    expect(received).toContain(`${kind}: `);
    expect(received).toContain("connection: close\r\n");
    expect([statusesIn(received), paths, client.ending()]).toEqual([["400"], [], "closed"]);
  });

  test("is rejected as head_too_large before the end of the head", async () => {
    await start(echo);
    client.send(`GET /${"x".repeat(20_000)}`);
    expect(await client.end()).toContain("head_too_large: ");
  });

  test("is rejected after the responses to earlier requests", async () => {
    await start(echo);
    client.send(`${getText("/a")}nonsense\r\n\r\n`);
    expect(await client.end()).toMatch(/<\/a>HTTP\/1.1 400 .*malformed/s);
  });
});

describe("Expect: 100-continue", () => {
  const waiting = (path: string) => postText(path, "Expect: 100-continue", "Content-Length: 5");

  test("is answered once, when the handler reads the body", async () => {
    await start(async ({ body }) => {
      let text = "";
      for (let read = await body?.next(); read instanceof Uint8Array; read = await body?.next()) {
        text += Buffer.from(read).toString();
      }
      return textResponse(`<${text}>`);
    });
    client.send(waiting("/"));
    await client.waitForText("HTTP/1.1 100 Continue\r\n\r\n");
    client.send("he");
    client.send("llo");
    const received = await client.waitForText("<hello>");
    expect(received.split("100 Continue")).toHaveLength(2);
    expect(received).not.toContain("connection: close");
  });

  test("is not answered if the body arrives anyway", async () => {
    await start(echo);
    client.send(`${waiting("/a")}hello${waiting("/b")}he`);
    await client.waitForText("</a hello>");
    client.send("llo");
    expect(await client.waitForText("</b hello>")).not.toContain("100 Continue");
  });

  test("gets the response and the end of the connection if the body is not read", async () => {
    await start(() => textResponse("no"));
    client.send(waiting("/"));
    expect(await client.end()).toContain("connection: close\r\n");
    client.send("hello", getText("/body-or-request"));
    expect([statusesIn(client.received()), client.ending()]).toEqual([["200"], "closed"]);
  });
});

describe("an unread request body", () => {
  const LONG = "x".repeat(3_000_000);

  test.each([
    ["of known length", [`Content-Length: ${LONG.length}`], LONG],
    ["in chunks", ["Transfer-Encoding: chunked"], `${LONG.length.toString(16)}\r\n${LONG}\r\n0\r\n\r\n`],
  ])("%s is discarded after the response, and the next request is served", async (_name, fields, sent) => {
    await start(({ target }) => textResponse(`<${target}>`));
    client.send(postText("/a", ...fields));
    await client.waitForText("</a>");
    client.send(sent, getText("/b"));
    expect(responsesIn(await client.waitForText("</b>"))).toEqual(["/a", "/b"]);
  });

  test("with invalid framing ends the connection: nothing after it is a request", async () => {
    await start(({ target }) => textResponse(`<${target}>`));
    client.send(postText("/a", "Transfer-Encoding: chunked"));
    await client.waitForText("</a>");
    client.send("5\r\nhello!\r\n", getText("/b"));
    expect(responsesIn(await client.end())).toEqual(["/a"]);
  });

  test("does not block a long response to a client that sends everything before it reads", async () => {
    await start(() => textResponse(`${LONG.repeat(6)}<whole>`));
    client.pause();
    client.send(postText("/", "Connection: close", `Content-Length: ${LONG.length * 6}`));
    for (let i = 0; i < 6; i++) client.send(LONG);
    await eventually(() => client.unsentBytes(), { equals: 0 });
    client.resume();
    await client.waitForText("<whole>");
  });
});

describe("a request body", () => {
  test("with invalid framing is broken for its reader and ends the connection", async () => {
    await start(echo);
    client.send(`${postText("/a", "Transfer-Encoding: chunked")}5\r\nhello!\r\n${getText("/b")}`);
    expect(responsesIn(await client.end())).toEqual(["/a broken"]);
  });

  test("that is read late is complete", async () => {
    const gate = Promise.withResolvers<void>();
    await start(async ({ body }) => {
      await gate.promise;
      const read = await body?.whole();
      return textResponse(`<${read && wholeText(read).length}>`);
    });
    client.send(postText("/", "Content-Length: 9000000"));
    for (let i = 0; i < 9; i++) client.send(new Uint8Array(1_000_000));
    await eventually(() => client.unsentBytes() < 9_000_000);
    gate.resolve();
    await client.waitForText("<9000000>");
  });

  test("that is read slowly leaves the connection usable, and a disconnect is detected", async () => {
    const left = Promise.withResolvers<void>();
    await start(async ({ target, body, signal }) => {
      if (target === "/last") signal.addEventListener("abort", () => left.resolve());
      let bytes = 0;
      for (let read = await body?.next(); read instanceof Uint8Array; read = await body?.next()) {
        bytes += read.length;
        await new Promise((resolve) => setImmediate(resolve));
      }
      return target === "/last" ? left.promise.then(() => textResponse("")) : textResponse(`<${bytes}>`);
    });
    const chunk = `30d40\r\n${"x".repeat(200_000)}\r\n`;
    const body = `${chunk.repeat(10)}0\r\n\r\n`;
    client.send(postText("/a", "Transfer-Encoding: chunked"), body);
    await client.waitForText("<2000000>");
    client.send(postText("/b", "Transfer-Encoding: chunked"), body);
    await eventually(() => responsesIn(client.received()).length, { equals: 2 });
    client.send(postText("/last", "Transfer-Encoding: chunked"), body);
    await eventually(() => client.unsentBytes(), { equals: 0 });
    client.destroy();
    await left.promise;
  });

  test("is gone when its client disconnects", async () => {
    const read = Promise.withResolvers<unknown>();
    await start(async ({ body }) => {
      read.resolve(await body?.whole());
      return textResponse("");
    });
    client.send(postText("/", "Content-Length: 10"), "half");
    client.destroy();
    expect(await read.promise).toEqual({ kind: "gone" });
  });
});

describe("the signal of a request", () => {
  test("fires when its client disconnects", async () => {
    const asked = Promise.withResolvers<IncomingRequest>();
    await start((request) => {
      asked.resolve(request);
      return new Promise<never>(() => {});
    });
    client.send(getText("/"));
    const { signal } = await asked.promise;
    expect(signal.aborted).toBe(false);
    client.destroy();
    await eventually(() => signal.aborted);
  });

  test("has fired if it is first read after the disconnect", async () => {
    const aborted = Promise.withResolvers<boolean>();
    await start(async (request) => {
      await request.body?.whole();
      aborted.resolve(request.signal.aborted);
      return textResponse("");
    });
    client.send(postText("/", "Content-Length: 10"));
    client.destroy();
    expect(await aborted.promise).toBe(true);
  });
});

describe("an upgraded connection", () => {
  const SWITCH = Buffer.from("HTTP/1.1 101 Switching Protocols\r\n\r\n");

  function upgrading() {
    const received: string[] = [];
    const outlets: SocketWriter[] = [];
    const serve = () =>
      new Upgrade(SWITCH, (outlet) => {
        outlets.push(outlet);
        return {
          onData: (bytes) => void received.push(bytes.toString()),
          onDrain: () => void received.push("(drained)"),
          onClose: () => void received.push("(closed)"),
        };
      });
    const outlet = () => eventually(() => outlets[0]);
    return { received, outlet, serve };
  }

  test("receives the bytes after the request and everything later", async () => {
    const { received, serve, outlet } = upgrading();
    await start(serve);
    client.send(`${getText("/")}behind`);
    (await outlet()).write(Buffer.from("said"));
    await client.waitForText("101 Switching Protocols\r\n\r\nsaid");
    client.send(getText("/"));
    await eventually(() => received.length, { equals: 2 });
    expect(received).toEqual(["behind", getText("/")]);
  });

  test("gets one closed call, whichever side closes", async () => {
    for (const leave of [
      (_: SocketWriter) => client.destroy(),
      (outlet: SocketWriter) => outlet.terminate(),
      (outlet: SocketWriter) => {
        outlet.end();
        client.destroy();
      },
    ]) {
      const { received, serve, outlet } = upgrading();
      await start(serve);
      client.send(getText("/"));
      leave(await outlet());
      await eventually(() => received.length > 0);
      (await outlet()).terminate();
      expect(received).toEqual(["(closed)"]);
      listener.closeNow();
    }
  });

  test("buffers what its client does not read, in order, and reports when it is drained", async () => {
    const { received, serve, outlet } = upgrading();
    await start(serve);
    client.pause();
    client.send(getText("/"));
    const to = await outlet();
    const bytes = Buffer.alloc(1_000_000);
    for (let i = 0; i < 30; i++) to.write(bytes.fill(`${i % 10}`));
    expect(to.bufferedBytes).toBeGreaterThan(0);
    to.write(Buffer.from("last"));
    client.resume();
    const all = await client.waitForText("last");
    await eventually(() => received.includes("(drained)"));
    expect(to.bufferedBytes).toBe(0);
    expect(all.slice(SWITCH.length)).toBe(
      `${Array.from({ length: 30 }, (_, i) => `${i % 10}`.repeat(1_000_000)).join("")}last`,
    );
  });

  test("closes in order, after all written bytes", async () => {
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
