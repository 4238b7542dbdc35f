/**
 * WebSocket frames (RFC 6455) without extensions: decodes bytes to messages and encodes messages to frames. A message
 * within one chunk is passed on in place; only a message that spans chunks or frames is copied.
 *
 * Text is not checked for valid UTF-8 here. The receiver of the message checks it.
 */

import { isUtf8 } from "node:buffer";
import { decodeText, writeBytes } from "../../base/bytes.ts";
import { type Part, partsLength, wholePart } from "../../base/parts.ts";

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
const BUFFER_BYTES_MIN = 1024;
/** Large growth steps, because copying the collected bytes into fresh memory costs more than all other work here. */
const GROWTH_FACTOR = 8;
/**
 * From this length on the buffer gets its final length: copying 30 MiB once more would hold the event loop for 20 ms.
 * Memory that is reserved and not written is not occupied.
 */
const GROWN_BYTES_MAX = 1024 * 1024;
/** From this length on, a 32-bit view of the payload costs less than a loop over bytes. */
const BY_WORD_BYTES_MIN = 128;
const NO_BYTES = Buffer.alloc(0);

export interface FrameHandler {
  /** A complete message. The receiver may keep the bytes. */
  onMessage(opcode: typeof TEXT | typeof BINARY, bytes: Uint8Array, start: number, end: number): void;
  onControl(opcode: typeof CLOSE | typeof PING | typeof PONG, payload: Uint8Array): void;
}

/** Why the connection must be closed, with its close code. */
interface FrameFault {
  readonly code: 1002 | 1009;
  readonly reason: string;
}

interface FrameReaderOptions {
  /** A server receives masked frames, a client unmasked ones. The opposite is a protocol error. */
  isMasked: boolean;
  messageBytesMax: number;
}

/** A class, so that a connection costs one object and a frame none. */
export class FrameReader {
  readonly #isMasked: boolean;
  readonly #messageBytesMax: number;
  /** The head of the current frame, as far as it has arrived. */
  readonly #head = new Uint8Array(HEAD_BYTES_MAX);
  #headLength = 0;
  #isInPayload = false;
  #opcode = 0;
  #isFinal = false;
  /** Payload of the current frame: its total length, and the bytes still to come. */
  #payloadLength = 0;
  #remaining = 0;
  /** The collected bytes of the current message and, separately, of a control frame between two of its frames. */
  readonly #message = new CollectedBytes();
  readonly #control = new CollectedBytes();
  /** The opcode of the unfinished message; 0 between messages. */
  #messageOpcode = 0;

  constructor(options: FrameReaderOptions) {
    this.#isMasked = options.isMasked;
    this.#messageBytesMax = options.messageBytesMax;
  }

  /** No frame or message is unfinished: the reader has no state and may be used for another connection. */
  get isIdle(): boolean {
    return !this.#isInPayload && this.#headLength === 0 && this.#messageOpcode === 0;
  }

  get unfinishedBytes(): number {
    return this.#message.length;
  }

  /** Unmasks masked bytes in place. After a fault, no more bytes may be pushed. */
  push(chunk: Uint8Array, handler: FrameHandler): FrameFault | null {
    let at = 0;
    for (;;) {
      if (!this.#isInPayload) {
        at = this.#readHead(chunk, at);
        if (!this.#isInPayload) return null;
        const fault = this.#checkHead();
        if (fault !== null) return fault;
      }
      const to = Math.min(chunk.length, at + this.#remaining);
      if (this.#isMasked) this.#unmask(chunk, at, to);
      this.#remaining -= to - at;
      const isWhole = to - at === this.#payloadLength;
      if (this.#remaining > 0 || !isWhole) this.#collect(chunk, at, to);
      if (this.#remaining > 0) return null;
      this.#isInPayload = false;
      this.#endFrame(handler, chunk, isWhole ? at : -1, to);
      at = to;
    }
  }

  /** Reads byte by byte: a head is usually two or four bytes long. */
  #readHead(chunk: Uint8Array, from: number): number {
    const head = this.#head;
    let at = from;
    while (at < chunk.length) {
      head[this.#headLength++] = chunk[at++] as number;
      if (this.#headLength < 2 || this.#headLength < this.#headBytes()) continue;
      this.#headLength = 0;
      this.#isInPayload = true;
      break;
    }
    return at;
  }

  #headBytes(): number {
    const second = this.#head[1] as number;
    const length = second & ~MASK_BIT;
    return (
      (length === LENGTH_64 ? 10 : length === LENGTH_16 ? 4 : 2) +
      ((second & MASK_BIT) !== 0 ? MASK_BYTES : 0)
    );
  }

  #checkHead(): FrameFault | null {
    const head = this.#head;
    const first = head[0] as number;
    const second = head[1] as number;
    this.#opcode = first & OPCODE_BITS;
    this.#isFinal = (first & FIN_BIT) !== 0;
    if ((first & RESERVED_BITS) !== 0) return protocolError("a reserved bit is set");
    if (((second & MASK_BIT) !== 0) !== this.#isMasked) {
      return protocolError(this.#isMasked ? "a frame is not masked" : "a frame is masked");
    }
    const length = this.#readLength(second & ~MASK_BIT);
    if (length < 0) return protocolError("a length is not encoded in the shortest form");
    this.#payloadLength = length;
    this.#remaining = length;
    if (this.#opcode >= CLOSE) {
      if (this.#opcode > PONG) return protocolError("an unknown opcode");
      if (!this.#isFinal) return protocolError("a control frame is fragmented");
      return length > CONTROL_BYTES_MAX ? protocolError("a control frame is too long") : null;
    }
    if (this.#opcode > BINARY) return protocolError("an unknown opcode");
    if (this.#opcode === CONTINUATION && this.#messageOpcode === 0)
      return protocolError("a continuation frame without a message");
    if (this.#opcode !== CONTINUATION && this.#messageOpcode !== 0)
      return protocolError("a new message before the end of the previous one");
    if (this.#message.length + length > this.#messageBytesMax) {
      return { code: 1009, reason: `a message exceeds ${this.#messageBytesMax} bytes` };
    }
    return null;
  }

  /** Returns -1 when a shorter form exists. */
  #readLength(short: number): number {
    const head = this.#head;
    if (short < LENGTH_16) return short;
    if (short === LENGTH_16) {
      const length = ((head[2] as number) << 8) | (head[3] as number);
      return length < LENGTH_16 ? -1 : length;
    }
    let length = 0;
    for (let at = 2; at < 10; at++) length = length * 256 + (head[at] as number);
    return length < 65_536 ? -1 : length;
  }

  /** The mask is at the end of the head. */
  #unmask(chunk: Uint8Array, from: number, to: number): void {
    const maskAt = this.#headBytes() - MASK_BYTES;
    applyMask(chunk, from, to, {
      bytes: this.#head,
      at: maskAt,
      done: this.#payloadLength - this.#remaining,
    });
  }

  /** Collects payload of the current frame. Only its last frame shows how long a message is. */
  #collect(chunk: Uint8Array, start: number, end: number): void {
    const collected = this.#opcode >= CLOSE ? this.#control : this.#message;
    const announced = collected.length + end - start + this.#remaining;
    collected.add(chunk, start, end, this.#isFinal ? announced : this.#messageBytesMax);
  }

  /** `start` is the position of the complete payload in the chunk, or -1 when it had to be collected. */
  #endFrame(handler: FrameHandler, chunk: Uint8Array, start: number, end: number): void {
    const opcode = this.#opcode;
    if (opcode === CLOSE || opcode === PING || opcode === PONG) {
      handler.onControl(opcode, start < 0 ? this.#control.take() : chunk.subarray(start, end));
      return;
    }
    const isSingle = this.#messageOpcode === 0 && this.#isFinal;
    if (isSingle && start >= 0) {
      handler.onMessage(opcode === BINARY ? BINARY : TEXT, chunk, start, end);
      return;
    }
    if (start >= 0) this.#collect(chunk, start, end);
    if (opcode !== CONTINUATION) this.#messageOpcode = opcode;
    if (!this.#isFinal) return;
    const kind = this.#messageOpcode === BINARY ? BINARY : TEXT;
    this.#messageOpcode = 0;
    const whole = this.#message.take();
    handler.onMessage(kind, whole, 0, whole.length);
  }
}

/** A buffer that grows with the bytes that arrive: an announced length alone allocates no memory. */
class CollectedBytes {
  length = 0;
  #bytes: Buffer = NO_BYTES;

  /** The buffer is not made larger than `lengthMax`. */
  add(from: Uint8Array, start: number, end: number, lengthMax: number): void {
    const length = this.length + end - start;
    if (length > this.#bytes.length) {
      const wanted =
        length < GROWN_BYTES_MAX ? Math.max(BUFFER_BYTES_MIN, GROWTH_FACTOR * length) : lengthMax;
      const grown = Buffer.allocUnsafeSlow(Math.min(wanted, lengthMax));
      writeBytes(grown, 0, this.#bytes, 0, this.length);
      this.#bytes = grown;
    }
    writeBytes(this.#bytes, this.length, from, start, end);
    this.length = length;
  }

  take(): Uint8Array {
    const whole = this.#bytes.subarray(0, this.length);
    this.#bytes = NO_BYTES;
    this.length = 0;
    return whole;
  }
}

function protocolError(reason: string): FrameFault {
  return { code: 1002, reason };
}

/** Encodes one frame that is a complete message. Clients must pass a mask, a different one for each frame. */
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
    applyMask(frame, headBytes, to, { bytes: mask, at: 0, done: 0 });
  }
  return frame;
}

/** Writes the head of a complete, unmasked message, at most `HEAD_BYTES_MAX` long. Returns its end position. */
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

interface FrameMask {
  readonly bytes: Uint8Array;
  /** The start of the mask in `bytes`. */
  readonly at: number;
  /** How many bytes of the payload are masked already. */
  readonly done: number;
}

/** Masks or unmasks `bytes[from, to)`. */
function applyMask(
  bytes: Uint8Array,
  from: number,
  to: number,
  { bytes: mask, at: maskAt, done }: FrameMask,
): void {
  // The index of the mask byte for the byte at position 0.
  const maskOffset = done - from;
  let at = from;
  if (to - from >= BY_WORD_BYTES_MIN) {
    while (((bytes.byteOffset + at) & 3) !== 0) at = maskByte(bytes, at, mask, maskAt, maskOffset);
    let word = 0;
    // Words are little-endian on all platforms of the runtime.
    for (let i = 3; i >= 0; i--) word = (word << 8) | (mask[maskAt + ((maskOffset + at + i) & 3)] as number);
    const words = new Int32Array(bytes.buffer, bytes.byteOffset + at, (to - at) >>> 2);
    for (let i = 0; i < words.length; i++) words[i] = (words[i] as number) ^ word;
    at += words.byteLength;
  }
  while (at < to) at = maskByte(bytes, at, mask, maskAt, maskOffset);
}

function maskByte(
  bytes: Uint8Array,
  at: number,
  mask: Uint8Array,
  maskAt: number,
  maskOffset: number,
): number {
  bytes[at] = (bytes[at] as number) ^ (mask[maskAt + ((maskOffset + at) & 3)] as number);
  return at + 1;
}

/** Without a code, the close frame is empty. The reason is truncated to fit. */
export function closeFrame(code: number | null, reason: string, mask: Uint8Array | null): Uint8Array {
  if (code === null) return buildFrame(CLOSE, [], mask);
  const reasonBytes = Buffer.from(reason);
  let end = Math.min(reasonBytes.length, CONTROL_BYTES_MAX - 2);
  // Do not cut inside a character.
  while (end < reasonBytes.length && ((reasonBytes[end] as number) & 0xc0) === 0x80) end--;
  const payload = Buffer.concat([Buffer.of(code >> 8, code & 0xff), reasonBytes.subarray(0, end)]);
  return buildFrame(CLOSE, wholePart(payload), mask);
}

interface CloseNotice {
  /** Null when the frame has no code. */
  readonly code: number | null;
  readonly reason: string;
}

/** Returns null for an invalid close payload. */
export function readClose(payload: Uint8Array): CloseNotice | null {
  if (payload.length === 0) return { code: null, reason: "" };
  if (payload.length === 1) return null;
  const code = ((payload[0] as number) << 8) | (payload[1] as number);
  if (!isSendable(code) || !isUtf8(payload.subarray(2))) return null;
  return { code, reason: decodeText(payload, 2, payload.length) };
}

/** 1004 to 1006 and 1015 are never sent on the wire. */
function isSendable(code: number): boolean {
  if (code >= 3000 && code <= 4999) return true;
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014);
}
