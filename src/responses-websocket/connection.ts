/**
 * A WebSocket, the server's side (RFC 6455, no extensions): what a connection speaks once it was upgraded. Nearly all of
 * them are idle nearly all of the time, so one is a single object: the reader of frames and the buffer that frames are
 * written to are shared, and one timer looks after all.
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
  /** A longer message is closed with 1009. */
  messageBytesMax: number;
  /** One from which nothing comes for so long, not even the answer to a ping, is cut off. */
  silenceMs: number;
  /** Of messages that are not whole yet, by whose they are; one that finds no room is closed with 1013. */
  unfinished: ByteBudget;
  /** A whole message; text is UTF-8. The bytes are the taker's to keep. */
  message(data: Data, kind: MessageKind, bytes: Uint8Array): void;
  /** The client takes again what is sent to it. */
  drained(data: Data): void;
  /** The client has left, or the connection is gone: nothing more is told. */
  closed(data: Data): void;
}

/** All WebSockets of the server. */
export interface WebSockets<Data extends object> {
  /** Makes one of a connection whose upgrade was answered. `data` is whom it is for, `key` on whose account it is. */
  open(outlet: SocketWriter, data: Data, key: string): WebSocketEnd<Data>;
  stop(): void;
}

/** What all of them share. */
interface Shared<Data extends object> {
  readonly options: WebSocketsOptions<Data>;
  readonly writer: FrameWriter;
  readonly all: Set<WebSocketEnd<Data>>;
  readonly pingLooks: number;
  readonly silentLooksMax: number;
  /** Whoever has nothing half read needs no reader of its own. */
  reader: FrameReader | null;
}

const LOOK_MS_MAX = 1_000;
/** How often a connection is looked at, at least, in the time that it may be silent. */
const LOOKS_MIN = 8;
/** What a client is given to close from its side, once it has taken all that was sent. */
const FAREWELL_LOOKS = 3;
const PROTOCOL_ERROR = 1002;
const NOT_UTF8 = 1007;
const TRY_AGAIN_LATER = 1013;
const NOTHING = new Uint8Array(0);

export function openWebSockets<Data extends object>(options: WebSocketsOptions<Data>): WebSockets<Data> {
  const lookMs = Math.min(LOOK_MS_MAX, options.silenceMs / LOOKS_MIN);
  const looks = Math.ceil(options.silenceMs / lookMs);
  const shared: Shared<Data> = {
    options,
    writer: new FrameWriter(),
    all: new Set(),
    pingLooks: Math.ceil((looks * 2) / 3),
    silentLooksMax: looks,
    reader: null,
  };
  const timer = setInterval(() => {
    for (const socket of shared.all) socket.look();
  }, lookMs);
  timer.unref();
  return {
    open: (outlet, data, key) => new WebSocketEnd(shared, outlet, data, key),
    stop: () => clearInterval(timer),
  };
}

/**
 * Where a connection stands: `closing` has said goodbye and listens for the client's, `deaf` listens to nothing any more,
 * `ended` is closed for good once all is sent, and `gone` cannot be used at all.
 */
type Phase = "open" | "closing" | "deaf" | "ended" | "gone";

/** A class, so that an idle connection costs one object. */
export class WebSocketEnd<Data extends object> implements UpgradedProtocol, SocketOutput, FrameHandler {
  private readonly shared: Shared<Data>;
  private readonly outlet: SocketWriter;
  private readonly key: string;
  /** Null once it was told that this is closed. */
  private data: Data | null;
  private phase: Phase = "open";
  /** While a frame or message is not whole. */
  private reader: FrameReader | null = null;
  /** To a ping that came while the client took nothing. */
  private pong: Uint8Array | null = null;
  /** How often it was looked at since it gave a sign of life. */
  private silentLooks = 0;
  /** What the client had not taken when it was looked at last. */
  private unsentBytes = 0;

  constructor(shared: Shared<Data>, outlet: SocketWriter, data: Data, key: string) {
    this.shared = shared;
    this.outlet = outlet;
    this.key = key;
    this.data = data;
    shared.all.add(this);
  }

  // What is sent.

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
    const outer = writer.hold(this.outlet);
    try {
      send();
    } finally {
      writer.release(outer);
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

  // What the connection tells.

  received(bytes: Buffer): void {
    if (this.phase !== "open" && this.phase !== "closing") {
      freeBytes(bytes);
      return;
    }
    if (this.phase === "open") this.silentLooks = 0;
    const { writer } = this.shared;
    // Whatever one read is answered with leaves in one write.
    const outer = writer.hold(this.outlet);
    try {
      this.read(bytes);
    } finally {
      writer.release(outer);
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

  /** Told by the one timer for all. */
  look(): void {
    const { phase, outlet } = this;
    const { pingLooks, silentLooksMax, writer } = this.shared;
    const { bufferedBytes } = outlet;
    // A client that takes what was sent to it is there, whether it says something or not.
    const isTaking = phase === "open" && bufferedBytes < this.unsentBytes;
    this.silentLooks = isTaking ? 0 : this.silentLooks + 1;
    this.unsentBytes = bufferedBytes;
    const looksMax = phase === "open" || bufferedBytes > 0 ? silentLooksMax : FAREWELL_LOOKS;
    if (this.silentLooks > looksMax) this.terminate();
    else if (phase === "deaf") this.end();
    else if (phase === "open" && this.silentLooks === pingLooks) writer.control(outlet, PING, NOTHING);
  }

  // What the reader of frames tells.

  message(opcode: number, bytes: Uint8Array, start: number, end: number): void {
    if (this.phase !== "open" || this.data === null) return;
    const own = ownPart(bytes, start, end);
    if (opcode !== TEXT) this.shared.options.message(this.data, "binary", own);
    else if (isUtf8(own)) this.shared.options.message(this.data, "text", own);
    else this.fail("closing", NOT_UTF8, "a text is not valid UTF-8");
  }

  control(opcode: number, payload: Uint8Array): void {
    if (opcode === CLOSE) this.hearGoodbye(payload);
    if (opcode !== PING || this.phase !== "open") return;
    if (this.outlet.bufferedBytes === 0) this.shared.writer.control(this.outlet, PONG, payload);
    // Whoever pings without reading must not fill the memory: one answer stands for those before.
    else this.pong = Uint8Array.from(payload);
  }

  private read(bytes: Buffer): void {
    const reader = this.takeBack() ?? takeReader(this.shared);
    const fault = reader.push(bytes, this);
    if (fault !== null) this.fail("deaf", fault.code, fault.reason);
    else if (reader.isAtRest) this.shared.reader = reader;
    else if (this.phase !== "gone") this.keep(reader);
  }

  /** Until more comes. */
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

  /** Why it cannot go on is said once, and whoever it is for need not wait for the client to hear it. */
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

/** Nobody else reads with it until it is put back. */
function takeReader<Data extends object>(shared: Shared<Data>): FrameReader {
  const { reader, options } = shared;
  shared.reader = null;
  return reader ?? new FrameReader({ isMasked: true, messageBytesMax: options.messageBytesMax });
}

/** A small part of a large array is copied: it may be kept for long, and the rest of the array with it. */
function ownPart(bytes: Uint8Array, start: number, end: number): Uint8Array {
  if (2 * (end - start) >= bytes.length) return bytes.subarray(start, end);
  const part = Buffer.allocUnsafeSlow(end - start);
  writeBytes(part, 0, bytes, start, end);
  return part;
}
