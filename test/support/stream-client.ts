/** A client on a raw socket: it sees the framing of each write, can stop reading, and can disconnect at any moment. */

import { connect } from "node:net";
import { eventually } from "./eventually.ts";
import { TEST_KEY } from "./running-gateway.ts";

export type StreamEnding = "message" | "fin" | "reset";

export interface StreamClient {
  /** The status line and the headers; empty until they arrive. */
  head(): string;
  /** The chunks of the body, one for each write of the other side. */
  frames(): Buffer[];
  text(): string;
  /** Resolves when the body so far satisfies the condition. */
  until(wanted: (text: string) => boolean): Promise<void>;
  /** How the response ended: as a whole message, or by the end of the connection. */
  readonly ended: Promise<StreamEnding>;
  /** Stops reading from the socket, or resumes. */
  pause(): void;
  resume(): void;
  disconnect(how: "fin" | "reset"): void;
}

export interface StreamClientOptions {
  headers?: Readonly<Record<string, string>>;
  /** Never reads anything. */
  deaf?: boolean;
}

export function openStreamClient(
  url: string,
  path: string,
  body: object,
  options: StreamClientOptions = {},
): StreamClient {
  const { port, hostname, host } = new URL(url);
  const text = JSON.stringify(body);
  const headers = {
    host,
    authorization: `Bearer ${TEST_KEY}`,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(text)),
    ...options.headers,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const parts: Buffer[] = [];
  let resolveEnded: (how: StreamEnding) => void = () => {};
  const ended = new Promise<StreamEnding>((resolve) => {
    resolveEnded = resolve;
  });
  const socket = connect(Number(port), hostname, () => {
    if (options.deaf) socket.pause();
    socket.write(`POST ${path} HTTP/1.1\r\n${lines.join("")}\r\n${text}`);
  });
  socket.on("data", (part) => {
    parts.push(Buffer.from(part));
    if (!isWhole(parts)) return;
    resolveEnded("message");
    socket.end();
  });
  socket.on("end", () => resolveEnded("fin"));
  socket.on("error", () => resolveEnded("reset"));
  socket.on("close", () => resolveEnded("fin"));

  const client: StreamClient = {
    head: () => sections(Buffer.concat(parts)).head,
    frames() {
      const { head, body } = sections(Buffer.concat(parts));
      return /^transfer-encoding: chunked$/im.test(head) ? framesIn(body) : [body];
    },
    text: () => Buffer.concat(client.frames()).toString(),
    async until(wanted) {
      await eventually(() => wanted(client.text()));
    },
    ended,
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    disconnect(how) {
      if (how === "reset") socket.resetAndDestroy();
      else socket.destroy();
    },
  };
  return client;
}

function isWhole(parts: readonly Buffer[]): boolean {
  const last = parts.slice(-2);
  if (Buffer.concat(last).toString("latin1").endsWith("\r\n0\r\n\r\n")) return true;
  if (parts.length > 8) return false;
  const { head, body } = sections(Buffer.concat(parts));
  const length = /^content-length: (\d+)$/im.exec(head)?.[1];
  return length !== undefined && body.length >= Number(length);
}

function sections(received: Buffer): { head: string; body: Buffer } {
  const end = received.indexOf("\r\n\r\n");
  if (end < 0) return { head: "", body: Buffer.alloc(0) };
  return {
    head: received.toString("latin1", 0, end).replaceAll("\r\n", "\n"),
    body: received.subarray(end + 4),
  };
}

function framesIn(body: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const lineEnd = body.indexOf("\r\n", at);
    const size = Number.parseInt(body.toString("latin1", at, lineEnd), 16);
    if (lineEnd < 0 || !(size > 0) || lineEnd + 2 + size > body.length) break;
    frames.push(body.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
  return frames;
}
