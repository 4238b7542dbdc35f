/**
 * Decodes a body from its framing, one read at a time. The chunks of one read are moved together in place, so that an
 * event stream of many small chunks costs one call per read instead of one per chunk.
 */

import type { Part } from "../../base/parts.ts";
import { BYTE_CLASS, CHUNKED, COLON, CR, LF, TOKEN, UNTIL_CLOSE, VALUE } from "./http-fields.ts";

/** Moving more bytes than this costs more than returning one more piece. */
const MOVE_BYTES_MAX = 4_096;
/** Up to this length a loop is cheaper than a call of `copyWithin`. */
const BY_BYTE_MAX = 16;
const PLAIN_SIZE_DIGITS_MAX = 6;
const EXTENSION_BYTES_MAX = 4_096;
/**
 * Chunk extensions may take one byte for this many bytes of data. Above that the body is built to be expensive to
 * parse.
 */
const DATA_PER_EXTENSION_MIN = 8;
/**
 * A request may have this many chunks of any size, and one more for each `DATA_PER_CHUNK_MIN` bytes. Parsing chunks of
 * one byte costs a hundred times as much as their data, and 200 connections can send them in one turn.
 */
const CHUNKS_FREE = 4_096;
const DATA_PER_CHUNK_MIN = 16;
const TRAILER_BYTES_MAX = 16_384;
/** The same limit as for a request head. */
const TRAILER_LINES_MAX = 128;
/**
 * In a head these fields would contradict the framing or the host. In a trailer they are rejected for the same
 * reason.
 */
const MISPLACED_IN_TRAILER: ReadonlySet<string> = new Set(["content-length", "transfer-encoding", "host"]);
/** Length of the longest of these names. */
const MISPLACED_NAME_BYTES_MAX = 17;
const CHUNK_BYTES_MAX = 2 ** 48;

/** States of the chunked decoder. */
const SIZE_FIRST = 0;
const SIZE = 1;
const EXTENSION = 2;
const SIZE_LF = 3;
const DATA = 4;
const DATA_CR = 5;
const DATA_LF = 6;
const TRAILER_FIRST = 7;
const TRAILER_NAME = 8;
const TRAILER = 9;
const TRAILER_LF = 10;
const LAST_LF = 11;

export class FramedBody {
  hasEnded: boolean;
  /** The framing error, once one was found. */
  fault: string | null = null;
  /** How far the current read is consumed. The caller sets the start position for each new read. */
  at = 0;
  readonly framing: number;
  /** Bytes left of the whole body, or of the current chunk. */
  #remaining: number;
  readonly #isLenient: boolean;
  #state = SIZE_FIRST;
  #trailerLines = 0;
  /** Name of the current trailer line, as far as it is needed. */
  #trailerName = "";
  #overhead = 0;
  #extensionBytes = 0;
  #dataBytes = 0;
  #chunks = 0;

  /**
   * `isLenient` is for responses: some servers pad the chunk size with blanks or repeat head fields in the trailer, and
   * some stream a character at a time.
   */
  constructor(framing: number, isLenient: boolean) {
    this.framing = framing;
    this.#isLenient = isLenient;
    this.#remaining = framing > 0 ? framing : 0;
    this.hasEnded = framing === 0;
  }

  /** The next piece; null when `to` is reached, the body has ended, or its framing is invalid. */
  next(bytes: Buffer, to = bytes.length): Part | null {
    if (this.hasEnded || this.fault !== null || this.at >= to) return null;
    if (this.framing === CHUNKED) return this.#nextChunked(bytes, to);
    const start = this.at;
    let end = to;
    if (this.framing !== UNTIL_CLOSE) {
      end = Math.min(end, start + this.#remaining);
      this.#remaining -= end - start;
      if (this.#remaining === 0) this.hasEnded = true;
    }
    this.at = end;
    return { bytes, start, end };
  }

  #nextChunked(bytes: Buffer, end: number): Part | null {
    let from = 0;
    let to = 0;
    while (this.at < end && !this.hasEnded && this.fault === null) {
      if (this.#state !== DATA) {
        if (!this.#parsePlainFraming(bytes)) this.#parseFramingByte(bytes[this.at++] as number);
        continue;
      }
      const length = Math.min(this.#remaining, end - this.at);
      if (to === 0) {
        from = this.at;
        to = from + length;
      } else if (length <= MOVE_BYTES_MAX) {
        if (length > BY_BYTE_MAX) bytes.copyWithin(to, this.at, this.at + length);
        else for (let i = 0; i < length; i++) bytes[to + i] = bytes[this.at + i] as number;
        to += length;
      } else {
        break;
      }
      this.at += length;
      this.#remaining -= length;
      this.#dataBytes += length;
      if (this.#remaining === 0) this.#state = DATA_CR;
    }
    return to === 0 ? null : { bytes, start: from, end: to };
  }

  /** Parses the usual bytes between two chunks in one step. Returns false for anything unusual or incomplete. */
  #parsePlainFraming(bytes: Buffer): boolean {
    let at = this.at;
    if (this.#state === DATA_CR && bytes[at] === CR && bytes[at + 1] === LF) {
      this.at = at + 2;
      this.#state = SIZE_FIRST;
      return true;
    }
    if (this.#state !== SIZE_FIRST) return false;
    let size = 0;
    const end = Math.min(bytes.length - 2, at + PLAIN_SIZE_DIGITS_MAX);
    for (; at < end; at++) {
      const digit = hexDigit(bytes[at] as number);
      if (digit < 0) break;
      size = size * 16 + digit;
    }
    if (size === 0 || bytes[at] !== CR || bytes[at + 1] !== LF) return false;
    this.at = at + 2;
    this.#remaining = size;
    this.#beginChunk();
    return true;
  }

  #beginChunk(): void {
    this.#state = DATA;
    if (++this.#chunks <= CHUNKS_FREE || this.#isLenient) return;
    if (this.#chunks > CHUNKS_FREE + this.#dataBytes / DATA_PER_CHUNK_MIN)
      this.fault = "too many small chunks";
  }

  #parseFramingByte(byte: number): void {
    switch (this.#state) {
      case SIZE_FIRST:
      case SIZE: {
        const digit = hexDigit(byte);
        if (digit >= 0) {
          this.#remaining = this.#remaining * 16 + digit;
          if (this.#remaining > CHUNK_BYTES_MAX || ++this.#overhead > EXTENSION_BYTES_MAX) {
            this.fault = "an invalid chunk size";
          }
          this.#state = SIZE;
        } else if (this.#state === SIZE_FIRST) this.fault = "a chunk without a size";
        else if (byte === CR) this.#state = SIZE_LF;
        else if (byte === 59 || ((byte === 32 || byte === 9) && this.#isLenient)) this.#state = EXTENSION;
        else this.fault = "a chunk size that is not a number";
        return;
      }
      case EXTENSION:
        if (byte === CR) this.#state = SIZE_LF;
        else if (!isValue(byte)) this.fault = "a control character in a chunk extension";
        else if (++this.#extensionBytes > EXTENSION_BYTES_MAX + this.#dataBytes / DATA_PER_EXTENSION_MIN) {
          this.fault = "chunk extensions larger than the body";
        }
        return;
      case SIZE_LF:
        this.#overhead = 0;
        if (byte !== LF) this.fault = "a bare CR after a chunk size";
        else if (this.#remaining === 0) this.#state = TRAILER_FIRST;
        else this.#beginChunk();
        return;
      case DATA_CR:
        if (byte !== CR) this.fault = "a chunk longer than its size";
        this.#state = DATA_LF;
        return;
      case DATA_LF:
        if (byte !== LF) this.fault = "a chunk longer than its size";
        this.#state = SIZE_FIRST;
        return;
      default:
        this.#parseTrailerByte(byte);
    }
  }

  /** Parses one byte after the last chunk. Trailer lines are checked as strictly as head lines. */
  #parseTrailerByte(byte: number): void {
    if (++this.#overhead > TRAILER_BYTES_MAX) {
      this.fault = "trailers that are too long";
      return;
    }
    switch (this.#state) {
      case TRAILER_FIRST:
        if (byte === CR) this.#state = LAST_LF;
        else if (++this.#trailerLines > TRAILER_LINES_MAX) this.fault = "trailers that are too long";
        // This rejects folded lines and lines that begin with the colon.
        else if (!isToken(byte)) this.fault = "a trailer line without a valid name";
        else {
          this.#trailerName = String.fromCharCode(byte);
          this.#state = TRAILER_NAME;
        }
        return;
      case TRAILER_NAME:
        if (byte === COLON) this.#endTrailerName();
        else if (!isToken(byte)) this.fault = "a trailer line without a valid name";
        else if (this.#trailerName.length <= MISPLACED_NAME_BYTES_MAX) {
          this.#trailerName += String.fromCharCode(byte);
        }
        return;
      case TRAILER:
        if (byte === CR) this.#state = TRAILER_LF;
        else if (!isValue(byte)) this.fault = "a control character in a trailer";
        return;
      case TRAILER_LF:
        if (byte !== LF) this.fault = "a bare CR in a trailer";
        this.#state = TRAILER_FIRST;
        return;
      case LAST_LF:
        if (byte !== LF) this.fault = "a bare CR after the last chunk";
        else this.hasEnded = true;
    }
  }

  #endTrailerName(): void {
    this.#state = TRAILER;
    if (!this.#isLenient && MISPLACED_IN_TRAILER.has(this.#trailerName.toLowerCase())) {
      this.fault = "a header field that is not allowed in a trailer";
    }
  }
}

function isToken(byte: number): boolean {
  return ((BYTE_CLASS[byte] as number) & TOKEN) !== 0;
}

function isValue(byte: number): boolean {
  return ((BYTE_CLASS[byte] as number) & VALUE) !== 0;
}

function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const lower = byte | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}
