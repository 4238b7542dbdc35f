/** A relay between a client and the gateway that records the traffic and can cut connections. */

import { connect, createServer, type Socket } from "node:net";
import { z } from "zod";
import { openFrameReader } from "./frame-reader.ts";

const message = z.looseObject({ type: z.string() });
export type Message = z.infer<typeof message>;

export interface TappedMessage {
  from: "client" | "gateway";
  /** The number of the connection, from 0. */
  connection: number;
  message: Message;
}

export interface WireTap {
  /** Without `/v1`. */
  url: string;
  /** Every request that a client began, in order: `GET /v1/responses` is an upgrade. */
  requests: readonly string[];
  /** The messages of WebSockets. */
  messages: readonly TappedMessage[];
  /** The target of new connections. */
  aim(url: string): void;
  /** Resets every connection, as a network failure does. */
  cut(): void;
  stop(): Promise<void>;
}

export async function tapWire(url: string): Promise<WireTap> {
  let target = new URL(url);
  let connections = 0;
  const requests: string[] = [];
  const messages: TappedMessage[] = [];
  const sockets = new Set<Socket>();

  const server = createServer((client) => {
    const connection = connections++;
    const gateway = connect(Number(target.port), target.hostname);
    const keep = (from: TappedMessage["from"]) => (text: string) => {
      messages.push({ from, connection, message: message.parse(JSON.parse(text)) });
    };
    client.on(
      "data",
      openRequestReader((line) => requests.push(line), keep("client")),
    );
    gateway.on("data", openResponseReader(keep("gateway")));
    join(client, gateway);
    for (const socket of [client, gateway]) {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the tap has no port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    requests,
    messages,
    aim(next) {
      target = new URL(next);
    },
    cut() {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    stop() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

function join(one: Socket, other: Socket): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.setNoDelay(true);
    from.pipe(to);
    // A reset on one side is a reset on the other.
    from.on("error", () => to.resetAndDestroy());
    from.on("close", () => to.destroy());
  }
}

const HEAD_END = "\r\n\r\n";

/** Requests one after another, until one of them upgrades the connection. */
function openRequestReader(
  onRequest: (line: string) => void,
  onMessage: (text: string) => void,
): (bytes: Buffer) => void {
  const readFrames = openFrameReader(onMessage);
  let held: Buffer = Buffer.alloc(0);
  let upgraded = false;
  return (bytes) => {
    if (upgraded) return readFrames(bytes);
    held = Buffer.concat([held, bytes]);
    for (;;) {
      const headEnd = held.indexOf(HEAD_END);
      if (headEnd < 0) return;
      const head = held.toString("latin1", 0, headEnd);
      const end = headEnd + HEAD_END.length + Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
      if (held.length < end) return;
      onRequest(head.slice(0, head.indexOf(" HTTP/")));
      held = held.subarray(end);
      if (!/^upgrade: *websocket/im.test(head)) continue;
      upgraded = true;
      return readFrames(held);
    }
  };
}

/** A response that is not an upgrade is not parsed. */
function openResponseReader(onMessage: (text: string) => void): (bytes: Buffer) => void {
  const readFrames = openFrameReader(onMessage);
  let head: Buffer = Buffer.alloc(0);
  let state: "head" | "socket" | "other" = "head";
  return (bytes) => {
    if (state === "socket") return readFrames(bytes);
    if (state === "other") return;
    head = Buffer.concat([head, bytes]);
    const headEnd = head.indexOf(HEAD_END);
    if (headEnd < 0) return;
    state = head.toString("latin1", 0, 12) === "HTTP/1.1 101" ? "socket" : "other";
    if (state === "socket") readFrames(head.subarray(headEnd + HEAD_END.length));
  };
}
