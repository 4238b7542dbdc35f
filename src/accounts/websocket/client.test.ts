import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createServer, type Server, type Socket } from "node:net";
import { type Simulator, startSimulator } from "../../../simulator/simulator.ts";
import { eventually } from "../../../test/support/eventually.ts";
import type { AnswerHeaders, HttpExchange, HttpFailure } from "../../net/http-client/contract.ts";
import type { DialTarget } from "../../net/http-client/dial.ts";
import { computeAcceptKey } from "../../net/websocket/accept-key.ts";
import { buildFrame, CLOSE, closeFrame, FrameReader, PING, PONG, TEXT } from "../../net/websocket/frames.ts";
import { systemClock } from "../../net/wire/clock.ts";
import { openDeadlines } from "../../net/wire/deadlines.ts";
import { type Part, partBytes, wholePart } from "../../net/wire/parts.ts";
import type { PolicyAccount } from "../../policy/snapshot.ts";
import { socketAccount } from "../account.test-support.ts";
import {
  openSocketClient,
  type SocketClient,
  type SocketClientOptions,
  SocketConversation,
} from "./client.ts";

const CREDENTIAL = "sk-sim";
const closers: (() => void)[] = [];
const unspoken: number[] = [];

afterEach(() => {
  for (const close of closers.splice(0)) close();
  unspoken.length = 0;
});

function client(options: Partial<SocketClientOptions> = {}): SocketClient {
  const alarms = openDeadlines(5, systemClock);
  const opened = openSocketClient({
    alarms,
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
    restMs: 0,
    unspokenMs: 60_000,
    noteUnspoken: (_, status) => unspoken.push(status),
    ...options,
  });
  closers.push(() => {
    opened.close();
    alarms.stop();
  });
  return opened;
}

const account = (change: Partial<PolicyAccount> = {}) => socketAccount({ credential: CREDENTIAL, ...change });

/** The calls of a turn in order, and its end. */
class Notes {
  readonly calls: string[] = [];
  status = 0;
  headers: AnswerHeaders | null = null;
  text = "";
  error: { status: number | null; headers: AnswerHeaders; text: string } | null = null;
  exchange: HttpExchange | null = null;
  readonly over = Promise.withResolvers<string>();
  onData: () => void = () => {};

  head(status: number, headers: AnswerHeaders): void {
    this.calls.push("head");
    this.status = status;
    this.headers = headers;
  }
  data(piece: Part): void {
    this.calls.push("data");
    this.text += Buffer.from(partBytes(piece)).toString();
    this.onData();
  }
  end(): void {
    this.calls.push("end");
    this.over.resolve("end");
  }
  failed({ kind, reason }: HttpFailure): void {
    this.over.resolve(`${kind}: ${reason}`);
  }
  toldError(status: number | null, headers: AnswerHeaders, body: Uint8Array): void {
    this.error = { status, headers, text: Buffer.from(body).toString() };
    this.over.resolve("error");
  }
  unspoken(status: number): void {
    this.over.resolve(`unspoken ${status}`);
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
  thread?: SocketConversation;
  account?: PolicyAccount;
  headers?: string;
  path?: string;
}

function ask(of: SocketClient, port: number, asked: Asked = {}): Notes {
  const notes = new Notes();
  const target: DialTarget = { origin: `http://127.0.0.1:${port}`, hostHeader: null, tls: null };
  const parts = (body: object) => wholePart(Buffer.from(JSON.stringify(body)));
  const { tail = null } = asked;
  const thread = asked.thread ?? new SocketConversation();
  // A conversation that the test does not pass in ends with its first turn.
  if (asked.thread === undefined) void notes.over.promise.then(() => thread.end());
  notes.exchange = of.send(
    {
      account: asked.account ?? account(),
      target,
      path: asked.path ?? "/v1/responses",
      headers: asked.headers ?? `authorization: Bearer ${CREDENTIAL}\r\n`,
      thread,
      whole: parts(asked.body ?? { model: "sim-fast", input: "hello", stream: true, store: false }),
      tail: tail && { responseId: tail.responseId, body: () => parts(tail.body) },
    },
    notes,
  );
  return notes;
}

describe("with an upstream that speaks it", () => {
  let simulator: Simulator;
  beforeEach(() => {
    simulator = startSimulator({ credential: CREDENTIAL, record: "full", seed: 3 });
    closers.push(() => void simulator.stop());
  });

  const bodyOf = (index: number): Record<string, unknown> => {
    const entry = simulator.ledger.entries()[index];
    return JSON.parse(Buffer.from(simulator.ledger.bodyOf(entry?.id ?? "") ?? []).toString());
  };

  test("a turn is the event stream that HTTP would have brought", async () => {
    const notes = ask(client(), simulator.port);
    expect(await notes.over.promise).toBe("end");
    expect([notes.status, notes.headers?.get("content-type")]).toEqual([200, "text/event-stream"]);
    expect(notes.calls[0]).toBe("head");
    expect(notes.types[0]).toBe("response.created");
    expect(notes.types.at(-1)).toBe("response.completed");
    expect(notes.text).toMatch(/^(event: [\w.]+\ndata: \{.*\}\n\n)+$/);
    expect(bodyOf(0)).toEqual({
      type: "response.create",
      model: "sim-fast",
      input: "hello",
      stream: true,
      store: false,
    });
    expect(simulator.ledger.last()?.headers.authorization).toBe(`Bearer ${CREDENTIAL}`);
  });

  test("one socket serves turns one after the other, and two at once need two", async () => {
    const of = client();
    await ask(of, simulator.port).over.promise;
    await ask(of, simulator.port).over.promise;
    expect(simulator.ledger.sockets().opened).toBe(1);
    const slow = { model: "sim-fast@interval=2ms,events=30", input: "x", store: false };
    const both = [ask(of, simulator.port, { body: slow }), ask(of, simulator.port, { body: slow })];
    for (const { over } of both) expect(await over.promise).toBe("end");
    expect(simulator.ledger.sockets().opened).toBe(2);
  });

  test("credentials, accounts and handshakes that differ never share one", async () => {
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

  test("a conversation goes on from its last response only on the socket that made it", async () => {
    const of = client();
    const thread = new SocketConversation();
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
    expect(bodyOf(1)).toMatchObject({ input: "more", previous_response_id: first.responseId });

    // Another conversation does not get the socket while it may open its own.
    await ask(of, simulator.port).over.promise;
    expect(simulator.ledger.sockets().opened).toBe(2);

    const again = goOn();
    simulator.closeSockets(1001);
    await eventually(() => simulator.ledger.sockets().open === 0);
    expect(await ask(of, simulator.port, again).over.promise).toBe("end");
    expect(bodyOf(3)).toMatchObject({ input: "all of it" });
  });

  test("a socket that has forgotten is told everything, and its taker hears nothing of it", async () => {
    const of = client();
    const thread = new SocketConversation();
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
    expect([bodyOf(1).input, bodyOf(2).input]).toEqual(["more", "all of it"]);
    expect(simulator.ledger.sockets().opened).toBe(1);
  });

  test("one that has come to its upstream's age limit is replaced unnoticed", async () => {
    const of = client();
    await ask(of, simulator.port).over.promise;
    simulator.force("connection-limit", 1);
    const notes = ask(of, simulator.port);
    expect(await notes.over.promise).toBe("end");
    expect(notes.types.at(-1)).toBe("response.completed");
    expect(simulator.ledger.sockets().opened).toBe(2);
  });

  test("one that is too old serves nobody more", async () => {
    const of = client({ ageMs: 0 });
    await ask(of, simulator.port).over.promise;
    await eventually(() => simulator.ledger.sockets().open === 0);
    expect(await ask(of, simulator.port).over.promise).toBe("end");
    expect(simulator.ledger.sockets().opened).toBe(2);
  });

  test("one that nobody uses is closed after a while, unless a conversation may come back to it", async () => {
    const of = client({ idleMs: 1, pingMs: 40 });
    const thread = new SocketConversation();
    await ask(of, simulator.port, { thread }).over.promise;
    await ask(of, simulator.port).over.promise;
    await eventually(() => simulator.ledger.sockets().open === 1);
    thread.end();
    await eventually(() => simulator.ledger.sockets().open === 0);
  });

  test("more than may be kept are not, and the longest unused goes first", async () => {
    const of = client({ freeMax: 2 });
    const slow = { model: "sim-fast@interval=2ms,events=20", input: "x", store: false };
    const all = Array.from({ length: 4 }, () => ask(of, simulator.port, { body: slow }));
    for (const { over } of all) await over.promise;
    await eventually(() => simulator.ledger.sockets().open === 2);
  });

  test("so many are kept for an account, whatever their handshakes said", async () => {
    const of = client({ freeMax: 2 });
    const asking = (beta: number, id = "acct_1") => ({
      account: account({ id }),
      headers: `authorization: Bearer ${CREDENTIAL}\r\nopenai-beta: ${beta}\r\n`,
    });
    await ask(of, simulator.port, asking(0, "acct_2")).over.promise;
    for (const beta of [1, 2, 3, 4]) await ask(of, simulator.port, asking(beta)).over.promise;
    await eventually(() => simulator.ledger.sockets().open === 3);
    // The least recently used sockets are closed, and the other account has its own.
    for (const one of [asking(3), asking(4), asking(0, "acct_2")])
      await ask(of, simulator.port, one).over.promise;
    expect(simulator.ledger.sockets().opened).toBe(5);
  });

  test("an error in place of an answer tells status and headers, and the socket serves on", async () => {
    const of = client();
    const notes = ask(of, simulator.port, { body: { model: "fault/429@retry=2", input: "x" } });
    expect(await notes.over.promise).toBe("error");
    expect([notes.error?.status, notes.error?.headers.get("retry-after")]).toEqual([429, "2"]);
    expect(notes.calls).toEqual([]);
    expect(await ask(of, simulator.port).over.promise).toBe("end");
    expect(simulator.ledger.sockets().opened).toBe(1);
  });

  test("an error in the middle comes after what was said before it", async () => {
    const notes = ask(client(), simulator.port, { body: { model: "fault/error-in-stream", input: "x" } });
    expect(await notes.over.promise).toBe("error");
    expect(notes.types).toHaveLength(6);
    expect(notes.error?.status).toBe(500);
  });

  test("what an upstream says of its account stays here", async () => {
    const notes = ask(client(), simulator.port, { body: { model: "fault/private-events", input: "x" } });
    expect(await notes.over.promise).toBe("end");
    expect(notes.types[0]).toBe("response.created");
    expect(notes.text).not.toContain("CANARY");
  });

  test("a kept socket that breaks at once is replaced; a new one, or one that has answered, is a failure", async () => {
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

  test("a taker that throws hears that it is over, and its socket is not used again", async () => {
    const of = client();
    const notes = ask(of, simulator.port);
    notes.onData = () => {
      throw new Error("no");
    };
    expect(await notes.over.promise).toBe("reset: the taker of the answer threw");
    expect(await ask(of, simulator.port).over.promise).toBe("end");
    expect(simulator.ledger.sockets().opened).toBe(2);
  });

  test("whoever leaves takes the socket along", async () => {
    const of = client();
    const notes = ask(of, simulator.port, { body: { model: "fault/stall@chunk3", input: "x" } });
    await eventually(() => notes.types.length === 3);
    notes.exchange?.abort();
    await eventually(() => simulator.ledger.last()?.abortedByClient);
    await eventually(() => simulator.ledger.sockets().open === 0);
  });

  test("while the taker waits the upstream is held up, and nothing is lost", async () => {
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

  test("requests and events of many megabytes arrive whole", async () => {
    const of = client({ messageBytesMax: 8 * 1024 * 1024 });
    const input = "ä".repeat(4_000_000);
    const asked = ask(of, simulator.port, { body: { model: "sim-fast", input, store: false } });
    expect(await asked.over.promise).toBe("end");
    const message = JSON.stringify({ type: "response.create", model: "sim-fast", input, store: false });
    const digest = new Bun.CryptoHasher("sha256").update(message).digest("hex");
    expect(simulator.ledger.last()?.bodySha256).toBe(digest);
    const told = ask(of, simulator.port, { body: { model: "fault/hugeline@size=6000000", input: "x" } });
    expect(await told.over.promise).toBe("end");
    expect(told.text).toContain(`"filler":"${"a".repeat(6_000_000)}"}\n\n`);
  });

  test("a changed credential closes what the old one opened, at once or after its turn", async () => {
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
    await eventually(() => simulator.ledger.sockets().open === 1);
    expect(await first.over.promise).toBe("end");
    await eventually(() => simulator.ledger.sockets().open === 0);
  });

  test("an upstream that refuses to speak it is left in peace for a while; other refusals are answers", async () => {
    const of = client();
    for (const status of [404, 405, 426]) {
      simulator.force(`upgrade@${status}`, 1);
      const one = account({ id: `acct_${status}` });
      expect(await ask(of, simulator.port, { account: one }).over.promise).toBe(`unspoken ${status}`);
      expect(of.speaks(one)).toBe(false);
      expect(of.speaks({ ...one, baseUrl: "http://other.example" })).toBe(true);
    }
    expect(unspoken).toEqual([404, 405, 426]);
    simulator.force("upgrade@429,retry=7", 1);
    const limited = ask(of, simulator.port);
    expect(await limited.over.promise).toBe("end");
    expect([limited.status, limited.headers?.get("retry-after")]).toEqual([429, "7"]);
    expect(JSON.parse(limited.text).error.code).toBe("rate_limit_exceeded");
    simulator.force("upgrade@503", 1);
    const overloaded = ask(of, simulator.port);
    await overloaded.over.promise;
    expect(overloaded.status).toBe(503);
    expect(of.speaks(account())).toBe(true);
  });
});

interface HandMade {
  port: number;
  server: Server;
  sockets: Socket[];
  heard: [opcode: number, text: string][];
}

/** An upstream whose bytes the test writes. */
async function handMade(
  answer: (key: string) => string,
  onMessage: (socket: Socket, text: string) => void = () => {},
): Promise<HandMade> {
  const made: HandMade = { port: 0, server: createServer(), sockets: [], heard: [] };
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
        socket.write(answer(/sec-websocket-key: (.*)\r/i.exec(head)?.[1] ?? ""));
        rest = Buffer.from(head.slice(end + 4), "latin1");
      }
      const fault = frames.push(rest, {
        message(opcode, from, start, to) {
          const text = Buffer.from(from.subarray(start, to)).toString();
          made.heard.push([opcode, text]);
          onMessage(socket, text);
        },
        control: (opcode, payload) => made.heard.push([opcode, Buffer.from(payload).toString("latin1")]),
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
const ANSWER = Buffer.concat([created("resp_1"), completed("resp_1")]);

describe("by the byte", () => {
  test("the key of the standard's example is answered as the standard says", () => {
    expect(computeAcceptKey("dGhlIHNhbXBsZSBub25jZQ==")).toBe("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  });

  const refused: [what: string, answer: (key: string) => string, reason: string][] = [
    ["another key's answer", () => good("another"), "answers another key"],
    [
      "an upgrade to something else",
      (key) => good(key).replace("WebSocket\r", "h2c\r"),
      "upgrade to something else",
    ],
    ["no confirmation", (key) => good(key).replace("keep-alive, Upgrade", "close"), "not confirmed"],
    ["an extension", (key) => good(key, "Sec-WebSocket-Extensions: permessage-deflate\r\n"), "extension"],
    ["a subprotocol", (key) => good(key, "Sec-WebSocket-Protocol: chat\r\n"), "subprotocol"],
    ["no HTTP", () => "SSH-2.0-OpenSSH\r\n\r\n", "not an HTTP/1 answer"],
    ["a head without end", () => `HTTP/1.1 101 X\r\nA: ${"x".repeat(20_000)}\r\n`, "16384"],
  ];
  for (const [what, answer, reason] of refused) {
    test(`${what} in the handshake is no answer`, async () => {
      const { port } = await handMade(answer);
      const over = await ask(client(), port).over.promise;
      expect(over).toStartWith("bad_http: ");
      expect(over).toContain(reason);
    });
  }

  test("events may follow the handshake in one read, after other heads, and come in any pieces", async () => {
    const { port } = await handMade(
      (key) => `HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${good(key)}`,
      (socket) => {
        for (const byte of ANSWER) socket.write(Uint8Array.of(byte));
      },
    );
    const notes = ask(client(), port);
    expect(await notes.over.promise).toBe("end");
    expect(notes.types).toEqual(["response.created", "response.completed"]);
  });

  test("a message whose type comes last, or that is written in lines, is the same event", async () => {
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
    expect(notes.text).toContain('data: {   "type": "response.output_text.delta",   "delta": "b" }\n\n');
    expect(notes.text).not.toContain("too late");
  });

  test("pings are answered, and silent sockets pinged", async () => {
    const made = await handMade(good, (socket) => {
      socket.write(buildFrame(PING, wholePart(Buffer.from("abc")), null));
      socket.write(ANSWER);
    });
    const of = client({ pingMs: 40 });
    await ask(of, made.port).over.promise;
    await eventually(() => made.heard.some(([opcode, said]) => opcode === PONG && said === "abc"));
    await eventually(() => made.heard.some(([opcode]) => opcode === PING));
    // The pings are not answered, so the socket is considered dead.
    await eventually(() => made.sockets[0]?.destroyed);
  });

  test("a close is answered, and a turn that waits for more has failed", async () => {
    const made = await handMade(good, (socket) => socket.write(closeFrame(1011, "why", null)));
    expect(await ask(client(), made.port).over.promise).toBe("reset: the upstream closed with 1011");
    await eventually(() => made.heard.some(([opcode]) => opcode === CLOSE));
  });

  test("what is no frame, no text or too large ends the socket and the turn", async () => {
    for (const [frame, reason] of [
      [Uint8Array.of(0xf1, 0), "reserved bit"],
      [buildFrame(2, [], null), "no text"],
      [Uint8Array.of(0x81, 127, 0, 0, 0, 1, 0, 0, 0, 0), "more than 1048576 bytes"],
    ] as const) {
      const { port } = await handMade(good, (socket) => socket.write(frame));
      const over = await ask(client(), port).over.promise;
      expect(over).toStartWith("bad_http: ");
      expect(over).toContain(reason);
    }
  });

  test("a turn is asked again where its kept socket broke at once, or before all of it was sent", async () => {
    let passedMs = 0;
    const of = client({ monotonicMs: () => systemClock.monotonicMs() + passedMs });
    const made = await handMade(good, (socket) => socket.write(ANSWER));
    const long = { model: "m", input: "x".repeat(40_000_000) };
    await ask(of, made.port).over.promise;
    // The upstream stops reading, so that the kernel does not accept everything.
    made.sockets[0]?.pause();
    ask(of, made.port, { body: long });
    passedMs += 60_000;
    made.sockets[0]?.destroy();
    await eventually(() => made.sockets.length === 2);
  });

  test("a turn that was sent is not asked again when its socket breaks later", async () => {
    let passedMs = 0;
    const of = client({ monotonicMs: () => systemClock.monotonicMs() + passedMs });
    let turns = 0;
    const made = await handMade(good, (socket) => {
      if (turns++ === 0) socket.write(ANSWER);
    });
    await ask(of, made.port).over.promise;
    const notes = ask(of, made.port);
    await eventually(() => turns === 2);
    passedMs += 60_000;
    made.sockets[0]?.destroy();
    expect(await notes.over.promise).toStartWith("reset: ");
    expect(made.sockets).toHaveLength(1);
  });

  test("a handshake that nobody answers is given up, an address where nobody listens too", async () => {
    const { port } = await handMade(() => "");
    const of = client({ handshakeTimeoutMs: 20 });
    expect(await ask(of, port).over.promise).toStartWith("connect_timeout: ");
    const closed = await handMade(good);
    closed.server.close();
    expect(await ask(of, closed.port).over.promise).toStartWith("refused: ");
  });

  test("a path or header that could begin a line of its own is not sent", async () => {
    const { port, sockets } = await handMade(good);
    expect(await ask(client(), port, { path: "/v1\r\nx: y" }).over.promise).toStartWith("refused: ");
    expect(await ask(client(), port, { headers: "a: b\nc: d\r\n" }).over.promise).toStartWith("refused: ");
    expect(sockets).toHaveLength(0);
  });

  test("a kept socket that is closed as any may be is replaced; with any other code its turn has failed", async () => {
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
        socket.write(turns++ === 1 ? closeFrame(code, "", null) : ANSWER),
      );
      const of = client();
      await ask(of, made.port).over.promise;
      expect(await ask(of, made.port).over.promise).toBe(
        isReplaced ? "end" : `reset: the upstream closed with ${code ?? "no code"}`,
      );
      expect([turns, made.sockets.length]).toEqual(isReplaced ? [3, 2] : [2, 1]);
    }
  });

  test("a kept socket that breaks the protocol is not replaced: its turn has failed", async () => {
    let turns = 0;
    const made = await handMade(good, (socket) =>
      socket.write(turns++ === 1 ? Uint8Array.of(0xf1, 0) : ANSWER),
    );
    const of = client();
    await ask(of, made.port).over.promise;
    expect(await ask(of, made.port).over.promise).toStartWith("bad_http: ");
    expect(turns).toBe(2);
  });

  test("of many pings that cannot be answered yet the last one is", async () => {
    let turns = 0;
    const made = await handMade(good, (socket) => {
      if (turns++ === 0) socket.write(ANSWER);
    });
    const of = client();
    await ask(of, made.port).over.promise;
    const [socket] = made.sockets;
    socket?.pause();
    const notes = ask(of, made.port, { body: { model: "m", input: "x".repeat(24_000_000) } });
    for (let n = 0; n < 1_000; n++)
      socket?.write(buildFrame(PING, wholePart(Buffer.from(`ping ${n}`)), null));
    socket?.write(created("resp_2"));
    // By then it has received the pings.
    await eventually(() => notes.types.length === 1);
    socket?.resume();
    await eventually(() => turns === 2);
    socket?.write(completed("resp_2"));
    expect(await notes.over.promise).toBe("end");
    await eventually(() => made.heard.some(([opcode]) => opcode === PONG));
    expect(made.heard.filter(([opcode]) => opcode === PONG)).toEqual([[PONG, "ping 999"]]);
  });
});

describe("what comes late", () => {
  const SECRET = "words of another";
  const words = (more: string) => `{"type":"response.metadata","headers":{"x":"${more}"}}`;

  test("on a socket that nobody uses ends it, but for what is private", async () => {
    for (const late of [
      delta(SECRET),
      completed("resp_1"),
      text("[DONE]"),
      text('{"type":"error","status":400,"error":{"code":"websocket_connection_limit_reached"}}'),
    ]) {
      const made = await handMade(good, (socket) => socket.write(ANSWER));
      const of = client();
      await ask(of, made.port).over.promise;
      made.sockets[0]?.write(text(words("private")));
      await ask(of, made.port).over.promise;
      expect(made.sockets).toHaveLength(1);
      made.sockets[0]?.write(late);
      await eventually(() => made.heard.some(([opcode]) => opcode === CLOSE));
      expect(await ask(of, made.port).over.promise).toBe("end");
      expect(made.sockets).toHaveLength(2);
    }
  });

  test("in one read with the end of its turn ends the socket too", async () => {
    const made = await handMade(good, (socket) => socket.write(Buffer.concat([ANSWER, delta(SECRET)])));
    const of = client();
    const notes = ask(of, made.port);
    expect(await notes.over.promise).toBe("end");
    expect(notes.text).not.toContain(SECRET);
    await eventually(() => made.heard.some(([opcode]) => opcode === CLOSE));
  });

  test("after an error in the middle is heard by nobody: the socket ends with its turn", async () => {
    const made = await handMade(good, (socket) =>
      socket.write(Buffer.concat([created("resp_1"), text('{"type":"error","status":500}')])),
    );
    const of = client();
    expect(await ask(of, made.port).over.promise).toBe("error");
    await eventually(() => made.heard.some(([opcode]) => opcode === CLOSE));
    expect(await ask(of, made.port).over.promise).toBe("error");
    expect(made.sockets).toHaveLength(2);
  });

  test("before the next response has begun is no part of it, and the socket serves no third", async () => {
    let turns = 0;
    const made = await handMade(good, (socket) => {
      if (turns++ !== 1) socket.write(ANSWER);
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

  test("and ends another response within the next breaks that one, and the socket", async () => {
    let turns = 0;
    const made = await handMade(good, (socket) =>
      socket.write(turns++ === 0 ? ANSWER : Buffer.concat([created("resp_2"), completed("resp_1")])),
    );
    const of = client();
    await ask(of, made.port).over.promise;
    const notes = ask(of, made.port);
    expect(await notes.over.promise).toBe("bad_http: the end of another response");
    expect(notes.types).not.toContain("response.completed");
    await eventually(() => made.heard.some(([opcode]) => opcode === CLOSE));
  });

  test("could not be told from the next where responses have no ids: such a socket serves once", async () => {
    const made = await handMade(good, (socket) => socket.write(text('{"type":"response.completed"}')));
    const of = client();
    expect(await ask(of, made.port).over.promise).toBe("end");
    expect(await ask(of, made.port).over.promise).toBe("end");
    expect(made.sockets).toHaveLength(2);
  });

  test("has time to come before another conversation is given the socket; its own is not kept waiting", async () => {
    let passedMs = 0;
    const of = client({ restMs: 60_000, monotonicMs: () => systemClock.monotonicMs() + passedMs });
    const made = await handMade(good, (socket) => socket.write(ANSWER));
    const thread = new SocketConversation();
    await ask(of, made.port, { thread }).over.promise;
    thread.forget();
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
