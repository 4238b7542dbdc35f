/**
 * The upstream of the bench: `bun bench/upstream.ts PORT PAUSE_MS`. It speaks HTTP/1.1 by hand on a plain socket,
 * because it shares its core with the load generator and must never be the slowest part, and because every event
 * must leave in a separate write, as it does from a model.
 */

import type { Socket } from "bun";
import { wholePart } from "../src/base/parts.ts";
import { computeAcceptKey } from "../src/net/websocket/accept-key.ts";
import {
  buildFrame,
  closeFrame,
  type FrameHandler,
  FrameReader,
  PING,
  PONG,
  TEXT,
} from "../src/net/websocket/frames.ts";
import { EVENTS_PER_SHORT_STREAM, EVENTS_PER_STREAM } from "./request-bodies.ts";
import {
  chatStream,
  completion,
  eventJson,
  responsesStream,
  type StreamEvent,
} from "./upstream-responses.ts";

export interface UpstreamCounts {
  requests: number;
  /** Events as clients of the bench see them: without the usage chunk that only the gateway requests. */
  events: number;
}

interface ConnectionState {
  unreadBytes: Buffer | null;
  /** Of a large body: counted, not kept. */
  bodyBytesLeft: number;
  unsent: Uint8Array | null;
  timer: ReturnType<typeof setTimeout> | null;
  /** Once the connection is a WebSocket. */
  frames: { reader: FrameReader; handler: FrameHandler } | null;
}

interface Frame {
  bytes: Uint8Array;
  counted: boolean;
}

const BUFFERED_BODY_BYTES_MAX = 4 * 1024;
const HEAD_END = Buffer.from("\r\n\r\n");
const STREAM_HEAD =
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
const STEADY_FROM_MS = 50;
const MESSAGE_BYTES_MAX = 1024 * 1024;
const LAST_CHUNK = Buffer.from("0\r\n\r\n");

const port = Number(process.argv[2]);
const pauseMs = Number(process.argv[3]);
const counts: UpstreamCounts = { requests: 0, events: 0 };

function respondTo(status: string, json: string): Buffer {
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

const COMPLETION = respondTo("200 OK", completion());
const NOT_FOUND = respondTo("404 Not Found", '{"error":{"message":"not part of the bench"}}');
const CHAT_WITH_USAGE = frames(chatStream());
const CHAT = CHAT_WITH_USAGE.filter((frame) => frame.counted);
const RESPONSES_EVENTS = responsesStream(pauseMs === 0 ? EVENTS_PER_SHORT_STREAM : EVENTS_PER_STREAM);
const RESPONSES = frames(RESPONSES_EVENTS);
const RESPONSES_SOCKET: readonly Frame[] = RESPONSES_EVENTS.map((event) => ({
  bytes: buildFrame(TEXT, wholePart(Buffer.from(eventJson(event))), null),
  counted: true,
}));

function send(socket: Socket<ConnectionState>, bytes: Uint8Array): void {
  const { unsent } = socket.data;
  if (unsent !== null) {
    socket.data.unsent = Buffer.concat([unsent, bytes]);
    return;
  }
  const sent = socket.write(bytes);
  if (sent >= 0 && sent < bytes.length) socket.data.unsent = bytes.subarray(sent);
}

function stream(socket: Socket<ConnectionState>, events: readonly Frame[]): void {
  send(socket, Buffer.from(STREAM_HEAD));
  pace(socket, events, () => send(socket, LAST_CHUNK));
}

/** Without a pause a short response is sent at once: then the turn is measured, not its events. */
function pace(socket: Socket<ConnectionState>, events: readonly Frame[], end: () => void): void {
  if (pauseMs === 0) {
    for (const { bytes } of events) send(socket, bytes);
    counts.events += events.filter(({ counted }) => counted).length;
    end();
    return;
  }
  let next = 0;
  const beganMs = performance.now();
  const step = () => {
    const frame = events[next++];
    if (frame === undefined) {
      socket.data.timer = null;
      end();
      return;
    }
    if (frame.counted) counts.events++;
    send(socket, frame.bytes);
    // A slow pace is kept: what a busy machine loses on one event is made up for by the next.
    const dueMs = pauseMs < STEADY_FROM_MS ? pauseMs : beganMs + next * pauseMs - performance.now();
    socket.data.timer = setTimeout(step, Math.max(1, dueMs));
  };
  // Streams that start together must not stay in step, or one wake-up would serve them all.
  socket.data.timer = setTimeout(step, Math.random() * pauseMs);
}

/** Every message is taken for a turn: nothing else is sent by the gateway or by the bench. */
function upgrade(socket: Socket<ConnectionState>, head: string): void {
  const key = /\r\nsec-websocket-key: *(\S+)/i.exec(head)?.[1] ?? "";
  const accept = computeAcceptKey(key);
  send(
    socket,
    Buffer.from(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
    ),
  );
  socket.data.frames = {
    reader: new FrameReader({ isMasked: true, messageBytesMax: MESSAGE_BYTES_MAX }),
    handler: {
      onMessage() {
        counts.requests++;
        pace(socket, RESPONSES_SOCKET, () => {});
      },
      onControl(opcode, payload) {
        if (opcode === PING) send(socket, buildFrame(PONG, wholePart(payload), null));
        else if (opcode !== PONG) socket.end(closeFrame(1000, "", null));
      },
    },
  };
}

function respond(socket: Socket<ConnectionState>, head: string, body: string): void {
  if (head.startsWith("GET /counts ")) {
    send(socket, respondTo("200 OK", JSON.stringify(counts)));
    return;
  }
  if (head.startsWith("GET /v1/responses ")) {
    upgrade(socket, head);
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

function receive(socket: Socket<ConnectionState>, chunk: Buffer): void {
  const state = socket.data;
  if (state.frames !== null) {
    state.frames.reader.push(chunk, state.frames.handler);
    return;
  }
  if (state.bodyBytesLeft > 0) {
    state.bodyBytesLeft -= chunk.length;
    if (state.bodyBytesLeft <= 0) respond(socket, LARGE_BODY_HEAD, "");
    return;
  }
  const bytes = state.unreadBytes === null ? chunk : Buffer.concat([state.unreadBytes, chunk]);
  state.unreadBytes = null;
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd < 0) {
    state.unreadBytes = Buffer.from(bytes);
    return;
  }
  const head = bytes.toString("latin1", 0, headEnd);
  const bodyStart = headEnd + HEAD_END.length;
  const bodyBytes = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
  const missing = bodyStart + bodyBytes - bytes.length;
  if (missing <= 0) {
    respond(socket, head, bodyBytes > BUFFERED_BODY_BYTES_MAX ? "" : bytes.toString("latin1", bodyStart));
  } else if (bodyBytes > BUFFERED_BODY_BYTES_MAX) {
    state.bodyBytesLeft = missing;
  } else {
    state.unreadBytes = Buffer.from(bytes);
  }
}

Bun.listen<ConnectionState>({
  hostname: "127.0.0.1",
  port,
  socket: {
    open(socket) {
      socket.data = { unreadBytes: null, bodyBytesLeft: 0, unsent: null, timer: null, frames: null };
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
