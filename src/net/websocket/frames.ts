/**
 * WebSocket frames (RFC 6455) without extensions: bytes into messages, and messages into frames. A message that lies
 * within one chunk is handed on where it is; only one that spans chunks or frames is copied.
 *
 * Text is not checked for valid UTF-8 here: what is inside a message is read by whoever takes it.
 */

import { isUtf8 } from "node:buffer";
import { decodeText, writeBytes } from "../wire/bytes.ts";
import { type Part, partsLength, wholePart } from "../wire/parts.ts";

export const TEXT = 1;
export const BINARY = 2;
export const CLOSE = 8;
export const PING = 9;
export const PONG = 10;

const CONTINUATION = 0;
const FIN_BIT = 0x80;
const RESERVED_BITS = 0x70;
const OPCODE_BITS = 0x0f;
const MASK_BIT = 0x80;
const LENGTH_16 = 126;
const LENGTH_64 = 127;
export const HEAD_BYTES_MAX = 14;
const MASK_BYTES = 4;
const CONTROL_BYTES_MAX = 125;
const GATHER_BYTES_MIN = 1024;
/** Copying what was gathered, into memory that is touched for the first time, costs more than all else here. */
const GATHER_STEP = 8;
/** From here on making a view of the words costs less than going byte by byte. */
const BY_WORD_BYTES_MIN = 128;
const NOTHING = Buffer.alloc(0);

export interface FrameHandler {
  /** A whole message. The bytes are the taker's to keep. */
  message(opcode: typeof TEXT | typeof BINARY, bytes: Uint8Array, start: number, end: number): void;
  control(opcode: typeof CLOSE | typeof PING | typeof PONG, payload: Uint8Array): void;
}

/** Why a connection cannot go on, and the close code that says so. */
export interface FrameFault {
  readonly code: 1002 | 1009;
  readonly reason: string;
}

export interface FrameReaderOptions {
  /** What a server hears is masked, what a client hears is not; either way round the other is a fault. */
  isMasked: boolean;
  messageBytesMax: number;
}

/** A class, so that a connection costs one object and a frame none. */
export class FrameReader {
  private readonly isMasked: boolean;
  private readonly messageBytesMax: number;
  /** The head of a frame, as far as it came. */
  private readonly head = new Uint8Array(HEAD_BYTES_MAX);
  private headLength = 0;
  private isInPayload = false;
  private opcode = 0;
  private isFinal = false;
  /** Of the frame: all of it, and what is still to come. */
  private payloadLength = 0;
  private left = 0;
  /** What the message, and apart from it the control frame between two of its frames, consists of so far. */
  private readonly message = new Gathered();
  private readonly control = new Gathered();
  /** The opcode of the message that has begun and goes on in the next frames; 0 between messages. */
  private begun = 0;

  constructor(options: FrameReaderOptions) {
    this.isMasked = options.isMasked;
    this.messageBytesMax = options.messageBytesMax;
  }

  /** Nothing has begun that is not whole: it remembers nothing, and may as well read another connection. */
  get isAtRest(): boolean {
    return !this.isInPayload && this.headLength === 0 && this.begun === 0;
  }

  /** Of a message that is not whole. */
  get unfinishedBytes(): number {
    return this.message.length;
  }

  /** Masked bytes are unmasked where they are. After a fault nothing more may be pushed. */
  push(chunk: Uint8Array, taker: FrameHandler): FrameFault | null {
    let at = 0;
    for (;;) {
      if (!this.isInPayload) {
        at = this.readHead(chunk, at);
        if (!this.isInPayload) return null;
        const fault = this.checkHead();
        if (fault !== null) return fault;
      }
      const to = Math.min(chunk.length, at + this.left);
      if (this.isMasked) this.unmask(chunk, at, to);
      this.left -= to - at;
      const isWhole = to - at === this.payloadLength;
      if (this.left > 0 || !isWhole) this.gathering().add(chunk, at, to, this.left);
      if (this.left > 0) return null;
      this.isInPayload = false;
      this.endFrame(taker, chunk, isWhole ? at : -1, to);
      at = to;
    }
  }

  /** Byte by byte: a head is two bytes long, or four. */
  private readHead(chunk: Uint8Array, from: number): number {
    const { head } = this;
    let at = from;
    while (at < chunk.length) {
      head[this.headLength++] = chunk[at++] as number;
      if (this.headLength < 2 || this.headLength < this.headBytes()) continue;
      this.headLength = 0;
      this.isInPayload = true;
      break;
    }
    return at;
  }

  private headBytes(): number {
    const second = this.head[1] as number;
    const length = second & ~MASK_BIT;
    return (
      (length === LENGTH_64 ? 10 : length === LENGTH_16 ? 4 : 2) +
      ((second & MASK_BIT) !== 0 ? MASK_BYTES : 0)
    );
  }

  private checkHead(): FrameFault | null {
    const { head } = this;
    const first = head[0] as number;
    const second = head[1] as number;
    this.opcode = first & OPCODE_BITS;
    this.isFinal = (first & FIN_BIT) !== 0;
    if ((first & RESERVED_BITS) !== 0) return wrong("a reserved bit is set");
    if (((second & MASK_BIT) !== 0) !== this.isMasked) {
      return wrong(this.isMasked ? "a frame is not masked" : "a frame is masked");
    }
    const length = this.readLength(second & ~MASK_BIT);
    if (length < 0) return wrong("a length is not written in the shortest form");
    this.payloadLength = length;
    this.left = length;
    if (this.opcode >= CLOSE) {
      if (this.opcode > PONG) return wrong("an unknown opcode");
      if (!this.isFinal) return wrong("a control frame in parts");
      return length > CONTROL_BYTES_MAX ? wrong("a control frame is too long") : null;
    }
    if (this.opcode > BINARY) return wrong("an unknown opcode");
    if (this.opcode === CONTINUATION && this.begun === 0) return wrong("a message goes on that never began");
    if (this.opcode !== CONTINUATION && this.begun !== 0) return wrong("a message begins within another");
    if (this.message.length + length > this.messageBytesMax) {
      return { code: 1009, reason: `a message of more than ${this.messageBytesMax} bytes` };
    }
    return null;
  }

  /** -1 when a shorter form would have done. */
  private readLength(short: number): number {
    const { head } = this;
    if (short < LENGTH_16) return short;
    if (short === LENGTH_16) {
      const length = ((head[2] as number) << 8) | (head[3] as number);
      return length < LENGTH_16 ? -1 : length;
    }
    let length = 0;
    for (let at = 2; at < 10; at++) length = length * 256 + (head[at] as number);
    return length < 65_536 ? -1 : length;
  }

  /** The mask stands at the end of the head. */
  private unmask(chunk: Uint8Array, from: number, to: number): void {
    const maskAt = this.headBytes() - MASK_BYTES;
    applyMask(chunk, from, to, this.head, maskAt, this.payloadLength - this.left);
  }

  private gathering(): Gathered {
    return this.opcode >= CLOSE ? this.control : this.message;
  }

  /** `start` is where all of the frame's payload stands in the chunk, or -1 when it had to be gathered. */
  private endFrame(taker: FrameHandler, chunk: Uint8Array, start: number, end: number): void {
    const { opcode } = this;
    if (opcode === CLOSE || opcode === PING || opcode === PONG) {
      taker.control(opcode, start < 0 ? this.control.take() : chunk.subarray(start, end));
      return;
    }
    const isSingle = this.begun === 0 && this.isFinal;
    if (isSingle && start >= 0) {
      taker.message(opcode === BINARY ? BINARY : TEXT, chunk, start, end);
      return;
    }
    if (start >= 0) this.message.add(chunk, start, end, 0);
    if (opcode !== CONTINUATION) this.begun = opcode;
    if (!this.isFinal) return;
    const kind = this.begun === BINARY ? BINARY : TEXT;
    this.begun = 0;
    const whole = this.message.take();
    taker.message(kind, whole, 0, whole.length);
  }
}

/** Grows in steps, by what really came: a length that is only announced takes no memory. */
class Gathered {
  length = 0;
  private bytes: Buffer = NOTHING;

  /** After these `left` more are announced, and no room is made for more than that. */
  add(from: Uint8Array, start: number, end: number, left: number): void {
    const length = this.length + end - start;
    if (length > this.bytes.length) {
      const grown = Buffer.allocUnsafeSlow(
        left === 0 ? Math.max(GATHER_BYTES_MIN, 2 * length) : Math.min(GATHER_STEP * length, length + left),
      );
      writeBytes(grown, 0, this.bytes, 0, this.length);
      this.bytes = grown;
    }
    writeBytes(this.bytes, this.length, from, start, end);
    this.length = length;
  }

  take(): Uint8Array {
    const whole = this.bytes.subarray(0, this.length);
    this.bytes = NOTHING;
    this.length = 0;
    return whole;
  }
}

function wrong(reason: string): FrameFault {
  return { code: 1002, reason };
}

/** One frame that is a whole message. With a mask, as clients must; each frame has one of its own. */
export function buildFrame(opcode: number, payload: readonly Part[], mask: Uint8Array | null): Uint8Array {
  const length = partsLength(payload);
  const lengthBytes = length < LENGTH_16 ? 0 : length < 65_536 ? 2 : 8;
  const headBytes = 2 + lengthBytes + (mask === null ? 0 : MASK_BYTES);
  const frame = Buffer.allocUnsafeSlow(headBytes + length);
  const maskAt = writeHead(frame, 0, opcode, length);
  let to = headBytes;
  for (const { bytes, start, end } of payload) to = writeBytes(frame, to, bytes, start, end);
  if (mask !== null) {
    frame[1] = (frame[1] as number) | MASK_BIT;
    writeBytes(frame, maskAt, mask, 0, MASK_BYTES);
    applyMask(frame, headBytes, to, mask, 0, 0);
  }
  return frame;
}

/** The head of a whole message without a mask, of at most `HEAD_BYTES_MAX`; returns where it ends. */
export function writeHead(to: Buffer, at: number, opcode: number, length: number): number {
  to[at] = FIN_BIT | opcode;
  if (length < LENGTH_16) {
    to[at + 1] = length;
    return at + 2;
  }
  if (length < 65_536) {
    to[at + 1] = LENGTH_16;
    to[at + 2] = length >>> 8;
    to[at + 3] = length & 0xff;
    return at + 4;
  }
  to[at + 1] = LENGTH_64;
  to.writeBigUInt64BE(BigInt(length), at + 2);
  return at + 10;
}

/** Masks or unmasks `bytes[from, to)`, before which `done` bytes of the payload were. */
function applyMask(
  bytes: Uint8Array,
  from: number,
  to: number,
  mask: Uint8Array,
  maskAt: number,
  done: number,
): void {
  // Which byte of the mask is for the byte at 0.
  const turn = done - from;
  let at = from;
  if (to - from >= BY_WORD_BYTES_MIN) {
    while (((bytes.byteOffset + at) & 3) !== 0) at = maskByte(bytes, at, mask, maskAt, turn);
    let word = 0;
    // Words are little-endian wherever the runtime runs.
    for (let i = 3; i >= 0; i--) word = (word << 8) | (mask[maskAt + ((turn + at + i) & 3)] as number);
    const words = new Int32Array(bytes.buffer, bytes.byteOffset + at, (to - at) >>> 2);
    for (let i = 0; i < words.length; i++) words[i] = (words[i] as number) ^ word;
    at += words.byteLength;
  }
  while (at < to) at = maskByte(bytes, at, mask, maskAt, turn);
}

function maskByte(bytes: Uint8Array, at: number, mask: Uint8Array, maskAt: number, turn: number): number {
  bytes[at] = (bytes[at] as number) ^ (mask[maskAt + ((turn + at) & 3)] as number);
  return at + 1;
}

/** Without a code it is an empty close frame. The reason is cut to what fits. */
export function closeFrame(code: number | null, reason: string, mask: Uint8Array | null): Uint8Array {
  if (code === null) return buildFrame(CLOSE, [], mask);
  const words = Buffer.from(reason);
  let end = Math.min(words.length, CONTROL_BYTES_MAX - 2);
  // Not within a character.
  while (end < words.length && ((words[end] as number) & 0xc0) === 0x80) end--;
  const payload = Buffer.concat([Buffer.of(code >> 8, code & 0xff), words.subarray(0, end)]);
  return buildFrame(CLOSE, wholePart(payload), mask);
}

export interface CloseNotice {
  /** Null when none was given. */
  readonly code: number | null;
  readonly reason: string;
}

/** Null when it is no proper close payload. */
export function readClose(payload: Uint8Array): CloseNotice | null {
  if (payload.length === 0) return { code: null, reason: "" };
  if (payload.length === 1) return null;
  const code = ((payload[0] as number) << 8) | (payload[1] as number);
  if (!mayBeSent(code) || !isUtf8(payload.subarray(2))) return null;
  return { code, reason: decodeText(payload, 2, payload.length) };
}

/** 1004 to 1006 and 1015 stand for what is never on the wire. */
function mayBeSent(code: number): boolean {
  if (code >= 3000 && code <= 4999) return true;
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014);
}
