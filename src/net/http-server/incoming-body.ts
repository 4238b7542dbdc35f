/** The body of one request, as it comes from the network. */

import { freeBytes, writeBytes } from "../wire/bytes.ts";
import { FramedBody } from "../wire/framed-body.ts";
import { CHUNKED } from "../wire/http-fields.ts";
import type { BodyLoss, HttpBody } from "../wire/http-message.ts";
import { type Part, partBytes, wholeBytesPart } from "../wire/parts.ts";

/** The connection that it comes by. */
export interface BodySource {
  /** Somebody wants the body now: a client that waits for a word is told to go on. */
  wanted(): void;
  /** Somebody takes what comes, or nobody ever will. */
  resume(): void;
}

/** What is kept of a body that nobody has asked for yet. */
const UNREAD_BYTES_MAX = 64 * 1024;
/** Room for a body that is to be whole is made at once up to here; a longer one grows with what really comes. */
const ROOM_BYTES_MAX = 1024 * 1024;
/** Left free before it: what goes upstream ahead of the body can stand there, so that all of it is one write. */
const IN_FRONT_BYTES = 1024;

/** A shorter piece is put behind the one before it: an array of its own costs more than a few bytes. */
const CRUMB_BYTES_MAX = 1024;
/** So many bytes of crumbs share one array. */
const CRUMBS_BYTES = 16 * 1024;

const GONE: BodyLoss = { kind: "gone" };

export class IncomingBody implements HttpBody {
  readonly length: number | null;
  private readonly source: BodySource;
  private readonly framed: FramedBody;
  /** What has come and nobody has taken. */
  private pieces: Uint8Array[] = [];
  private bytes = 0;
  private mode: "unasked" | "whole" | "pieces" | "thrown away" = "unasked";
  private room: Buffer | null = null;
  /** Where crumbs go; the last piece is what is filled of it, if it was not taken yet. */
  private crumbs: Buffer | null = null;
  private waiting: ((read: Uint8Array | BodyLoss | null) => void) | null = null;
  private lost: BodyLoss | null = null;
  private isDeferred = false;
  isWanted = false;

  constructor(framing: number, source: BodySource) {
    this.length = framing === CHUNKED ? null : framing;
    this.source = source;
    this.framed = new FramedBody(framing, false);
  }

  /** All of it came, or it never will. */
  get isOver(): boolean {
    return this.framed.hasEnded || this.lost !== null;
  }

  /** While it is gathered to be whole; pieces that were handed out are not counted. */
  get receivedBytes(): number {
    return this.bytes;
  }

  get isBroken(): boolean {
    return this.framed.wrong !== null;
  }

  get isUnasked(): boolean {
    return this.mode === "unasked" && !this.isDeferred;
  }

  defer(): void {
    this.isDeferred = true;
  }

  /** What it takes of memory until it is asked for, or complete. */
  get occupiedBytes(): number {
    return this.room?.length ?? this.bytes;
  }

  /** More has come than anybody takes: what follows had better wait in the network. */
  get isAhead(): boolean {
    if (this.mode === "unasked") return this.bytes > UNREAD_BYTES_MAX;
    return this.mode === "pieces" && this.pieces.length > 0;
  }

  /** Takes what belongs to the body and returns where the rest begins. */
  push(bytes: Buffer, from: number): number {
    const { framed } = this;
    framed.at = from;
    for (;;) {
      const piece = framed.next(bytes);
      if (piece === null) break;
      this.take(partBytes(piece));
    }
    // Copied: the next read finds memory that is still warm.
    if (framed.at === bytes.length && (this.room !== null || this.mode === "thrown away")) freeBytes(bytes);
    if (framed.wrong !== null) this.lost = { kind: "broken", reason: framed.wrong };
    if (this.isOver) this.tellEnd();
    return framed.at;
  }

  /** The connection is gone. */
  fail(): void {
    if (!this.isOver) this.lost = GONE;
    this.tellEnd();
  }

  /** Nobody will read the rest: for whoever asks all the same it is gone. */
  throwAway(): void {
    this.mode = "thrown away";
    this.pieces = [];
    this.crumbs = null;
    this.bytes = 0;
    this.room = null;
    this.settle(GONE);
    this.source.resume();
  }

  whole(): Part | BodyLoss | Promise<Part | BodyLoss> {
    if (this.mode === "thrown away") return GONE;
    this.mode = "whole";
    if (this.isOver) return this.lost ?? this.gathered();
    if (this.length !== null && this.length <= ROOM_BYTES_MAX) {
      this.room = Buffer.allocUnsafeSlow(IN_FRONT_BYTES + this.length).subarray(IN_FRONT_BYTES);
      let at = 0;
      for (const piece of this.pieces) at = writeBytes(this.room, at, piece);
      this.pieces = [];
    }
    return new Promise((resolve) => {
      this.waiting = (read) =>
        resolve(read instanceof Uint8Array ? wholeBytesPart(read) : (read ?? this.gathered()));
      this.ask();
    });
  }

  next(): Promise<Uint8Array | BodyLoss | null> {
    if (this.mode === "thrown away") return Promise.resolve(GONE);
    this.mode = "pieces";
    const piece = this.pieces.shift();
    if (piece !== undefined) {
      this.bytes -= piece.length;
      return Promise.resolve(piece);
    }
    if (this.isOver) return Promise.resolve(this.lost);
    return new Promise((resolve) => {
      this.waiting = resolve;
      this.ask();
    });
  }

  private ask(): void {
    if (!this.isWanted && this.bytes === 0) this.source.wanted();
    this.isWanted = true;
    this.source.resume();
  }

  private take(piece: Uint8Array): void {
    switch (this.mode) {
      case "thrown away":
        return;
      case "whole":
        if (this.room === null) this.add(piece);
        else writeBytes(this.room, this.bytes, piece);
        break;
      case "unasked":
        this.add(piece);
        break;
      case "pieces":
        if (this.waiting !== null) {
          this.settle(piece);
          return;
        }
        // The connection is held up at each of them, so there are few.
        this.pieces.push(piece);
    }
    this.bytes += piece.length;
  }

  /** A body that comes a byte at a time must not become an object a byte. */
  private add(piece: Uint8Array): void {
    const { pieces } = this;
    const last = pieces.at(-1);
    if (last === undefined || piece.length > CRUMB_BYTES_MAX || last.length > CRUMBS_BYTES - piece.length) {
      pieces.push(piece);
      return;
    }
    if (this.crumbs === null || last.buffer !== this.crumbs.buffer) {
      if (last.length > CRUMB_BYTES_MAX) {
        pieces.push(piece);
        return;
      }
      this.crumbs = Buffer.allocUnsafeSlow(CRUMBS_BYTES);
      writeBytes(this.crumbs, 0, last);
    }
    writeBytes(this.crumbs, last.length, piece);
    pieces[pieces.length - 1] = this.crumbs.subarray(0, last.length + piece.length);
  }

  /** Whoever waits is told that the body is over. */
  private tellEnd(): void {
    if (this.waiting !== null) this.settle(this.lost);
  }

  private settle(read: Uint8Array | BodyLoss | null): void {
    const { waiting } = this;
    this.waiting = null;
    waiting?.(read);
  }

  private gathered(): Part {
    const { room, pieces } = this;
    const [first] = pieces;
    if (room !== null) return wholeBytesPart(room);
    return wholeBytesPart(
      first !== undefined && pieces.length === 1 ? first : Buffer.concat(pieces, this.bytes),
    );
  }
}

/** A body that came with its head, as most do, and is whole. */
export class WholeBody implements HttpBody {
  readonly length: number;
  private part: Part | null;

  constructor(bytes: Buffer, from: number, to: number) {
    this.length = to - from;
    // What stands behind it is another request's, which may be over, and its memory given back, before this one is.
    this.part =
      to === bytes.length
        ? { bytes, start: from, end: to }
        : wholeBytesPart(Buffer.copyBytesFrom(bytes, from, to - from));
  }

  defer(): void {}

  get receivedBytes(): number {
    return this.length;
  }

  whole(): Part {
    return this.taken() ?? wholeBytesPart(new Uint8Array(0));
  }

  next(): Promise<Uint8Array | null> {
    const part = this.taken();
    return Promise.resolve(part && partBytes(part));
  }

  private taken(): Part | null {
    const { part } = this;
    this.part = null;
    return part;
  }
}
