import { afterEach, describe, expect, test } from "bun:test";
import { createServer, type Socket } from "node:net";
import { eventually, untilStill } from "../../../test/support/eventually.ts";
import { freeBytes } from "../../base/bytes.ts";
import type { Deadline, Deadlines } from "../../base/deadlines.ts";
import { wholePart } from "../../base/parts.ts";
import type { HttpClient, HttpExchange, OutgoingRequest } from "./contract.ts";
import {
  makeTarget,
  openClient,
  ResponseRecorder,
  serve,
  type TestServer,
} from "./http-client.test-support.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const part of open.splice(0)) part.close();
});

async function upstream(onRequest: Parameters<typeof serve>[0], host?: string): Promise<TestServer> {
  const server = await serve(onRequest, host);
  open.push(server);
  return server;
}

function client(options: Parameters<typeof openClient>[0] = {}): HttpClient {
  const opened = openClient(options);
  open.push(opened);
  return opened;
}

function ask(http: HttpClient, port: number, given: Partial<OutgoingRequest> = {}) {
  const notes = new ResponseRecorder();
  const exchange = http.send(
    { target: makeTarget(port), method: "POST", path: "/v1/x", headers: "a: b\r\n", body: null, ...given },
    notes,
  );
  return { notes, exchange, over: notes.over.promise };
}

const settled = () => Bun.sleep(20);

describe("an exchange", () => {
  test("sends the request and passes on the status, headers, body and end", async () => {
    const server = await upstream((socket) =>
      socket.write("HTTP/1.1 201 x\r\nA: b\r\ncontent-length: 2\r\n\r\nok"),
    );
    const { notes, over } = ask(client(), server.port, { body: wholePart(Buffer.from("hello")) });
    expect(await over).toBe("end");
    expect([notes.status, notes.headers?.get("a"), notes.text]).toEqual([201, "b", "ok"]);
    expect(notes.calls).toEqual(["head", "data", "end"]);
    expect(server.received).toEqual([
      `POST /v1/x HTTP/1.1\r\nhost: 127.0.0.1:${server.port}\r\na: b\r\ncontent-length: 5\r\n\r\nhello`,
    ]);
  });

  test("sends the configured Host header", async () => {
    const server = await upstream((socket) => socket.write(OK));
    const target = { ...makeTarget(server.port), hostHeader: "models.test:8443" };
    await ask(client(), server.port, { target }).over;
    expect(server.received[0]).toContain("\r\nhost: models.test:8443\r\n");
  });

  test("is broken off if its body is freed before it is sent completely", async () => {
    const peers: Socket[] = [];
    const server = createServer({ pauseOnConnect: true }, (socket) =>
      peers.push(socket.on("error", () => {})),
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    open.push(server);
    const body = new Uint8Array(32 * 1024 * 1024);
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const { exchange } = ask(client(), port, { body: wholePart(body) });
    await eventually(() => exchange.hasBegun && peers.length === 1);
    freeBytes(body);
    let received = 0;
    const closed = Promise.withResolvers<void>();
    peers[0]?.on("data", (bytes) => {
      received += bytes.length;
    });
    peers[0]?.on("close", () => closed.resolve());
    peers[0]?.resume();
    await closed.promise;
    expect(received).toBeLessThan(32 * 1024 * 1024);
  });

  test.each<[string, OutgoingRequest["body"]]>([
    ["without a body", null],
    ["with a short body", wholePart(Buffer.from("hello"))],
    ["with a long body", wholePart(Buffer.alloc(100_000, "x"))],
    ["with a streamed body", { contentLength: 5, open: () => new Blob(["hello"]).stream() }],
  ])("%s calls back before each time it is written, and not without a connection", async (_, body) => {
    const server = await upstream((socket) => socket.write(OK));
    const closed = await upstream(() => {});
    closed.close();
    const http = client();
    let writes = 0;
    const send = (port: number) => ask(http, port, { body, beforeWrite: () => writes++ }).over;
    expect([await send(server.port), writes]).toEqual(["end", 1]);
    // The same connection.
    expect([await send(server.port), writes, server.connections.length]).toEqual(["end", 2, 1]);
    expect([await send(closed.port), writes]).toEqual([expect.stringContaining("refused"), 2]);
  });

  test("reaches an IPv6 address", async () => {
    const server = await upstream((socket) => socket.write(OK), "::1");
    const { notes, over } = ask(client(), 0, { target: makeTarget(server.port, "[::1]") });
    expect([await over, notes.text]).toEqual(["end", "ok"]);
  });

  test("skips interim responses", async () => {
    const server = await upstream((socket) =>
      socket.write(`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n${OK}`),
    );
    const { notes, over } = ask(client(), server.port);
    expect([await over, notes.status, notes.calls.length]).toEqual(["end", 200, 3]);
  });

  test("treats 204 and 304 as complete without a body", async () => {
    const server = await upstream((socket, _, request) =>
      socket.write(`HTTP/1.1 ${request === 0 ? 204 : 304} x\r\ncontent-length: 5\r\n\r\n`),
    );
    const http = client();
    expect(await ask(http, server.port).over).toBe("end");
    expect(await ask(http, server.port).over).toBe("end");
    expect(server.connections.length).toBe(1);
  });

  test("ends with the connection if the response has no length", async () => {
    const server = await upstream((socket) => socket.end("HTTP/1.1 200 OK\r\n\r\nhello"));
    const { notes, over } = ask(client(), server.port);
    expect([await over, notes.text]).toEqual(["end", "hello"]);
  });

  test("fails if the connection of a response without a length is reset", async () => {
    const server = await upstream((socket) => {
      socket.write("HTTP/1.1 200 OK\r\n\r\nhello");
      setTimeout(() => socket.resetAndDestroy(), 10);
    });
    const { notes, over } = ask(client(), server.port);
    expect([await over, notes.text]).toEqual(["reset: ECONNRESET", "hello"]);
  });

  test.each([
    ["a length", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello"],
    ["chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhello"],
    ["a missing last chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"],
    ["half a head", "HTTP/1.1 200 OK\r\ncontent-le"],
    ["nothing", ""],
  ])("fails if the connection closes before the end of a response with %s", async (_name, text) => {
    const server = await upstream((socket) => socket.end(text));
    expect(await ask(client(), server.port).over).toBe(
      "reset: the connection was closed before the end of the response",
    );
    expect(server.connections.length).toBe(1);
  });

  test.each([
    ["another protocol", "SSH-2.0-OpenSSH\r\n"],
    ["an upgrade", "HTTP/1.1 101 Switching\r\n\r\n"],
    ["an invalid chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"],
    ["a too large head", `HTTP/1.1 200 OK\r\na: ${"b".repeat(20_000)}\r\n\r\n`],
    ["an endless head", `HTTP/1.1 200 OK\r\na: ${"b".repeat(20_000)}`],
    ["endless interim responses", "HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000)],
  ])("fails with invalid HTTP: %s", async (_name, text) => {
    const server = await upstream((socket) => socket.write(text));
    expect(await ask(client(), server.port).over).toStartWith("bad_http: ");
    await eventually(() => server.connections[0]?.destroyed ?? false);
  });

  test("fails as refused if no server listens", async () => {
    const server = await upstream(() => {});
    server.close();
    expect(await ask(client(), server.port).over).toBe("refused: ECONNREFUSED");
  });

  test("is refused when the target is not an address", async () => {
    const target = { origin: "nonsense", hostHeader: null, tls: null };
    expect(await ask(client(), 1, { target }).over).toStartWith("refused: ");
  });

  test("never calls its handler inside send, even if it fails at once", async () => {
    const http = client();
    for (const given of [
      { path: "/a b" },
      { headers: "a: b\nc: d\r\n" },
      { target: makeTarget(1, "255.255.255.255") },
      { target: makeTarget(99_999) },
    ]) {
      const { notes, over } = ask(http, 1, given);
      expect(notes.calls).toEqual([]);
      await over;
      expect(notes.calls.length).toBe(1);
    }
  });

  test("sends nothing of a request with injected header lines", async () => {
    const server = await upstream((socket) => socket.write(OK));
    const { over } = ask(client(), server.port, { headers: "a: b\r\n\r\nGET / HTTP/1.1\r\n" });
    expect(await over).toStartWith("bad_http: ");
    expect(server.connections.length).toBe(0);
  });

  test("whose sink throws fails and does not affect other exchanges", async () => {
    const server = await upstream((socket) => socket.write(OK));
    const http = client();
    for (const method of ["head", "data"] as const) {
      const bad = ask(http, server.port);
      bad.notes[method] = () => {
        throw new Error("sink");
      };
      const good = ask(http, server.port);
      expect(await bad.over).toBe("reset: the response sink threw an error");
      expect([await good.over, good.notes.text]).toEqual(["end", "ok"]);
    }
    const last = ask(http, server.port);
    last.notes.over.resolve = () => {
      last.notes.calls.push("threw");
      throw new Error("sink");
    };
    await eventually(() => last.notes.calls.includes("threw"));
    expect(await ask(http, server.port).over).toBe("end");
  });
});

describe("the connect timeout", () => {
  /** Deadlines that the test expires. */
  function handAlarms(): Deadlines & { expire(): void } {
    const set = new Set<Deadline>();
    return {
      set(afterMs, expire) {
        const deadline = { atMs: afterMs, expire };
        set.add(deadline);
        return deadline;
      },
      cancel: (deadline) => void set.delete(deadline),
      stop() {},
      expire: () => {
        for (const deadline of [...set]) {
          set.delete(deadline);
          deadline.expire();
        }
      },
    };
  }

  test("fails an exchange whose connection is not established", async () => {
    const byHand = handAlarms();
    // A silent server never sends a certificate.
    const server = await upstream(() => {});
    const target = { ...makeTarget(server.port), origin: `https://127.0.0.1:${server.port}` };
    const { over } = ask(client({ deadlines: byHand }), 0, { target });
    await eventually(() => server.connections.length, { equals: 1 });
    byHand.expire();
    expect(await over).toBe("connect_timeout: no connection within 5000 ms");
    await eventually(() => server.connections[0]?.destroyed ?? false);
  });

  test("does not apply to a slow response", async () => {
    const byHand = handAlarms();
    const server = await upstream(() => {});
    const { notes, over } = ask(client({ deadlines: byHand }), server.port);
    await eventually(() => server.received.length === 1 && server.received[0] !== "");
    byHand.expire();
    await settled();
    expect(notes.calls).toEqual([]);
    server.connections[0]?.write(OK);
    expect(await over).toBe("end");
  });

  test("closes idle connections in one sweep", async () => {
    const byHand = handAlarms();
    let nowMs = 0;
    const clock = { nowMs: () => 0, monotonicMs: () => nowMs };
    const server = await upstream((socket) => socket.write(OK));
    const http = client({ deadlines: byHand, clock, idleMs: 1_000 });
    await Promise.all([ask(http, server.port).over, ask(http, server.port).over]);
    nowMs = 999;
    byHand.expire();
    await settled();
    expect(server.connections.map((socket) => socket.destroyed)).toEqual([false, false]);
    await ask(http, server.port).over;
    nowMs = 1_500;
    byHand.expire();
    await eventually(() => server.connections.filter((socket) => socket.destroyed).length, { equals: 1 });
    nowMs = 2_000;
    byHand.expire();
    await eventually(() => server.connections.every((socket) => socket.destroyed));
  });
});

describe("a keep-alive connection", () => {
  const twice = async (http: HttpClient, server: TestServer) => {
    const first = await ask(http, server.port).over;
    await settled();
    return [first, await ask(http, server.port).over, server.connections.length];
  };

  /** Sends the second request after the first connection is closed. */
  const onceDropped = async (http: HttpClient, server: TestServer) => {
    const first = await ask(http, server.port).over;
    await eventually(() => server.connections[0]?.destroyed ?? false);
    return [first, await ask(http, server.port).over, server.connections.length];
  };

  test("serves the next exchange", async () => {
    const server = await upstream((socket) => socket.write(OK));
    expect(await twice(client(), server)).toEqual(["end", "end", 1]);
  });

  test("serves an exchange that is sent from within the end callback", async () => {
    const server = await upstream((socket) => socket.write(OK));
    const http = client();
    const first = new ResponseRecorder();
    const next = Promise.withResolvers<string>();
    first.end = () => void ask(http, server.port).over.then(next.resolve);
    http.send({ target: makeTarget(server.port), method: "GET", path: "/", headers: "", body: null }, first);
    expect([await next.promise, server.connections.length]).toEqual(["end", 1]);
  });

  test.each([
    ["HTTP/1.0", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"],
    ["Connection: close", "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"],
    [
      "both framings",
      "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ],
    ["bytes after the response", `${OK}HTTP/1.1 200 OK\r\n`],
  ])("is not reused after %s", async (_name, text) => {
    const server = await upstream((socket) => socket.write(text));
    expect(await twice(client(), server)).toEqual(["end", "end", 2]);
    await eventually(() => server.connections[0]?.destroyed ?? false);
  });

  test("is closed when unsolicited data arrives", async () => {
    const server = await upstream((socket, connection) => {
      socket.write(OK);
      if (connection === 0) setTimeout(() => socket.write("HTTP/1.1 408 Timeout\r\n\r\n"), 5);
    });
    expect(await onceDropped(client(), server)).toEqual(["end", "end", 2]);
  });

  test("is replaced when the upstream closes it", async () => {
    const server = await upstream((socket, connection) => {
      socket.write(OK);
      if (connection === 0) setTimeout(() => socket.end(), 5);
    });
    expect(await onceDropped(client(), server)).toEqual(["end", "end", 2]);
  });

  test("that breaks some time after the request is a failure: the upstream may have executed it", async () => {
    const server = await upstream((socket, _, request) => {
      if (request === 0) socket.write(OK);
      else setTimeout(() => socket.destroy(), 400);
    });
    const http = client();
    await ask(http, server.port).over;
    expect(await ask(http, server.port).over).toStartWith("reset");
    expect(server.connections.length).toBe(1);
  });

  test("that breaks before any response is replaced, and the request is sent again with its body", async () => {
    const server = await upstream((socket, connection, request) => {
      if (connection === 0 && request === 1) socket.resetAndDestroy();
      else socket.write(OK);
    });
    const http = client();
    await ask(http, server.port).over;
    for (const body of [Buffer.from("small"), Buffer.alloc(300_000, "x")]) {
      const { notes, over } = ask(http, server.port, { body: wholePart(body) });
      expect([await over, notes.calls]).toEqual(["end", ["head", "data", "end"]]);
    }
    expect(server.connections.length).toBe(2);
    expect(server.received[1]).toContain("content-length: 5\r\n\r\nsmall");
  });

  test("that breaks within a response is a failure", async () => {
    const server = await upstream((socket, _, request) => {
      if (request === 1) socket.end("HTTP/1.1 200");
      else socket.write(OK);
    });
    const http = client();
    await ask(http, server.port).over;
    expect(await ask(http, server.port).over).toStartWith("reset: ");
    expect(server.connections.length).toBe(1);
  });

  test("is replaced once: if the new connection breaks too, the exchange fails", async () => {
    const server = await upstream((socket, connection, request) => {
      if (connection === 0 && request === 0) socket.write(OK);
      else socket.destroy();
    });
    const http = client();
    await ask(http, server.port).over;
    expect(await ask(http, server.port).over).toStartWith("reset: ");
    expect(server.connections.length).toBe(2);
  });

  test("is never shared between different server names", async () => {
    const server = await upstream((socket) => socket.write(OK));
    const http = client();
    const target = makeTarget(server.port);
    await ask(http, 0, { target: { ...target, tls: { serverName: "a.test" } } }).over;
    await ask(http, 0, { target: { ...target, tls: { serverName: "b.test" } } }).over;
    expect(server.connections.length).toBe(2);
    // The same destination with another target object, as after each DNS lookup.
    await ask(http, 0, { target: { ...target, tls: { serverName: "b.test" } } }).over;
    expect(server.connections.length).toBe(2);
  });

  test("is limited in number per origin", async () => {
    const server = await upstream((socket) => socket.write(OK));
    const http = client({ idlePerOriginMax: 2 });
    await Promise.all([1, 2, 3, 4].map(() => ask(http, server.port).over));
    await eventually(() => server.connections.filter((socket) => socket.destroyed).length, { equals: 2 });
  });

  test("is closed with the client, or after its current exchange", async () => {
    const server = await upstream((socket, connection) => {
      if (connection === 0) socket.write(OK);
    });
    const http = client();
    const first = ask(http, server.port);
    const second = ask(http, server.port);
    await first.over;
    await eventually(() => server.received.length === 2 && server.received[1] !== "");
    http.close();
    await eventually(() => server.connections[0]?.destroyed ?? false);
    expect(server.connections[1]?.destroyed).toBe(false);
    server.connections[1]?.write(OK);
    expect(await second.over).toBe("end");
    await eventually(() => server.connections[1]?.destroyed ?? false);
  });
});

describe("pausing an exchange", () => {
  const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;

  test("delays all calls until resume, in order and including the end", async () => {
    const server = await upstream((socket) => socket.write(OK));
    const { notes, exchange, over } = ask(client(), server.port);
    notes.afterHead = () => exchange.pause();
    notes.afterData = () => exchange.pause();
    await eventually(() => notes.calls.length, { equals: 1 });
    await settled();
    expect(notes.calls).toEqual(["head"]);
    exchange.resume();
    expect(notes.calls).toEqual(["head", "data"]);
    await settled();
    expect(notes.calls).toEqual(["head", "data"]);
    exchange.resume();
    expect(await over).toBe("end");
  });

  test("delays the close of the connection, too", async () => {
    const server = await upstream((socket) => socket.end("HTTP/1.1 200 OK\r\n\r\nhello"));
    const { notes, exchange, over } = ask(client(), server.port);
    notes.afterData = () => exchange.pause();
    await eventually(() => notes.text, { equals: "hello" });
    await settled();
    expect(notes.calls).toEqual(["head", "data"]);
    exchange.resume();
    expect(await over).toBe("end");
  });

  test("and resuming in the same call changes nothing", async () => {
    const server = await upstream((socket) => socket.write(OK));
    const { notes, exchange, over } = ask(client(), server.port);
    notes.afterData = () => {
      exchange.pause();
      exchange.resume();
    };
    expect([await over, notes.calls]).toEqual(["end", ["head", "data", "end"]]);
  });

  test("before any data delays the head", async () => {
    const server = await upstream((socket) => socket.write(OK));
    const { notes, exchange, over } = ask(client(), server.port);
    exchange.pause();
    await eventually(() => server.received[0] !== undefined && server.received[0] !== "");
    await settled();
    expect(notes.calls).toEqual([]);
    exchange.resume();
    expect(await over).toBe("end");
  });

  test("after every piece loses and reorders nothing", async () => {
    const expected = Array.from({ length: 400 }, (_, i) => `event ${i}\n`.repeat(1 + (i % 60) * 10));
    const server = await upstream((socket) => {
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      for (const text of expected) socket.write(chunk(text));
      socket.write("0\r\n\r\n");
    });
    const http = client();
    const { notes, exchange, over } = ask(http, server.port);
    notes.afterData = () => {
      exchange.pause();
      setTimeout(() => exchange.resume(), notes.pieces.length % 3);
    };
    expect(await over).toBe("end");
    expect(notes.text).toBe(expected.join(""));
    expect([await ask(http, server.port).over, server.connections.length]).toEqual(["end", 1]);
  });

  test("slows the upstream down instead of filling memory", async () => {
    const total = 64 * 1_048_576;
    let sent = 0;
    const pump = (socket: Socket) => {
      const piece = Buffer.alloc(65_536);
      while (sent < total) {
        sent += piece.length;
        if (!socket.write(piece)) return void socket.once("drain", () => pump(socket));
      }
    };
    const server = await upstream((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${total}\r\n\r\n`);
      pump(socket);
    });
    const { notes, exchange, over } = ask(client(), server.port);
    let taken = 0;
    notes.afterHead = () => exchange.pause();
    notes.data = ({ start, end }) => {
      taken += end - start;
    };
    await eventually(() => sent > 0);
    // Until both buffers are full.
    const held = await untilStill(() => sent, 100);
    // The capacity of the two kernel buffers, and one read.
    expect(held).toBeLessThan(16 * 1_048_576);
    exchange.resume();
    expect([await over, taken]).toEqual(["end", total]);
  });
});

describe("aborting an exchange", () => {
  const aborted = async (at: "connecting" | "sent" | "head" | "data" | "paused") => {
    const server = await upstream((socket, _, request) => {
      if (at !== "sent")
        socket.write(request === 0 ? "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello" : OK);
    });
    const http = client();
    const { notes, exchange } = ask(http, server.port);
    const abort = (of: HttpExchange) => {
      of.abort();
      notes.calls.push("aborted");
    };
    if (at === "connecting") abort(exchange);
    if (at === "head") notes.afterHead = () => abort(exchange);
    if (at === "data") notes.afterData = () => abort(exchange);
    if (at === "paused") notes.afterData = () => exchange.pause();
    if (at === "sent") await eventually(() => (server.received[0] ?? "") !== "");
    if (at === "paused") await eventually(() => notes.text, { equals: "hello" });
    if (at === "sent" || at === "paused") abort(exchange);
    await eventually(() => notes.calls.includes("aborted"));
    await eventually(() => server.connections.every((socket) => socket.destroyed));
    exchange.resume();
    exchange.abort();
    await settled();
    expect(notes.calls.at(-1)).toBe("aborted");
    expect(notes.calls).not.toContain("end");
  };

  test("while connecting stops all calls", () => aborted("connecting"));
  test("while waiting for the response stops all calls", () => aborted("sent"));
  test("in the head callback stops all calls", () => aborted("head"));
  test("in the data callback stops all calls", () => aborted("data"));
  test("while paused stops all calls", () => aborted("paused"));

  test("after its end does not affect the connection", async () => {
    const server = await upstream((socket) => socket.write(OK));
    const http = client();
    const { exchange, over } = ask(http, server.port);
    await over;
    exchange.abort();
    const second = ask(http, server.port);
    exchange.abort();
    exchange.pause();
    expect([await second.over, server.connections.length]).toEqual(["end", 1]);
  });
});
