/** The body of one request while it arrives from the network. */

import { freeBytes, writeBytes } from "../../base/bytes.ts";
import { type Part, partBytes, wholeBytesPart } from "../../base/parts.ts";
import { FramedBody } from "../wire/framed-body.ts";
import { CHUNKED } from "../wire/http-fields.ts";
import type { BodyLoss, HttpBody } from "../wire/http-message.ts";

/** The connection that the body arrives on. */
interface BodySource {
  /** A reader requests the body: send 100 Continue if the client waits for it. */
  onBodyRequested(): void;
  /** Read on: a reader consumes the bytes, or they are discarded. */
  resume(): void;
}

/** Maximum number of bytes buffered of a body before a reader requests it. */
const UNREAD_BYTES_MAX = 64 * 1024;
/**
 * For a body that is read whole, a buffer of its full length is allocated up to this length. A longer one grows as
 * bytes arrive.
 */
const PREALLOCATED_BYTES_MAX = 1024 * 1024;
/** Reserved in front of the body, so that the upstream request head and the body can be sent in one write. */
const PREFIX_BYTES = 1024;

/** A piece up to this length is appended to the one before: an array costs more than copying it. */
const SMALL_PIECE_BYTES_MAX = 1024;
/** Size of the array that small pieces share. */
const SMALL_PIECES_BUFFER_BYTES = 16 * 1024;

const GONE: BodyLoss = { kind: "gone" };

export class IncomingBody implements HttpBody {
  readonly length: number | null;
  readonly #source: BodySource;
  readonly #framed: FramedBody;
  /** Bytes that have arrived and were not read. */
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  #mode: "unasked" | "whole" | "pieces" | "thrown away" = "unasked";
  #buffer: Buffer | null = null;
  /** The shared array of small pieces. Its filled part is the last element of `pieces`, unless that was read. */
  #smallPieces: Buffer | null = null;
  #waiting: ((read: Uint8Array | BodyLoss | null) => void) | null = null;
  #loss: BodyLoss | null = null;
  #isDeferred = false;
  isWanted = false;

  constructor(framing: number, source: BodySource) {
    this.length = framing === CHUNKED ? null : framing;
    this.#source = source;
    this.#framed = new FramedBody(framing, false);
  }

  /** The body is complete or lost. */
  get isOver(): boolean {
    return this.#framed.hasEnded || this.#loss !== null;
  }

  /** Counts while the body is collected; pieces that were returned by `next` are not counted. */
  get receivedBytes(): number {
    return this.#bytes;
  }

  get isBroken(): boolean {
    return this.#framed.fault !== null;
  }

  get isUnrequested(): boolean {
    return this.#mode === "unasked" && !this.#isDeferred;
  }

  defer(): void {
    this.#isDeferred = true;
  }

  /** Memory in use until the body is read or complete. */
  get occupiedBytes(): number {
    return this.#buffer?.length ?? this.#bytes;
  }

  /** More bytes have arrived than are read: stop reading from the socket. */
  get isAhead(): boolean {
    if (this.#mode === "unasked") return this.#bytes > UNREAD_BYTES_MAX;
    return this.#mode === "pieces" && this.#pieces.length > 0;
  }

  /** Consumes the bytes of the body and returns the position after it. */
  push(bytes: Buffer, from: number): number {
    const framed = this.#framed;
    framed.at = from;
    for (;;) {
      const piece = framed.next(bytes);
      if (piece === null) break;
      this.#take(partBytes(piece));
    }
    // The bytes were copied. Freeing them now lets the next read reuse memory that is in the CPU cache.
    if (framed.at === bytes.length && (this.#buffer !== null || this.#mode === "thrown away"))
      freeBytes(bytes);
    if (framed.fault !== null) this.#loss = { kind: "broken", reason: framed.fault };
    if (this.isOver) this.#notifyEnd();
    return framed.at;
  }

  /** The connection is closed. */
  fail(): void {
    if (!this.isOver) this.#loss = GONE;
    this.#notifyEnd();
  }

  /** Discards the rest of the body. A later reader receives `gone`. */
  discard(): void {
    this.#mode = "thrown away";
    this.#pieces = [];
    this.#smallPieces = null;
    this.#bytes = 0;
    this.#buffer = null;
    this.#settle(GONE);
    this.#source.resume();
  }

  whole(): Part | BodyLoss | Promise<Part | BodyLoss> {
    if (this.#mode === "thrown away") return GONE;
    this.#mode = "whole";
    if (this.isOver) return this.#loss ?? this.#joinPieces();
    if (this.length !== null && this.length <= PREALLOCATED_BYTES_MAX) {
      this.#buffer = Buffer.allocUnsafeSlow(PREFIX_BYTES + this.length).subarray(PREFIX_BYTES);
      let at = 0;
      for (const piece of this.#pieces) at = writeBytes(this.#buffer, at, piece);
      this.#pieces = [];
    }
    return new Promise((resolve) => {
      this.#waiting = (read) =>
        resolve(read instanceof Uint8Array ? wholeBytesPart(read) : (read ?? this.#joinPieces()));
      this.#requestBytes();
    });
  }

  next(): Promise<Uint8Array | BodyLoss | null> {
    if (this.#mode === "thrown away") return Promise.resolve(GONE);
    this.#mode = "pieces";
    const piece = this.#pieces.shift();
    if (piece !== undefined) {
      this.#bytes -= piece.length;
      return Promise.resolve(piece);
    }
    if (this.isOver) return Promise.resolve(this.#loss);
    return new Promise((resolve) => {
      this.#waiting = resolve;
      this.#requestBytes();
    });
  }

  #requestBytes(): void {
    if (!this.isWanted && this.#bytes === 0) this.#source.onBodyRequested();
    this.isWanted = true;
    this.#source.resume();
  }

  #take(piece: Uint8Array): void {
    switch (this.#mode) {
      case "thrown away":
        return;
      case "whole":
        if (this.#buffer === null) this.#add(piece);
        else writeBytes(this.#buffer, this.#bytes, piece);
        break;
      case "unasked":
        this.#add(piece);
        break;
      case "pieces":
        if (this.#waiting !== null) {
          this.#settle(piece);
          return;
        }
        // The connection pauses at each of these pieces, so there are few.
        this.#pieces.push(piece);
    }
    this.#bytes += piece.length;
  }

  /** Collects pieces so that a body that arrives byte by byte does not create one object per byte. */
  #add(piece: Uint8Array): void {
    const pieces = this.#pieces;
    const last = pieces.at(-1);
    if (
      last === undefined ||
      piece.length > SMALL_PIECE_BYTES_MAX ||
      last.length > SMALL_PIECES_BUFFER_BYTES - piece.length
    ) {
      pieces.push(piece);
      return;
    }
    if (this.#smallPieces === null || last.buffer !== this.#smallPieces.buffer) {
      if (last.length > SMALL_PIECE_BYTES_MAX) {
        pieces.push(piece);
        return;
      }
      this.#smallPieces = Buffer.allocUnsafeSlow(SMALL_PIECES_BUFFER_BYTES);
      writeBytes(this.#smallPieces, 0, last);
    }
    writeBytes(this.#smallPieces, last.length, piece);
    pieces[pieces.length - 1] = this.#smallPieces.subarray(0, last.length + piece.length);
  }

  /** Notifies a waiting reader that the body has ended. */
  #notifyEnd(): void {
    if (this.#waiting !== null) this.#settle(this.#loss);
  }

  #settle(read: Uint8Array | BodyLoss | null): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.(read);
  }

  #joinPieces(): Part {
    const buffer = this.#buffer;
    const pieces = this.#pieces;
    const [first] = pieces;
    if (buffer !== null) return wholeBytesPart(buffer);
    return wholeBytesPart(
      first !== undefined && pieces.length === 1 ? first : Buffer.concat(pieces, this.#bytes),
    );
  }
}

/** A body that arrived together with its head, as most do. */
export class WholeBody implements HttpBody {
  readonly length: number;
  #part: Part | null;

  constructor(bytes: Buffer, from: number, to: number) {
    this.length = to - from;
    // The bytes behind the body belong to another request, which may end and free its memory before this one does.
    this.#part =
      to === bytes.length
        ? { bytes, start: from, end: to }
        : wholeBytesPart(Buffer.copyBytesFrom(bytes, from, to - from));
  }

  defer(): void {}

  get receivedBytes(): number {
    return this.length;
  }

  whole(): Part {
    return this.#takePart() ?? wholeBytesPart(new Uint8Array(0));
  }

  next(): Promise<Uint8Array | null> {
    const part = this.#takePart();
    return Promise.resolve(part && partBytes(part));
  }

  #takePart(): Part | null {
    const part = this.#part;
    this.#part = null;
    return part;
  }
}
