import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createServer, type Server, type Socket } from "node:net";
import { type Simulator, startSimulator } from "../../../simulator/simulator.ts";
import { eventually } from "../../../test/support/eventually.ts";
import { systemClock } from "../../base/clock.ts";
import { openDeadlines } from "../../base/deadlines.ts";
import { type Part, partBytes, wholePart } from "../../base/parts.ts";
import type { HttpExchange, ResponseHeaders } from "../../net/http-client/contract.ts";
import type { DialTarget } from "../../net/http-client/dial.ts";
import { computeAcceptKey } from "../../net/websocket/accept-key.ts";
import { buildFrame, CLOSE, closeFrame, FrameReader, PING, PONG, TEXT } from "../../net/websocket/frames.ts";
import { socketAccount } from "../account.test-support.ts";
import type { PolicyAccount } from "../account.ts";
import {
  openSocketClient,
  type SocketClient,
  type SocketClientOptions,
  type TurnFailure,
  UpstreamLane,
} from "./client.ts";

const CREDENTIAL = "sk-sim";
const closers: (() => void)[] = [];
const unsupported: number[] = [];

afterEach(() => {
  for (const close of closers.splice(0)) close();
  unsupported.length = 0;
});

function client(options: Partial<SocketClientOptions> = {}): SocketClient {
  const deadlines = openDeadlines(5, systemClock);
  const opened = openSocketClient({
    deadlines,
    monotonicMs: systemClock.monotonicMs,
    connectTimeoutMs: 5_000,
    headBytesMax: 16_384,
    messageBytesMax: 1024 * 1024,
    errorBytesMax: 65_536,
    handshakeTimeoutMs: 5_000,
    ageMs: 3_600_000,
    idleMs: 3_600_000,
    pingMs: 60_000,
    freeMax: 4,
    sentBytesMax: 1024 * 1024,
    reuseDelayMs: 0,
    unsupportedMs: 60_000,
    onUnsupported: (_, status) => unsupported.push(status),
    ...options,
  });
  closers.push(() => {
    opened.close();
    deadlines.stop();
  });
  return opened;
}

const BODY = wholePart(Buffer.from("{}"));
const account = (change: Partial<PolicyAccount> = {}) => socketAccount({ credential: CREDENTIAL, ...change });

/** The calls of a turn in order, and its end. */
class Notes {
  readonly calls: string[] = [];
  status = 0;
  headers: ResponseHeaders | null = null;
  text = "";
  error: { status: number | null; headers: ResponseHeaders; text: string } | null = null;
  exchange: HttpExchange | null = null;
  readonly over = Promise.withResolvers<string>();
  /** How often the request was written to a socket. */
  written = 0;
  afterData: () => void = () => {};

  head(status: number, headers: ResponseHeaders): void {
    this.calls.push("head");
    this.status = status;
    this.headers = headers;
  }
  data(piece: Part): void {
    this.calls.push("data");
    this.text += Buffer.from(partBytes(piece)).toString();
    this.afterData();
  }
  end(): void {
    this.calls.push("end");
    this.over.resolve("end");
  }
  fail(failure: TurnFailure): void {
    if (failure.kind === "error_message") {
      const { status, headers, body } = failure;
      this.error = { status, headers, text: Buffer.from(body ?? []).toString() };
      this.over.resolve("error");
    } else if (failure.kind === "unsupported") this.over.resolve(`unsupported ${failure.status}`);
    else this.over.resolve(`${failure.kind}: ${failure.reason}`);
  }

  get types(): string[] {
    return [...this.text.matchAll(/^event: (.*)$/gm)].map(([, type = ""]) => type);
  }
  get responseId(): string {
    return /"id":"(resp_[^"]*)"/.exec(this.text)?.[1] ?? "";
  }
}

interface Asked {
  body?: object;
  tail?: { responseId: string; body: object } | null;
  thread?: UpstreamLane;
  account?: PolicyAccount;
  headers?: string;
  path?: string;
}

function ask(of: SocketClient, port: number, asked: Asked = {}): Notes {
  const notes = new Notes();
  const target: DialTarget = { origin: `http://127.0.0.1:${port}`, hostHeader: null, tls: null };
  const parts = (body: object) => wholePart(Buffer.from(JSON.stringify(body)));
  const { tail = null } = asked;
  const upstreamLane = asked.thread ?? new UpstreamLane();
  // A conversation that the test does not pass in ends with its first turn.
  if (asked.thread === undefined) void notes.over.promise.then(() => upstreamLane.end());
  notes.exchange = of.send(
    {
      account: asked.account ?? account(),
      target,
      path: asked.path ?? "/v1/responses",
      headers: asked.headers ?? `authorization: Bearer ${CREDENTIAL}\r\n`,
      upstreamLane,
      wholeBody: parts(asked.body ?? { model: "sim-fast", input: "hello", stream: true, store: false }),
      tail: tail && { responseId: tail.responseId, body: () => parts(tail.body) },
      beforeWrite: () => notes.written++,
    },
    notes,
  );
  return notes;
}

describe("an upstream with WebSocket support", () => {
  let simulator: Simulator;
  beforeEach(() => {
    simulator = startSimulator({ credential: CREDENTIAL, record: "full", seed: 3 });
    closers.push(() => void simulator.stop());
  });

  const buildBody = (index: number): Record<string, unknown> => {
    const entry = simulator.ledger.entries()[index];
    return JSON.parse(Buffer.from(simulator.ledger.findBody(entry?.id ?? "") ?? []).toString());
  };

  test("a turn yields the same event stream as HTTP", async () => {
    const notes = ask(client(), simulator.port);
    expect(await notes.over.promise).toBe("end");
    expect([notes.status, notes.headers?.get("content-type")]).toEqual([200, "text/event-stream"]);
    expect(notes.written).toBe(1);
    expect(notes.calls[0]).toBe("head");
    expect(notes.types[0]).toBe("response.created");
    expect(notes.types.at(-1)).toBe("response.completed");
    expect(notes.text).toMatch(/^(event: [\w.]+\ndata: \{.*\}\n\n)+$/);
    expect(buildBody(0)).toEqual({
      type: "response.create",
      model: "sim-fast",
      input: "hello",
      stream: true,
      store: false,
    });
    expect(simulator.ledger.last()?.headers.authorization).toBe(`Bearer ${CREDENTIAL}`);
  });

  test("one socket serves turns in sequence, and concurrent turns use several sockets", async () => {
    const of = client();
    await ask(of, simulator.port).over.promise;
    await ask(of, simulator.port).over.promise;
    expect(simulator.ledger.sockets().opened).toBe(1);
    const slow = { model: "sim-fast@interval=2ms,events=30", input: "x", store: false };
    const both = [ask(of, simulator.port, { body: slow }), ask(of, simulator.port, { body: slow })];
    for (const { over } of both) expect(await over.promise).toBe("end");
    expect(simulator.ledger.sockets().opened).toBe(2);
  });

  test("different credentials, accounts and handshakes never share a socket", async () => {
    const of = client();
    await ask(of, simulator.port).over.promise;
    await ask(of, simulator.port, { account: account({ id: "acct_2" }) }).over.promise;
    await ask(of, simulator.port, {
      headers: `authorization: Bearer ${CREDENTIAL}\r\nopenai-beta: responses_websockets=1\r\n`,
    }).over.promise;
    expect(simulator.ledger.sockets().opened).toBe(3);
    expect(await ask(of, simulator.port, { headers: "authorization: Bearer wrong\r\n" }).over.promise).toBe(
      "end",
    );
  });

  test("a conversation continues from its last response only on the socket that created it", async () => {
    const of = client();
    const thread = new UpstreamLane();
    const first = ask(of, simulator.port, { thread });
    await first.over.promise;
    const goOn = () => ({
      thread,
      body: { model: "sim-fast", input: "all of it", store: false },
      tail: {
        responseId: thread.last?.responseId ?? "",
        body: {
          model: "sim-fast",
          input: "more",
          store: false,
          previous_response_id: thread.last?.responseId,
        },
      },
    });
    expect(thread.last?.responseId).toBe(first.responseId);
    expect(await ask(of, simulator.port, goOn()).over.promise).toBe("end");
    expect(buildBody(1)).toMatchObject({ input: "more", previous_response_id: first.responseId });

    // Another conversation does not get the socket while it may open its own.
    await ask(of, simulator.port).over.promise;
    expect(simulator.ledger.sockets().opened).toBe(2);

    const again = goOn();
    simulator.closeSockets(1001);
    await eventually(() => simulator.ledger.sockets().open, { equals: 0 });
    expect(await ask(of, simulator.port, again).over.promise).toBe("end");
    expect(buildBody(3)).toMatchObject({ input: "all of it" });
  });

  test("a turn is sent again in full if the socket has lost its last response", async () => {
    const of = client();
    const thread = new UpstreamLane();
    await ask(of, simulator.port, { thread }).over.promise;
    const responseId = thread.last?.responseId ?? "";
    simulator.force("forgets", 1);
    const notes = ask(of, simulator.port, {
      thread,
      body: { model: "sim-fast", input: "all of it", store: false },
      tail: { responseId, body: { model: "sim-fast", input: "more", previous_response_id: responseId } },
    });
    expect(await notes.over.promise).toBe("end");
    expect(notes.types.filter((type) => type === "response.created")).toHaveLength(1);
    expect([buildBody(1).input, buildBody(2).input]).toEqual(["more", "all of it"]);
    expect(simulator.ledger.sockets().opened).toBe(1);
  });

  test("a socket at the upstream's age limit is replaced without an error", async () => {
    const of = client();
    await ask(of, simulator.port).over.promise;
    simulator.force("connection-limit", 1);
    const notes = ask(of, simulator.port);
    expect(await notes.over.promise).toBe("end");
    expect(notes.types.at(-1)).toBe("response.completed");
    expect(simulator.ledger.sockets().opened).toBe(2);
  });

  test("a socket above the maximum age is not reused", async () => {
    const of = client({ ageMs: 0 });
    await ask(of, simulator.port).over.promise;
    await eventually(() => simulator.ledger.sockets().open, { equals: 0 });
    expect(await ask(of, simulator.port).over.promise).toBe("end");
    expect(simulator.ledger.sockets().opened).toBe(2);
  });

  test("an idle socket is closed, unless a conversation may continue on it", async () => {
    const of = client({ idleMs: 1, pingMs: 40 });
    const thread = new UpstreamLane();
    await ask(of, simulator.port, { thread }).over.promise;
    await ask(of, simulator.port).over.promise;
    await eventually(() => simulator.ledger.sockets().open, { equals: 1 });
    thread.end();
    await eventually(() => simulator.ledger.sockets().open, { equals: 0 });
  });

  test("idle sockets above the maximum are closed, least recently used first", async () => {
    const of = client({ freeMax: 2 });
    const slow = { model: "sim-fast@interval=2ms,events=20", input: "x", store: false };
    const all = Array.from({ length: 4 }, () => ask(of, simulator.port, { body: slow }));
    for (const { over } of all) await over.promise;
    await eventually(() => simulator.ledger.sockets().open, { equals: 2 });
  });

  test("the maximum of idle sockets applies per account, across handshakes", async () => {
    const of = client({ freeMax: 2 });
    const asking = (beta: number, id = "acct_1") => ({
      account: account({ id }),
      headers: `authorization: Bearer ${CREDENTIAL}\r\nopenai-beta: ${beta}\r\n`,
    });
    await ask(of, simulator.port, asking(0, "acct_2")).over.promise;
    for (const beta of [1, 2, 3, 4]) await ask(of, simulator.port, asking(beta)).over.promise;
    await eventually(() => simulator.ledger.sockets().open, { equals: 3 });
    // The least recently used sockets are closed, and the other account has its own.
    for (const one of [asking(3), asking(4), asking(0, "acct_2")])
      await ask(of, simulator.port, one).over.promise;
    expect(simulator.ledger.sockets().opened).toBe(5);
  });

  test("an error instead of a response has status and headers, and the socket is reused", async () => {
    const of = client();
    const notes = ask(of, simulator.port, { body: { model: "fault/429@retry=2", input: "x" } });
    expect(await notes.over.promise).toBe("error");
    expect([notes.error?.status, notes.error?.headers.get("retry-after")]).toEqual([429, "2"]);
    expect(notes.calls).toEqual([]);
    expect(await ask(of, simulator.port).over.promise).toBe("end");
    expect(simulator.ledger.sockets().opened).toBe(1);
  });

  test("an error within a response follows the events before it", async () => {
    const notes = ask(client(), simulator.port, { body: { model: "fault/error-in-stream", input: "x" } });
    expect(await notes.over.promise).toBe("error");
    expect(notes.types).toHaveLength(6);
    expect(notes.error?.status).toBe(500);
  });

  test("private events of the upstream are not passed on", async () => {
    const notes = ask(client(), simulator.port, { body: { model: "fault/private-events", input: "x" } });
    expect(await notes.over.promise).toBe("end");
    expect(notes.types[0]).toBe("response.created");
    expect(notes.text).not.toContain("CANARY");
  });

  test("an idle socket that breaks at once is replaced; a new one or one with a response fails", async () => {
    const of = client();
    await ask(of, simulator.port).over.promise;
    simulator.force("refuse", 1);
    expect(await ask(of, simulator.port).over.promise).toBe("end");
    expect(simulator.ledger.sockets().opened).toBe(2);
    simulator.force("refuse", 2);
    expect(await ask(of, simulator.port).over.promise).toStartWith("reset: ");
    const broken = ask(of, simulator.port, { body: { model: "fault/rst@chunk3", input: "x" } });
    expect(await broken.over.promise).toStartWith("reset: ");
    expect(broken.types).toHaveLength(3);
    const cut = ask(of, simulator.port, { body: { model: "fault/cut@chunk3", input: "x" } });
    expect(await cut.over.promise).toBe("reset: the upstream closed with 1000");
  });

  test("a handler that throws gets a failure, and its socket is not reused", async () => {
    const of = client();
    const notes = ask(of, simulator.port);
    notes.afterData = () => {
      throw new Error("no");
    };
    expect(await notes.over.promise).toBe("reset: the response sink threw an error");
    expect(await ask(of, simulator.port).over.promise).toBe("end");
    expect(simulator.ledger.sockets().opened).toBe(2);
  });

  test("aborting a turn closes its socket", async () => {
    const of = client();
    const notes = ask(of, simulator.port, { body: { model: "fault/stall@chunk3", input: "x" } });
    await eventually(() => notes.types.length, { equals: 3 });
    notes.exchange?.abort();
    await eventually(() => simulator.ledger.last()?.abortedByClient);
    await eventually(() => simulator.ledger.sockets().open, { equals: 0 });
  });

  test("pausing a turn applies back-pressure to the upstream, and no event is lost", async () => {
    const of = client({ messageBytesMax: 64 * 1024 * 1024 });
    const body = { model: "sim-fast@events=2000,bytes=20000000", input: "x", store: false };
    const notes = ask(of, simulator.port, { body });
    await eventually(() => notes.types.length > 0);
    notes.exchange?.pause();
    let before = -1;
    await eventually(() => {
      const sent = simulator.ledger.last()?.eventsSent ?? 0;
      const isStill = sent === before;
      before = sent;
      return isStill;
    });
    expect(before).toBeLessThan(2_000);
    notes.exchange?.resume();
    expect(await notes.over.promise).toBe("end");
    expect(notes.types.filter((type) => type === "response.output_text.delta")).toHaveLength(2_000);
  });

  test("requests and events of many megabytes arrive completely", async () => {
    const of = client({ messageBytesMax: 8 * 1024 * 1024 });
    const input = "ä".repeat(4_000_000);
    const asked = ask(of, simulator.port, { body: { model: "sim-fast", input, store: false } });
    expect(await asked.over.promise).toBe("end");
    const message = JSON.stringify({ type: "response.create", model: "sim-fast", input, store: false });
    const digest = new Bun.CryptoHasher("sha256").update(message).digest("hex");
    expect(simulator.ledger.last()?.bodySha256).toBe(digest);
    const call = ask(of, simulator.port, { body: { model: "fault/hugeline@size=6000000", input: "x" } });
    expect(await call.over.promise).toBe("end");
    expect(call.text).toContain(`"filler":"${"a".repeat(6_000_000)}"}\n\n`);
  });

  test("a changed credential closes the old sockets, at once or after their turn", async () => {
    const of = client();
    const before = account();
    const slow = { model: "sim-fast@interval=5ms,events=40", input: "x", store: false };
    const free = ask(of, simulator.port, { account: before });
    await free.over.promise;
    const [first, second] = [
      ask(of, simulator.port, { account: before, body: slow }),
      ask(of, simulator.port, { account: before }),
    ];
    await second.over.promise;
    of.retain(new Map([[before.id, account({ priority: 7 })]]));
    expect(simulator.ledger.sockets().open).toBe(2);
    of.retain(new Map([[before.id, account({ credential: "sk-next" })]]));
    await eventually(() => simulator.ledger.sockets().open, { equals: 1 });
    expect(await first.over.promise).toBe("end");
    await eventually(() => simulator.ledger.sockets().open, { equals: 0 });
  });

  test("404, 405 and 426 disable the WebSocket for a while; other errors are responses", async () => {
    const of = client();
    for (const status of [404, 405, 426]) {
      simulator.force(`upgrade@${status}`, 1);
      const one = account({ id: `acct_${status}` });
      const rejected = ask(of, simulator.port, { account: one });
      expect(await rejected.over.promise).toBe(`unsupported ${status}`);
      expect(rejected.written).toBe(0);
      expect(of.isSupported(one, BODY)).toBe(false);
      expect(of.isSupported({ ...one, baseUrl: "http://other.example" }, BODY)).toBe(true);
    }
    expect(unsupported).toEqual([404, 405, 426]);
    simulator.force("upgrade@429,retry=7", 1);
    const limited = ask(of, simulator.port);
    expect(await limited.over.promise).toBe("end");
    expect([limited.status, limited.headers?.get("retry-after")]).toEqual([429, "7"]);
    expect(JSON.parse(limited.text).error.code).toBe("rate_limit_exceeded");
    simulator.force("upgrade@503", 1);
    const overloaded = ask(of, simulator.port);
    await overloaded.over.promise;
    expect(overloaded.status).toBe(503);
    expect(of.isSupported(account(), BODY)).toBe(true);
  });

  test("a long request is not for a WebSocket", () => {
    const of = client({ sentBytesMax: 2 });
    expect(of.isSupported(account(), BODY)).toBe(true);
    expect(of.isSupported(account(), wholePart(Buffer.from("{ }")))).toBe(false);
  });
});

interface HandMade {
  port: number;
  server: Server;
  sockets: Socket[];
  received: [opcode: number, text: string][];
}

/** An upstream whose bytes the test writes. */
async function handMade(
  respond: (key: string) => string,
  onMessage: (socket: Socket, text: string) => void = () => {},
): Promise<HandMade> {
  const made: HandMade = { port: 0, server: createServer(), sockets: [], received: [] };
  made.server.on("connection", (socket) => {
    made.sockets.push(socket);
    const frames = new FrameReader({ isMasked: true, messageBytesMax: 64 * 1024 * 1024 });
    let head = "";
    let isOpen = false;
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      let rest = Buffer.from(bytes);
      if (!isOpen) {
        head += rest.toString("latin1");
        const end = head.indexOf("\r\n\r\n");
        if (end < 0) return;
        isOpen = true;
        socket.write(respond(/sec-websocket-key: (.*)\r/i.exec(head)?.[1] ?? ""));
        rest = Buffer.from(head.slice(end + 4), "latin1");
      }
      const fault = frames.push(rest, {
        onMessage(opcode, from, start, to) {
          const text = Buffer.from(from.subarray(start, to)).toString();
          made.received.push([opcode, text]);
          onMessage(socket, text);
        },
        onControl: (opcode, payload) => made.received.push([opcode, Buffer.from(payload).toString("latin1")]),
      });
      if (fault !== null) throw new Error(fault.reason);
    });
  });
  await new Promise<void>((resolve) => made.server.listen(0, "127.0.0.1", resolve));
  const address = made.server.address();
  made.port = typeof address === "object" && address !== null ? address.port : 0;
  closers.push(() => {
    for (const socket of made.sockets) socket.destroy();
    made.server.close();
  });
  return made;
}

const good = (key: string, more = "") =>
  `HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Accept: ${computeAcceptKey(key)}\r\n${more}\r\n`;
const text = (message: string) => buildFrame(TEXT, wholePart(Buffer.from(message)), null);
const created = (id: string) => text(`{"type":"response.created","response":{"id":"${id}"}}`);
const completed = (id: string) => text(`{"type":"response.completed","response":{"id":"${id}"}}`);
const delta = (words: string) => text(`{"type":"response.output_text.delta","delta":"${words}"}`);
const RESPONSE = Buffer.concat([created("resp_1"), completed("resp_1")]);

describe("the WebSocket protocol", () => {
  test("the accept key matches the example of the RFC", () => {
    expect(computeAcceptKey("dGhlIHNhbXBsZSBub25jZQ==")).toBe("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  });

  const refused: [what: string, response: (key: string) => string, reason: string][] = [
    ["another key's answer", () => good("another"), "handshake for another key"],
    [
      "an upgrade to another protocol",
      (key) => good(key).replace("WebSocket\r", "h2c\r"),
      "upgrade to another protocol",
    ],
    ["no accept key", (key) => good(key).replace("keep-alive, Upgrade", "close"), "not confirmed"],
    ["an extension", (key) => good(key, "Sec-WebSocket-Extensions: permessage-deflate\r\n"), "extension"],
    ["a subprotocol", (key) => good(key, "Sec-WebSocket-Protocol: chat\r\n"), "subprotocol"],
    ["no HTTP response", () => "SSH-2.0-OpenSSH\r\n\r\n", "not an HTTP/1 response"],
    ["endless interim responses", () => "HTTP/1.1 100 \r\n\r\n".repeat(50_000), "16384"],
    ["an endless head", () => `HTTP/1.1 101 X\r\nA: ${"x".repeat(20_000)}\r\n`, "16384"],
  ];
  for (const [what, response, reason] of refused) {
    test(`${what} in the handshake is rejected`, async () => {
      const { port } = await handMade(response);
      const over = await ask(client(), port).over.promise;
      expect(over).toStartWith("bad_http: ");
      expect(over).toContain(reason);
    });
  }

  test("events may follow the handshake in one read, after interim responses, in any pieces", async () => {
    const { port } = await handMade(
      (key) => `HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${good(key)}`,
      (socket) => {
        for (const byte of RESPONSE) socket.write(Uint8Array.of(byte));
      },
    );
    const notes = ask(client(), port);
    expect(await notes.over.promise).toBe("end");
    expect(notes.types).toEqual(["response.created", "response.completed"]);
  });

  test("a message with its type last, or over several lines, is the same event", async () => {
    const { port } = await handMade(good, (socket) => {
      socket.write(text('{"delta":"a","type":"response.output_text.delta"}'));
      socket.write(text('{\n  "type": "response.output_text.delta",\r\n  "delta": "b"\n}'));
      socket.write(text('{"type":"responses_are.private"}'));
      socket.write(completed("resp_1"));
      socket.write(delta("too late"));
    });
    const notes = ask(client(), port);
    expect(await notes.over.promise).toBe("end");
    expect(notes.types).toEqual([
      "response.output_text.delta",
      "response.output_text.delta",
      "response.completed",
    ]);
    expect(notes.text).toContain('data: {   "type": "response.output_text.delta",    "delta": "b" }\n\n');
    expect(notes.text).not.toContain("too late");
  });

  test("a read of many short messages is handled in slices, before the close that follows it", async () => {
    const count = 100_000;
    const { port } = await handMade(good, (socket) => {
      const messages = Buffer.concat(Array.from({ length: count }, () => delta("a")));
      socket.end(Buffer.concat([created("resp_1"), messages]));
    });
    const notes = ask(client(), port);
    let longest = 0;
    let before = 0;
    notes.afterData = () => {
      longest = Math.max(longest, notes.text.length - before);
      before = notes.text.length;
    };
    expect(await notes.over.promise).toBe("reset: the upstream closed the connection");
    expect(notes.types.length).toBe(count + 1);
    // Each message becomes an event of twice its length.
    expect(longest).toBeLessThan(3 * 64 * 1024);
  });

  test("pings are answered, and idle sockets are pinged", async () => {
    const made = await handMade(good, (socket) => {
      socket.write(buildFrame(PING, wholePart(Buffer.from("abc")), null));
      socket.write(RESPONSE);
    });
    const of = client({ pingMs: 40 });
    await ask(of, made.port).over.promise;
    await eventually(() => made.received.some(([opcode, payload]) => opcode === PONG && payload === "abc"));
    await eventually(() => made.received.some(([opcode]) => opcode === PING));
    // The pings get no response, so the socket is considered dead.
    await eventually(() => made.sockets[0]?.destroyed);
  });

  test("a close is answered, and a pending turn fails", async () => {
    const made = await handMade(good, (socket) => socket.write(closeFrame(1011, "why", null)));
    expect(await ask(client(), made.port).over.promise).toBe("reset: the upstream closed with 1011");
    await eventually(() => made.received.some(([opcode]) => opcode === CLOSE));
  });

  test("an invalid frame, a binary message or a too large one ends the socket and the turn", async () => {
    for (const [frame, reason] of [
      [Uint8Array.of(0xf1, 0), "reserved bit"],
      [buildFrame(2, [], null), "not text"],
      [Uint8Array.of(0x81, 127, 0, 0, 0, 1, 0, 0, 0, 0), "exceeds 1048576 bytes"],
    ] as const) {
      const { port } = await handMade(good, (socket) => socket.write(frame));
      const over = await ask(client(), port).over.promise;
      expect(over).toStartWith("bad_http: ");
      expect(over).toContain(reason);
    }
  });

  test("a turn is retried if its idle socket broke at once or before all of it was sent", async () => {
    let passedMs = 0;
    const of = client({ monotonicMs: () => systemClock.monotonicMs() + passedMs });
    const made = await handMade(good, (socket) => socket.write(RESPONSE));
    const long = { model: "m", input: "x".repeat(40_000_000) };
    await ask(of, made.port).over.promise;
    // The upstream stops reading, so that the kernel does not accept everything.
    made.sockets[0]?.pause();
    ask(of, made.port, { body: long });
    passedMs += 60_000;
    made.sockets[0]?.destroy();
    await eventually(() => made.sockets.length, { equals: 2 });
  });

  test("a turn that was sent is not retried if its socket breaks later", async () => {
    let passedMs = 0;
    const of = client({ monotonicMs: () => systemClock.monotonicMs() + passedMs });
    let turns = 0;
    const made = await handMade(good, (socket) => {
      if (turns++ === 0) socket.write(RESPONSE);
    });
    await ask(of, made.port).over.promise;
    const notes = ask(of, made.port);
    await eventually(() => turns, { equals: 2 });
    passedMs += 60_000;
    made.sockets[0]?.destroy();
    expect(await notes.over.promise).toStartWith("reset: ");
    expect(made.sockets).toHaveLength(1);
  });

  test("a handshake without a response times out, and a closed port is refused", async () => {
    const { port } = await handMade(() => "");
    const of = client({ handshakeTimeoutMs: 20 });
    const silent = ask(of, port);
    expect(await silent.over.promise).toStartWith("connect_timeout: ");
    expect(silent.written).toBe(0);
    const closed = await handMade(good);
    closed.server.close();
    expect(await ask(of, closed.port).over.promise).toStartWith("refused: ");
  });

  test("a path or header with a line break is not sent", async () => {
    const { port, sockets } = await handMade(good);
    expect(await ask(client(), port, { path: "/v1\r\nx: y" }).over.promise).toStartWith("refused: ");
    expect(await ask(client(), port, { headers: "a: b\nc: d\r\n" }).over.promise).toStartWith("refused: ");
    expect(sockets).toHaveLength(0);
  });

  test("an idle socket that closes normally is replaced; with any other code its turn fails", async () => {
    for (const [code, isReplaced] of [
      [1000, true],
      [1001, true],
      [1012, true],
      [1002, false],
      [1009, false],
      [1011, false],
      [1013, false],
      [4000, false],
      [null, false],
    ] as const) {
      let turns = 0;
      const made = await handMade(good, (socket) =>
        socket.write(turns++ === 1 ? closeFrame(code, "", null) : RESPONSE),
      );
      const of = client();
      await ask(of, made.port).over.promise;
      expect(await ask(of, made.port).over.promise).toBe(
        isReplaced ? "end" : `reset: the upstream closed with ${code ?? "no code"}`,
      );
      expect([turns, made.sockets.length]).toEqual(isReplaced ? [3, 2] : [2, 1]);
    }
  });

  test("an idle socket that violates the protocol is not replaced: its turn fails", async () => {
    let turns = 0;
    const made = await handMade(good, (socket) =>
      socket.write(turns++ === 1 ? Uint8Array.of(0xf1, 0) : RESPONSE),
    );
    const of = client();
    await ask(of, made.port).over.promise;
    expect(await ask(of, made.port).over.promise).toStartWith("bad_http: ");
    expect(turns).toBe(2);
  });

  test("of many pings that cannot be answered yet, only the last is answered", async () => {
    let turns = 0;
    const made = await handMade(good, (socket) => {
      if (turns++ === 0) socket.write(RESPONSE);
    });
    const of = client();
    await ask(of, made.port).over.promise;
    const [socket] = made.sockets;
    socket?.pause();
    const notes = ask(of, made.port, { body: { model: "m", input: "x".repeat(24_000_000) } });
    for (let n = 0; n < 1_000; n++)
      socket?.write(buildFrame(PING, wholePart(Buffer.from(`ping ${n}`)), null));
    socket?.write(created("resp_2"));
    // At this point the client has received the pings.
    await eventually(() => notes.types.length, { equals: 1 });
    socket?.resume();
    await eventually(() => turns, { equals: 2 });
    socket?.write(completed("resp_2"));
    expect(await notes.over.promise).toBe("end");
    await eventually(() => made.received.some(([opcode]) => opcode === PONG));
    expect(made.received.filter(([opcode]) => opcode === PONG)).toEqual([[PONG, "ping 999"]]);
  });
});

describe("a late message", () => {
  const SECRET = "words of another";
  const words = (more: string) => `{"type":"response.metadata","headers":{"x":"${more}"}}`;

  test("on an idle socket closes it, unless the message is private", async () => {
    for (const late of [
      delta(SECRET),
      completed("resp_1"),
      text("[DONE]"),
      text('{"type":"error","status":400,"error":{"code":"websocket_connection_limit_reached"}}'),
    ]) {
      const made = await handMade(good, (socket) => socket.write(RESPONSE));
      const of = client();
      await ask(of, made.port).over.promise;
      made.sockets[0]?.write(text(words("private")));
      await ask(of, made.port).over.promise;
      expect(made.sockets).toHaveLength(1);
      made.sockets[0]?.write(late);
      await eventually(() => made.received.some(([opcode]) => opcode === CLOSE));
      expect(await ask(of, made.port).over.promise).toBe("end");
      expect(made.sockets).toHaveLength(2);
    }
  });

  test("in one read with the end of its turn closes the socket", async () => {
    const made = await handMade(good, (socket) => socket.write(Buffer.concat([RESPONSE, delta(SECRET)])));
    const of = client();
    const notes = ask(of, made.port);
    expect(await notes.over.promise).toBe("end");
    expect(notes.text).not.toContain(SECRET);
    await eventually(() => made.received.some(([opcode]) => opcode === CLOSE));
  });

  test("after an error within a response is dropped: the socket closes with its turn", async () => {
    const made = await handMade(good, (socket) =>
      socket.write(Buffer.concat([created("resp_1"), text('{"type":"error","status":500}')])),
    );
    const of = client();
    expect(await ask(of, made.port).over.promise).toBe("error");
    await eventually(() => made.received.some(([opcode]) => opcode === CLOSE));
    expect(await ask(of, made.port).over.promise).toBe("error");
    expect(made.sockets).toHaveLength(2);
  });

  test("before the next response has begun is dropped, and the socket is not reused afterwards", async () => {
    let turns = 0;
    const made = await handMade(good, (socket) => {
      if (turns++ !== 1) socket.write(RESPONSE);
      else {
        for (const late of [delta(SECRET), completed("resp_1")]) socket.write(late);
        for (const own of [created("resp_2"), delta("own"), completed("resp_2")]) socket.write(own);
      }
    });
    const of = client();
    await ask(of, made.port).over.promise;
    const notes = ask(of, made.port);
    expect(await notes.over.promise).toBe("end");
    expect(notes.types).toEqual(["response.created", "response.output_text.delta", "response.completed"]);
    expect(notes.text).not.toContain(SECRET);
    expect(made.sockets).toHaveLength(1);
    await ask(of, made.port).over.promise;
    expect(made.sockets).toHaveLength(2);
  });

  test("that ends another response within the next fails that turn and the socket", async () => {
    let turns = 0;
    const made = await handMade(good, (socket) =>
      socket.write(turns++ === 0 ? RESPONSE : Buffer.concat([created("resp_2"), completed("resp_1")])),
    );
    const of = client();
    await ask(of, made.port).over.promise;
    const notes = ask(of, made.port);
    expect(await notes.over.promise).toBe("bad_http: received the end of another response");
    expect(notes.types).not.toContain("response.completed");
    await eventually(() => made.received.some(([opcode]) => opcode === CLOSE));
  });

  test("cannot be detected without response ids: such a socket serves one turn", async () => {
    const made = await handMade(good, (socket) => socket.write(text('{"type":"response.completed"}')));
    const of = client();
    expect(await ask(of, made.port).over.promise).toBe("end");
    expect(await ask(of, made.port).over.promise).toBe("end");
    expect(made.sockets).toHaveLength(2);
  });

  test("is awaited before another conversation gets the socket, but not by its own conversation", async () => {
    let passedMs = 0;
    const of = client({ reuseDelayMs: 60_000, monotonicMs: () => systemClock.monotonicMs() + passedMs });
    const made = await handMade(good, (socket) => socket.write(RESPONSE));
    const thread = new UpstreamLane();
    await ask(of, made.port, { thread }).over.promise;
    thread.clear();
    await ask(of, made.port, { thread }).over.promise;
    expect(made.sockets).toHaveLength(1);
    thread.end();
    await ask(of, made.port).over.promise;
    expect(made.sockets).toHaveLength(2);
    passedMs += 60_000;
    await ask(of, made.port).over.promise;
    expect(made.sockets).toHaveLength(2);
  });
});
