/**
 * The server side of a WebSocket (RFC 6455, no extensions): the protocol of an upgraded connection. Nearly all
 * connections are idle nearly all of the time, so a connection is a single object: the frame reader and the write
 * buffer are shared, and one timer checks all connections.
 */

import { isUtf8 } from "node:buffer";
import type { SocketWriter, UpgradedProtocol } from "../net/http-server/socket-writer.ts";
import { FrameWriter } from "../net/websocket/frame-writer.ts";
import {
  CLOSE,
  closeFrame,
  type FrameHandler,
  FrameReader,
  PING,
  PONG,
  readClose,
  TEXT,
} from "../net/websocket/frames.ts";
import { freeBytes, writeBytes } from "../net/wire/bytes.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { MessageKind } from "./client-frame.ts";
import type { SocketOutput } from "./line.ts";

export interface WebSocketsOptions<Data extends object> {
  /** A longer message closes the connection with 1009. */
  messageBytesMax: number;
  /** A connection that sends nothing for this long, not even a pong, is closed. */
  silenceMs: number;
  /** Budget for incomplete messages, per key. A message that exceeds it closes the connection with 1013. */
  unfinished: ByteBudget;
  /** A complete message; text is valid UTF-8. The receiver may keep the bytes. */
  message(data: Data, kind: MessageKind, bytes: Uint8Array): void;
  /** The client has read all buffered bytes. */
  drained(data: Data): void;
  /** The client closed the connection, or it broke. No further call follows. */
  closed(data: Data): void;
}

/** All WebSockets of the server. */
export interface WebSockets<Data extends object> {
  /**
   * Opens a WebSocket on an upgraded connection. `data` is passed to the callbacks, and `key` is charged in the
   * budget.
   */
  open(writer: SocketWriter, data: Data, key: string): WebSocketEnd<Data>;
  stop(): void;
}

/** State that all connections share. */
interface SharedState<Data extends object> {
  readonly options: WebSocketsOptions<Data>;
  readonly writer: FrameWriter;
  readonly all: Set<WebSocketEnd<Data>>;
  readonly pingLooks: number;
  readonly silentLooksMax: number;
  /** A connection without an incomplete frame needs no reader of its own and uses this one. */
  reader: FrameReader | null;
}

const CHECK_INTERVAL_MS_MAX = 1_000;
/** Minimum number of checks within the time that a connection may be silent. */
const CHECKS_MIN = 8;
/** Number of checks that a client has to close its side, after it has received everything. */
const CLOSE_CHECKS = 3;
const PROTOCOL_ERROR = 1002;
const NOT_UTF8 = 1007;
const TRY_AGAIN_LATER = 1013;
const NO_BYTES = new Uint8Array(0);

export function openWebSockets<Data extends object>(options: WebSocketsOptions<Data>): WebSockets<Data> {
  const checkIntervalMs = Math.min(CHECK_INTERVAL_MS_MAX, options.silenceMs / CHECKS_MIN);
  const checksMax = Math.ceil(options.silenceMs / checkIntervalMs);
  const shared: SharedState<Data> = {
    options,
    writer: new FrameWriter(),
    all: new Set(),
    pingLooks: Math.ceil((checksMax * 2) / 3),
    silentLooksMax: checksMax,
    reader: null,
  };
  const timer = setInterval(() => {
    for (const socket of shared.all) socket.look();
  }, checkIntervalMs);
  timer.unref();
  return {
    open: (writer, data, key) => new WebSocketEnd(shared, writer, data, key),
    stop: () => clearInterval(timer),
  };
}

/**
 * The phase of a connection.
 * - `closing`: the close frame was sent, and the client's close frame is expected.
 * - `deaf`: received bytes are ignored.
 * - `ended`: the connection closes after all bytes are sent.
 * - `gone`: the connection cannot be used.
 */
type Phase = "open" | "closing" | "deaf" | "ended" | "gone";

/** A class, so that an idle connection costs one object. */
export class WebSocketEnd<Data extends object> implements UpgradedProtocol, SocketOutput, FrameHandler {
  private readonly shared: SharedState<Data>;
  private readonly outlet: SocketWriter;
  private readonly key: string;
  /** Null once its `closed` callback was called. */
  private data: Data | null;
  private phase: Phase = "open";
  /** Set while a frame or message is incomplete. */
  private reader: FrameReader | null = null;
  /** The payload of the pong for a ping that arrived while the client was not reading. */
  private pong: Uint8Array | null = null;
  /** Number of checks since the client last showed activity. */
  private silentLooks = 0;
  /** Unsent bytes at the last check. */
  private unsentBytes = 0;

  constructor(shared: SharedState<Data>, writer: SocketWriter, data: Data, key: string) {
    this.shared = shared;
    this.outlet = writer;
    this.key = key;
    this.data = data;
    shared.all.add(this);
  }

  // Sending.

  get address(): string {
    return this.outlet.address;
  }

  get bufferedBytes(): number {
    return this.outlet.bufferedBytes + this.shared.writer.heldBytes(this.outlet);
  }

  sendText(text: string): void {
    if (this.phase === "open") this.shared.writer.text(this.outlet, text);
  }

  sendUtf8(opening: string, bytes: Uint8Array, start: number, end: number): void {
    if (this.phase === "open") this.shared.writer.utf8(this.outlet, opening, bytes, start, end);
  }

  cork(send: () => void): void {
    const { writer } = this.shared;
    const previous = writer.hold(this.outlet);
    try {
      send();
    } finally {
      writer.release(previous);
    }
  }

  close(code: number, reason: string): void {
    if (this.phase === "open") this.sayGoodbye("closing", code, reason);
  }

  terminate(): void {
    if (this.phase === "gone") return;
    this.phase = "gone";
    this.shared.writer.drop(this.outlet);
    this.outlet.terminate();
  }

  // Connection events.

  received(bytes: Buffer): void {
    if (this.phase !== "open" && this.phase !== "closing") {
      freeBytes(bytes);
      return;
    }
    if (this.phase === "open") this.silentLooks = 0;
    const { writer } = this.shared;
    // All responses to one read are sent in one write.
    const previous = writer.hold(this.outlet);
    try {
      this.read(bytes);
    } finally {
      writer.release(previous);
    }
  }

  drained(): void {
    this.silentLooks = 0;
    this.unsentBytes = 0;
    if (this.phase === "open" && this.pong !== null) {
      this.shared.writer.control(this.outlet, PONG, this.pong);
      this.pong = null;
    }
    if (this.data !== null) this.shared.options.drained(this.data);
  }

  closed(): void {
    this.phase = "gone";
    this.takeBack();
    this.shared.all.delete(this);
    this.leave();
  }

  /** Called by the shared timer. */
  look(): void {
    const { phase, outlet } = this;
    const { pingLooks, silentLooksMax, writer } = this.shared;
    const { bufferedBytes } = outlet;
    // A client that reads is alive, even if it sends nothing.
    const isReading = phase === "open" && bufferedBytes < this.unsentBytes;
    this.silentLooks = isReading ? 0 : this.silentLooks + 1;
    this.unsentBytes = bufferedBytes;
    const checksMax = phase === "open" || bufferedBytes > 0 ? silentLooksMax : CLOSE_CHECKS;
    if (this.silentLooks > checksMax) this.terminate();
    else if (phase === "deaf") this.end();
    else if (phase === "open" && this.silentLooks === pingLooks) writer.control(outlet, PING, NO_BYTES);
  }

  // Frame reader events.

  message(opcode: number, bytes: Uint8Array, start: number, end: number): void {
    if (this.phase !== "open" || this.data === null) return;
    const payload = copyIfSmall(bytes, start, end);
    if (opcode !== TEXT) this.shared.options.message(this.data, "binary", payload);
    else if (isUtf8(payload)) this.shared.options.message(this.data, "text", payload);
    else this.fail("closing", NOT_UTF8, "a text is not valid UTF-8");
  }

  control(opcode: number, payload: Uint8Array): void {
    if (opcode === CLOSE) this.hearGoodbye(payload);
    if (opcode !== PING || this.phase !== "open") return;
    if (this.outlet.bufferedBytes === 0) this.shared.writer.control(this.outlet, PONG, payload);
    // A client that pings without reading must not fill the memory: the last pong replaces those before it.
    else this.pong = Uint8Array.from(payload);
  }

  private read(bytes: Buffer): void {
    const reader = this.takeBack() ?? takeReader(this.shared);
    const fault = reader.push(bytes, this);
    if (fault !== null) this.fail("deaf", fault.code, fault.reason);
    else if (reader.isAtRest) this.shared.reader = reader;
    else if (this.phase !== "gone") this.keep(reader);
  }

  /** Keeps the reader until more bytes arrive. */
  private keep(reader: FrameReader): void {
    const { unfinished } = this.shared.options;
    const { unfinishedBytes } = reader;
    if (unfinishedBytes > 0 && !unfinished.hasRoom(this.key, unfinishedBytes)) {
      this.fail("deaf", TRY_AGAIN_LATER, "too much is being sent at once");
      return;
    }
    unfinished.take(this.key, unfinishedBytes);
    this.reader = reader;
  }

  private takeBack(): FrameReader | null {
    const { reader } = this;
    this.reader = null;
    if (reader !== null) this.shared.options.unfinished.giveBack(this.key, reader.unfinishedBytes);
    return reader;
  }

  private hearGoodbye(payload: Uint8Array): void {
    if (this.phase !== "open" && this.phase !== "closing") return;
    const notice = readClose(payload);
    if (notice === null) {
      this.fail("closing", PROTOCOL_ERROR, "a close without a proper code and reason");
    } else if (this.phase === "open") {
      this.sayGoodbye("closing", notice.code, "");
    }
    this.end();
    this.leave();
  }

  /** Sends the error once. The owner is notified at once, without waiting for the client. */
  private fail(phase: "closing" | "deaf", code: number, reason: string): void {
    if (this.phase === "open") this.sayGoodbye(phase, code, reason);
    else if (this.phase === "closing") this.phase = phase;
    this.leave();
  }

  private sayGoodbye(phase: "closing" | "deaf", code: number | null, reason: string): void {
    this.phase = phase;
    this.silentLooks = 0;
    this.pong = null;
    this.shared.writer.flush();
    this.outlet.write(closeFrame(code, reason, null));
  }

  private end(): void {
    if (this.phase === "gone") return;
    this.phase = "ended";
    this.outlet.end();
  }

  private leave(): void {
    const { data } = this;
    this.data = null;
    if (data !== null) this.shared.options.closed(data);
  }
}

/** Takes the shared reader until it is returned. */
function takeReader<Data extends object>(shared: SharedState<Data>): FrameReader {
  const { reader, options } = shared;
  shared.reader = null;
  return reader ?? new FrameReader({ isMasked: true, messageBytesMax: options.messageBytesMax });
}

/**
 * Copies a small part of a large array: the part may be kept for long, and a view would keep the whole array alive.
 */
function copyIfSmall(bytes: Uint8Array, start: number, end: number): Uint8Array {
  if (2 * (end - start) >= bytes.length) return bytes.subarray(start, end);
  const part = Buffer.allocUnsafeSlow(end - start);
  writeBytes(part, 0, bytes, start, end);
  return part;
}
