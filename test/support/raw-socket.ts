/** A WebSocket client on a raw connection: it can stop reading, leave pings unanswered, and send what no library would. */

import { connect, type Socket } from "node:net";
import { wholePart } from "../../src/base/parts.ts";
import { buildFrame, CLOSE, FrameReader, readClose, TEXT } from "../../src/net/websocket/frames.ts";
import { TEST_KEY } from "./running-gateway.ts";

export interface RawSocket {
  /** The texts of the messages so far. */
  readonly texts: readonly string[];
  /** The code that the server closed with; null if the connection ended without one. */
  readonly closed: Promise<number | null>;
  send(text: string): void;
  pause(): void;
  resume(): void;
  destroy(): void;
}

const HANDSHAKE_END = "\r\n\r\n";

export async function openRawSocket(url: string): Promise<RawSocket> {
  const { port, hostname, host } = new URL(url);
  const reader = new FrameReader({ isMasked: false, messageBytesMax: 2 ** 30 });
  const texts: string[] = [];
  let code: number | null = null;
  const opened = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<number | null>();
  let head: Buffer | null = Buffer.alloc(0);
  const socket: Socket = connect(Number(port), hostname, () => {
    socket.write(
      `GET /v1/responses HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${TEST_KEY}\r\n` +
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
        `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==${HANDSHAKE_END}`,
    );
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    opened.reject(new Error("the connection was closed"));
    closed.resolve(code);
  });
  const push = (bytes: Uint8Array) => {
    reader.push(bytes, {
      onMessage: (opcode, from, start, end) => {
        if (opcode === TEXT) texts.push(Buffer.from(from.subarray(start, end)).toString());
      },
      onControl(opcode, payload) {
        if (opcode === CLOSE) code = readClose(payload)?.code ?? null;
      },
    });
  };
  socket.on("data", (part) => {
    if (head === null) return push(Buffer.from(part));
    head = Buffer.concat([head, Buffer.from(part)]);
    const end = head.indexOf(HANDSHAKE_END);
    if (end < 0) return;
    const rest = head.subarray(end + HANDSHAKE_END.length);
    const isOpen = head.toString("latin1", 0, end).startsWith("HTTP/1.1 101 ");
    head = null;
    if (isOpen) opened.resolve();
    else opened.reject(new Error("the upgrade was refused"));
    push(Buffer.from(rest));
  });
  await opened.promise;
  return {
    texts,
    closed: closed.promise,
    send: (text) => void socket.write(buildFrame(TEXT, wholePart(Buffer.from(text)), new Uint8Array(4))),
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    destroy: () => void socket.destroy(),
  };
}
