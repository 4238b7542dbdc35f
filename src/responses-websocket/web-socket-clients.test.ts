/** Tests with real connections, with the runtime's own client and with a raw one. */

import { afterEach, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { eventually } from "../../test/support/eventually.ts";
import { wholePart } from "../base/parts.ts";
import { listen } from "../net/http-server/socket-writer.test-support.ts";
import {
  buildFrame,
  CLOSE,
  closeFrame,
  FrameReader,
  PING,
  PONG,
  readClose,
  TEXT,
} from "../net/websocket/frames.ts";
import { upgradeHead } from "../net/websocket/upgrade.ts";
import { ByteBudget } from "./byte-budget.ts";
import { openWebSockets, type WebSocketEnd, type WebSocketsOptions } from "./connection.ts";

const MiB = 1024 * 1024;
const MASK = Uint8Array.of(9, 8, 7, 6);
const HEAD_END = "\r\n\r\n";

/** The owner of a connection. */
interface Peer {
  socket: WebSocketEnd<Peer> | null;
  received: string[];
  drains: number;
  isClosed: boolean;
}

interface Running {
  readonly url: string;
  readonly port: number;
  /** The oldest first. */
  readonly peers: readonly Peer[];
}

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

function serve(change: Partial<WebSocketsOptions<Peer>> = {}): Running {
  const peers: Peer[] = [];
  const all = openWebSockets<Peer>({
    incompleteBytes: new ByteBudget({ bytesMax: 2 ** 30, keyBytesMax: 2 ** 30 }),
    messageBytesMax: 32 * MiB,
    silenceMaxMs: 60_000,
    onMessage(peer, kind, bytes) {
      peer.received.push(`${kind} ${Buffer.from(bytes)}`);
      peer.socket?.sendUtf8("received ", bytes, 0, bytes.length);
    },
    onDrain(peer) {
      peer.drains++;
    },
    onClose(peer) {
      peer.isClosed = true;
    },
    ...change,
  });
  const listener = listen((outlet, first) => {
    const [, ...lines] = first.toString("latin1").split("\r\n");
    const headers = new Headers(
      lines.filter((line) => line !== "").map((line) => line.split(": ", 2) as [string, string]),
    );
    const head = upgradeHead({ headers, requestId: "req_1", protocol: "" });
    if (head === null) throw new Error("no proper upgrade");
    outlet.write(head);
    const peer: Peer = { socket: null, received: [], drains: 0, isClosed: false };
    peers.push(peer);
    peer.socket = all.open(outlet, peer, "a key");
    return peer.socket;
  });
  closers.push(() => {
    all.stop();
    listener.stop();
  });
  return { url: `ws://127.0.0.1:${listener.port}/`, port: listener.port, peers };
}

interface Client {
  readonly texts: string[];
  readonly closed: Promise<{ code: number; reason: string }>;
  send(text: string | Uint8Array): void;
  close(code: number, reason: string): void;
}

/** The runtime's client. */
async function open({ url }: Running): Promise<Client> {
  const socket = new WebSocket(url);
  const texts: string[] = [];
  const opened = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<{ code: number; reason: string }>();
  socket.onopen = () => opened.resolve();
  socket.onmessage = ({ data }) => void texts.push(String(data));
  socket.onclose = ({ code, reason }) => {
    opened.reject(new Error(`closed with ${code}`));
    closed.resolve({ code, reason });
  };
  closers.push(() => socket.close());
  await opened.promise;
  return {
    texts,
    closed: closed.promise,
    send: (text) => socket.send(text),
    close: (code, reason) => socket.close(code, reason),
  };
}

interface RawClient {
  readonly frames: [opcode: number, payload: Buffer][];
  /** The code of the last close frame that arrived. */
  readonly code: () => number | null;
  readonly ended: Promise<void>;
  readonly connection: Socket;
  respondsToPings: boolean;
}

async function openRaw({ port }: Running): Promise<RawClient> {
  const frames: [number, Buffer][] = [];
  const reader = new FrameReader({ isMasked: false, messageBytesMax: 2 ** 30 });
  const ended = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  let head: Buffer | null = Buffer.alloc(0);
  const connection = connect(port, "127.0.0.1", () => {
    connection.write(
      "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
        `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==${HEAD_END}`,
    );
  });
  const push = (bytes: Uint8Array) =>
    reader.push(bytes, {
      onMessage: (opcode, from, start, end) => frames.push([opcode, Buffer.from(from.subarray(start, end))]),
      onControl(opcode, payload) {
        frames.push([opcode, Buffer.from(payload)]);
        if (opcode === PING && client.respondsToPings)
          connection.write(buildFrame(PONG, wholePart(payload), MASK));
      },
    });
  const client: RawClient = {
    frames,
    code: () => readClose(frames.findLast(([opcode]) => opcode === CLOSE)?.[1] ?? Buffer.of(0))?.code ?? null,
    ended: ended.promise,
    connection,
    respondsToPings: false,
  };
  connection.on("data", (bytes) => {
    if (head === null) {
      push(Buffer.from(bytes));
      return;
    }
    head = Buffer.concat([head, Buffer.from(bytes)]);
    const end = head.indexOf(HEAD_END);
    if (end < 0) return;
    push(Buffer.from(head.subarray(end + HEAD_END.length)));
    head = null;
    opened.resolve();
  });
  connection.on("error", () => {});
  connection.on("close", () => ended.resolve());
  closers.push(() => connection.destroy());
  await opened.promise;
  return client;
}

const masked = (text: string, opcode = TEXT) => buildFrame(opcode, wholePart(Buffer.from(text)), MASK);

describe("the runtime's client", () => {
  test("receives responses to short and long messages", async () => {
    const running = serve();
    const client = await open(running);
    const sentTexts = ["", "häl𝄞lo", "x".repeat(126), "ä".repeat(40_000), "y".repeat(8 * MiB)];
    for (const text of sentTexts) client.send(text);
    await eventually(() => client.texts.length === sentTexts.length);
    expect(client.texts.every((text, i) => text === `received ${sentTexts[i]}`)).toBe(true);
    client.send(Uint8Array.of(0x61));
    await eventually(() => running.peers[0]?.received.at(-1), { equals: "binary a" });
  });

  test("that closes receives its own code", async () => {
    const running = serve();
    const client = await open(running);
    client.close(4321, "enough");
    expect((await client.closed).code).toBe(4321);
    await eventually(() => running.peers[0]?.isClosed);
  });

  test("receives code and reason when the server closes", async () => {
    const running = serve();
    const client = await open(running);
    running.peers[0]?.socket?.sendText("last words");
    running.peers[0]?.socket?.close(1012, "restarting");
    expect(await client.closed).toEqual({ code: 1012, reason: "restarting" });
    expect(client.texts).toEqual(["last words"]);
    await eventually(() => running.peers[0]?.isClosed);
  });

  test("receives the error for a too long message while it is still sending", async () => {
    const running = serve({ messageBytesMax: MiB });
    const client = await open(running);
    client.send("x".repeat(16 * MiB));
    expect(await client.closed).toEqual({ code: 1009, reason: `a message exceeds ${MiB} bytes` });
    expect(running.peers[0]?.isClosed).toBe(true);
  });
});

describe("a raw client", () => {
  test("stays connected while it answers pings, and is cut off when it does not", async () => {
    const running = serve({ silenceMaxMs: 800 });
    const [raw, other] = [await openRaw(running), await open(running)];
    raw.respondsToPings = true;
    const pings = () => raw.frames.filter(([opcode]) => opcode === PING).length;
    await eventually(() => pings(), { equals: 3 });
    expect(running.peers.map(({ isClosed }) => isClosed)).toEqual([false, false]);
    raw.respondsToPings = false;
    await raw.ended;
    expect(raw.code()).toBeNull();
    other.send("still here");
    await eventually(() => other.texts.length, { equals: 1 });
  });

  test("that disconnects without a close is closed", async () => {
    const running = serve();
    (await openRaw(running)).connection.destroy();
    await eventually(() => running.peers[0]?.isClosed);
  });

  test("is cut off when it does not answer the close", async () => {
    const running = serve({ silenceMaxMs: 80 });
    const raw = await openRaw(running);
    running.peers[0]?.socket?.close(1001, "");
    await raw.ended;
    expect(raw.code()).toBe(1001);
    expect(running.peers[0]?.isClosed).toBe(true);
  });

  test("is not cut off while it may still be reading the reason", async () => {
    const running = serve({ silenceMaxMs: 80 });
    const raw = await openRaw(running);
    raw.connection.write(buildFrame(TEXT, [], null));
    await raw.ended;
    expect(raw.code()).toBe(1002);
  });

  test("that does not read is buffered, and loses nothing when it reads again", async () => {
    const running = serve();
    const raw = await openRaw(running);
    raw.connection.pause();
    const peer = running.peers[0];
    const text = "z".repeat(10_000);
    let sent = 0;
    while ((peer?.socket?.bufferedBytes ?? 0) < 4 * MiB) peer?.socket?.sendText(`${sent++} ${text}`);
    expect(peer?.drains).toBe(0);
    raw.connection.write(masked("?", PING));
    raw.connection.write(masked("!", PING));
    raw.connection.write(masked("reads on"));
    await eventually(() => peer?.received.length, { equals: 1 });
    raw.connection.resume();
    await eventually(() => peer?.drains === 1 && raw.frames.length === sent + 2);
    expect(peer?.socket?.bufferedBytes).toBe(0);
    const [pongs, texts] = [PONG, TEXT].map((kind) => raw.frames.filter(([opcode]) => opcode === kind));
    expect(pongs).toEqual([[PONG, Buffer.from("!")]]);
    expect(texts?.pop()?.[1].toString()).toBe("received reads on");
    expect(texts?.every(([, payload], i) => payload.toString() === `${i} ${text}`)).toBe(true);
  });

  test("that closes with unread data still gets all of it, and the answer to its close", async () => {
    const running = serve();
    const raw = await openRaw(running);
    raw.connection.pause();
    const socket = running.peers[0]?.socket;
    let sent = 0;
    for (; (socket?.bufferedBytes ?? 0) < 4 * MiB; sent++) socket?.sendText("w".repeat(100_000));
    raw.connection.write(closeFrame(1000, "", MASK));
    await eventually(() => running.peers[0]?.isClosed);
    raw.connection.resume();
    await raw.ended;
    expect(raw.frames.length).toBe(sent + 1);
    expect(raw.code()).toBe(1000);
  });
});
