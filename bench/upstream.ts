/**
 * The upstream of the bench: `bun bench/upstream.ts PORT PAUSE_MS`. It speaks HTTP/1.1 by hand on a plain socket,
 * because it shares its core with the load generator and must never be the slowest part, and because every event
 * must leave in a write of its own, as it does from a model.
 */

import type { Socket } from "bun";
import { chatStream, completion, responsesStream, type StreamEvent } from "./answers.ts";

export interface UpstreamCounts {
  requests: number;
  /** Events as clients of the bench see them: without the usage chunk that only the gateway asks for. */
  events: number;
}

interface Conversation {
  held: Buffer | null;
  /** Of a large body: counted, not kept. */
  bodyBytesLeft: number;
  unsent: Uint8Array | null;
  timer: ReturnType<typeof setTimeout> | null;
}

interface Frame {
  bytes: Uint8Array;
  counted: boolean;
}

const KEPT_BODY_BYTES_MAX = 4 * 1024;
const HEAD_END = Buffer.from("\r\n\r\n");
const STREAM_HEAD =
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
const LAST_CHUNK = Buffer.from("0\r\n\r\n");

const port = Number(process.argv[2]);
const pauseMs = Number(process.argv[3]);
const counts: UpstreamCounts = { requests: 0, events: 0 };

function answer(status: string, json: string): Buffer {
  return Buffer.from(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`,
  );
}

function frames(events: readonly StreamEvent[]): Frame[] {
  return events.map(({ text, onlyWithUsage }) => ({
    bytes: Buffer.from(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`),
    counted: !onlyWithUsage,
  }));
}

const COMPLETION = answer("200 OK", completion());
const NOT_FOUND = answer("404 Not Found", '{"error":{"message":"not part of the bench"}}');
const CHAT_WITH_USAGE = frames(chatStream());
const CHAT = CHAT_WITH_USAGE.filter((frame) => frame.counted);
const RESPONSES = frames(responsesStream());

function send(socket: Socket<Conversation>, bytes: Uint8Array): void {
  const { unsent } = socket.data;
  if (unsent !== null) {
    socket.data.unsent = Buffer.concat([unsent, bytes]);
    return;
  }
  const sent = socket.write(bytes);
  if (sent >= 0 && sent < bytes.length) socket.data.unsent = bytes.subarray(sent);
}

function stream(socket: Socket<Conversation>, events: readonly Frame[]): void {
  send(socket, Buffer.from(STREAM_HEAD));
  let next = 0;
  const step = () => {
    const frame = events[next++];
    if (frame === undefined) {
      socket.data.timer = null;
      send(socket, LAST_CHUNK);
      return;
    }
    if (frame.counted) counts.events++;
    send(socket, frame.bytes);
    socket.data.timer = setTimeout(step, pauseMs);
  };
  // Streams that start together must not stay in step, or one wake-up would serve them all.
  socket.data.timer = setTimeout(step, Math.random() * pauseMs);
}

function respond(socket: Socket<Conversation>, head: string, body: string): void {
  if (head.startsWith("GET /counts ")) {
    send(socket, answer("200 OK", JSON.stringify(counts)));
    return;
  }
  counts.requests++;
  const streaming = body.includes('"stream":true');
  if (head.startsWith("POST /v1/chat/completions ")) {
    if (!streaming) send(socket, COMPLETION);
    else stream(socket, body.includes('"include_usage":true') ? CHAT_WITH_USAGE : CHAT);
  } else if (head.startsWith("POST /v1/responses ") && streaming) {
    stream(socket, RESPONSES);
  } else {
    send(socket, NOT_FOUND);
  }
}

const LARGE_BODY_HEAD = "POST /v1/chat/completions ";

function receive(socket: Socket<Conversation>, chunk: Buffer): void {
  const state = socket.data;
  if (state.bodyBytesLeft > 0) {
    state.bodyBytesLeft -= chunk.length;
    if (state.bodyBytesLeft <= 0) respond(socket, LARGE_BODY_HEAD, "");
    return;
  }
  const bytes = state.held === null ? chunk : Buffer.concat([state.held, chunk]);
  state.held = null;
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd < 0) {
    state.held = Buffer.from(bytes);
    return;
  }
  const head = bytes.toString("latin1", 0, headEnd);
  const bodyStart = headEnd + HEAD_END.length;
  const bodyBytes = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
  const missing = bodyStart + bodyBytes - bytes.length;
  if (missing <= 0) {
    respond(socket, head, bodyBytes > KEPT_BODY_BYTES_MAX ? "" : bytes.toString("latin1", bodyStart));
  } else if (bodyBytes > KEPT_BODY_BYTES_MAX) {
    state.bodyBytesLeft = missing;
  } else {
    state.held = Buffer.from(bytes);
  }
}

Bun.listen<Conversation>({
  hostname: "127.0.0.1",
  port,
  socket: {
    open(socket) {
      socket.data = { held: null, bodyBytesLeft: 0, unsent: null, timer: null };
    },
    data: receive,
    drain(socket) {
      const { unsent } = socket.data;
      if (unsent === null) return;
      socket.data.unsent = null;
      send(socket, unsent);
    },
    close(socket) {
      if (socket.data.timer !== null) clearTimeout(socket.data.timer);
    },
    error() {},
  },
});
