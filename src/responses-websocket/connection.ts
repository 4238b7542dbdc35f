/**
 * The server side of a WebSocket (RFC 6455, no extensions): the protocol of an upgraded connection. Nearly all
 * connections are idle nearly all of the time, so a connection is a single object: the frame reader and the write
 * buffer are shared, and one timer checks all connections.
 */

import { isUtf8 } from "node:buffer";
import { freeBytes, NO_BYTES, writeBytes } from "../base/bytes.ts";
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
import type { SocketOutput } from "./bounded-output.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { MessageKind } from "./client-frame.ts";

export interface WebSocketsOptions<Data extends object> {
  /** A longer message closes the connection with 1009. */
  messageBytesMax: number;
  /** A connection that sends nothing for this long, not even a pong, is closed. */
  silenceMaxMs: number;
  /** Budget for incomplete messages, per key. A message that exceeds it closes the connection with 1013. */
  incompleteBytes: ByteBudget;
  /** A complete message; text is valid UTF-8. The receiver may keep the bytes. */
  onMessage(data: Data, kind: MessageKind, bytes: Uint8Array): void;
  /** The client has read all buffered bytes. */
  onDrain(data: Data): void;
  /** The client closed the connection, or it broke. No further call follows. */
  onClose(data: Data): void;
}

export interface WebSockets<Data extends object> {
  /** Opens a WebSocket on an upgraded connection. `key` is charged in the budget. */
  open(writer: SocketWriter, data: Data, key: string): WebSocketEnd<Data>;
  stop(): void;
}

interface SharedState<Data extends object> {
  readonly options: WebSocketsOptions<Data>;
  readonly writer: FrameWriter;
  readonly all: Set<WebSocketEnd<Data>>;
  readonly pingChecks: number;
  readonly silentChecksMax: number;
  /** A connection without an incomplete frame needs no separate reader and uses this one. */
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

export function openWebSockets<Data extends object>(options: WebSocketsOptions<Data>): WebSockets<Data> {
  const checkIntervalMs = Math.min(CHECK_INTERVAL_MS_MAX, options.silenceMaxMs / CHECKS_MIN);
  const checksMax = Math.ceil(options.silenceMaxMs / checkIntervalMs);
  const shared: SharedState<Data> = {
    options,
    writer: new FrameWriter(),
    all: new Set(),
    pingChecks: Math.ceil((checksMax * 2) / 3),
    silentChecksMax: checksMax,
    reader: null,
  };
  const timer = setInterval(() => {
    for (const socket of shared.all) socket.check();
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
  readonly #shared: SharedState<Data>;
  readonly #socketWriter: SocketWriter;
  readonly #key: string;
  /** Null once its `closed` callback was called. */
  #data: Data | null;
  #phase: Phase = "open";
  /** Set while a frame or message is incomplete. */
  #reader: FrameReader | null = null;
  /** The payload of the pong for a ping that arrived while the client was not reading. */
  #pong: Uint8Array | null = null;
  /** Number of checks since the client last showed activity. */
  #silentChecks = 0;
  /** Unsent bytes at the last check. */
  #unsentBytes = 0;

  constructor(shared: SharedState<Data>, writer: SocketWriter, data: Data, key: string) {
    this.#shared = shared;
    this.#socketWriter = writer;
    this.#key = key;
    this.#data = data;
    shared.all.add(this);
  }

  // Sending.

  get address(): string {
    return this.#socketWriter.address;
  }

  get bufferedBytes(): number {
    return this.#socketWriter.bufferedBytes + this.#shared.writer.heldBytes(this.#socketWriter);
  }

  sendText(text: string): void {
    if (this.#phase === "open") this.#shared.writer.text(this.#socketWriter, text);
  }

  sendUtf8(opening: string, bytes: Uint8Array, start: number, end: number): void {
    if (this.#phase === "open") this.#shared.writer.utf8(this.#socketWriter, opening, bytes, start, end);
  }

  cork(send: () => void): void {
    const { writer } = this.#shared;
    const previous = writer.hold(this.#socketWriter);
    try {
      send();
    } finally {
      writer.release(previous);
    }
  }

  close(code: number, reason: string): void {
    if (this.#phase === "open") this.#sendClose("closing", code, reason);
  }

  terminate(): void {
    if (this.#phase === "gone") return;
    this.#phase = "gone";
    this.#shared.writer.drop(this.#socketWriter);
    this.#socketWriter.terminate();
  }

  // Connection events.

  onData(bytes: Buffer): void {
    if (this.#phase !== "open" && this.#phase !== "closing") {
      freeBytes(bytes);
      return;
    }
    if (this.#phase === "open") this.#silentChecks = 0;
    const { writer } = this.#shared;
    // All responses to one read are sent in one write.
    const previous = writer.hold(this.#socketWriter);
    try {
      this.#read(bytes);
    } finally {
      writer.release(previous);
    }
  }

  onDrain(): void {
    this.#silentChecks = 0;
    this.#unsentBytes = 0;
    if (this.#phase === "open" && this.#pong !== null) {
      this.#shared.writer.control(this.#socketWriter, PONG, this.#pong);
      this.#pong = null;
    }
    if (this.#data !== null) this.#shared.options.onDrain(this.#data);
  }

  onClose(): void {
    this.#phase = "gone";
    this.#releaseReader();
    this.#shared.all.delete(this);
    this.#notifyClosed();
  }

  /** Called by the shared timer. */
  check(): void {
    const phase = this.#phase;
    const outlet = this.#socketWriter;
    const { pingChecks: pingLooks, silentChecksMax: silentLooksMax, writer } = this.#shared;
    const { bufferedBytes } = outlet;
    // A client that reads is alive, even if it sends nothing.
    const isReading = phase === "open" && bufferedBytes < this.#unsentBytes;
    this.#silentChecks = isReading ? 0 : this.#silentChecks + 1;
    this.#unsentBytes = bufferedBytes;
    const checksMax = phase === "open" || bufferedBytes > 0 ? silentLooksMax : CLOSE_CHECKS;
    if (this.#silentChecks > checksMax) this.terminate();
    else if (phase === "deaf") this.#end();
    else if (phase === "open" && this.#silentChecks === pingLooks) writer.control(outlet, PING, NO_BYTES);
  }

  // Frame reader events.

  onMessage(opcode: number, bytes: Uint8Array, start: number, end: number): void {
    if (this.#phase !== "open" || this.#data === null) return;
    const payload = copyIfSmall(bytes, start, end);
    if (opcode !== TEXT) this.#shared.options.onMessage(this.#data, "binary", payload);
    else if (isUtf8(payload)) this.#shared.options.onMessage(this.#data, "text", payload);
    else this.#fail("closing", NOT_UTF8, "a text message is not valid UTF-8");
  }

  onControl(opcode: number, payload: Uint8Array): void {
    if (opcode === CLOSE) this.#receiveClose(payload);
    if (opcode !== PING || this.#phase !== "open") return;
    if (this.#socketWriter.bufferedBytes === 0)
      this.#shared.writer.control(this.#socketWriter, PONG, payload);
    // A client that pings without reading must not fill the memory: the last pong replaces those before it.
    else this.#pong = Uint8Array.from(payload);
  }

  #read(bytes: Buffer): void {
    const reader = this.#releaseReader() ?? takeReader(this.#shared);
    const fault = reader.push(bytes, this);
    if (fault !== null) this.#fail("deaf", fault.code, fault.reason);
    else if (reader.isIdle) this.#shared.reader = reader;
    else if (this.#phase !== "gone") this.#storeReader(reader);
  }

  /** Keeps the reader until more bytes arrive. */
  #storeReader(reader: FrameReader): void {
    const { incompleteBytes: unfinished } = this.#shared.options;
    const { unfinishedBytes } = reader;
    if (unfinishedBytes > 0 && !unfinished.fits(this.#key, unfinishedBytes)) {
      this.#fail("deaf", TRY_AGAIN_LATER, "too many bytes in flight");
      return;
    }
    unfinished.take(this.#key, unfinishedBytes);
    this.#reader = reader;
  }

  #releaseReader(): FrameReader | null {
    const reader = this.#reader;
    this.#reader = null;
    if (reader !== null) this.#shared.options.incompleteBytes.release(this.#key, reader.unfinishedBytes);
    return reader;
  }

  #receiveClose(payload: Uint8Array): void {
    if (this.#phase !== "open" && this.#phase !== "closing") return;
    const notice = readClose(payload);
    if (notice === null) {
      this.#fail("closing", PROTOCOL_ERROR, "a close frame with an invalid code or reason");
    } else if (this.#phase === "open") {
      this.#sendClose("closing", notice.code, "");
    }
    this.#end();
    this.#notifyClosed();
  }

  /** Sends the error once. The owner is notified at once, without waiting for the client. */
  #fail(phase: "closing" | "deaf", code: number, reason: string): void {
    if (this.#phase === "open") this.#sendClose(phase, code, reason);
    else if (this.#phase === "closing") this.#phase = phase;
    this.#notifyClosed();
  }

  #sendClose(phase: "closing" | "deaf", code: number | null, reason: string): void {
    this.#phase = phase;
    this.#silentChecks = 0;
    this.#pong = null;
    this.#shared.writer.flush();
    this.#socketWriter.write(closeFrame(code, reason, null));
  }

  #end(): void {
    if (this.#phase === "gone") return;
    this.#phase = "ended";
    this.#socketWriter.end();
  }

  #notifyClosed(): void {
    const data = this.#data;
    this.#data = null;
    if (data !== null) this.#shared.options.onClose(data);
  }
}

/** Takes the shared reader until it is returned. */
function takeReader<Data extends object>(shared: SharedState<Data>): FrameReader {
  const { reader, options } = shared;
  shared.reader = null;
  return reader ?? new FrameReader({ isMasked: true, messageBytesMax: options.messageBytesMax });
}

/** Copies a small part of a large array: a view would keep the whole array alive. */
function copyIfSmall(bytes: Uint8Array, start: number, end: number): Uint8Array {
  if (2 * (end - start) >= bytes.length) return bytes.subarray(start, end);
  const part = Buffer.allocUnsafeSlow(end - start);
  writeBytes(part, 0, bytes, start, end);
  return part;
}
