/**
 * Writes JSON lines, each an array, into a reusable buffer. The journal writes tens of thousands of lines a second;
 * `JSON.stringify` would create an array and a string for each, for the garbage collector.
 */

import type { Nano } from "../../money/nano.ts";
import { nanoValue } from "../../store/usage/usage-values.ts";
import { CHECKSUM_DIGITS, CHECKSUM_MARK, checksum } from "./journal-segment.ts";

const QUOTE = 0x22;
const COMMA = 0x2c;
const ZERO = 0x30;
const OPEN = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE = 0x5d;
const LINE_END = 0x0a;
const LETTER_A = 0x61;

/** Maximum number of UTF-8 bytes per UTF-16 unit. */
const UTF8_BYTES_MAX = 3;
/** Maximum number of bytes of a number with its separators. */
const NUMBER_BYTES_MAX = 32;
/** Digits that are computed with small integers, which the compiler optimizes best. */
const SMALL = 1e9;
const SMALL_DIGITS = 9;

export class JsonLineWriter {
  /** Contains the lines in its first `length` bytes. */
  bytes = Buffer.allocUnsafeSlow(4_096);
  length = 0;
  /** Where the current line starts. */
  private lineStart = 0;

  clear(): void {
    this.length = 0;
  }

  /** Starts a line with its tag. */
  open(tag: string): void {
    this.makeRoom(NUMBER_BYTES_MAX + tag.length);
    this.lineStart = this.length;
    this.bytes[this.length++] = OPEN;
    this.quoted(tag);
  }

  close(): void {
    this.makeRoom(1);
    this.bytes[this.length++] = CLOSE;
    this.endLine();
  }

  /** Writes a whole line of a rare kind. */
  json(line: readonly unknown[]): void {
    this.lineStart = this.length;
    this.serialized(line);
    this.endLine();
  }

  /** Appends the checksum that tells readers that the line is whole. */
  private endLine(): void {
    this.makeRoom(NUMBER_BYTES_MAX);
    const { bytes } = this;
    const sum = checksum(bytes.subarray(this.lineStart, this.length));
    let at = this.length;
    bytes[at++] = CHECKSUM_MARK;
    for (let shift = (CHECKSUM_DIGITS - 1) * 4; shift >= 0; shift -= 4) {
      const digit = (sum >>> shift) & 0xf;
      bytes[at++] = digit < 10 ? ZERO + digit : LETTER_A + digit - 10;
    }
    bytes[at++] = LINE_END;
    this.length = at;
  }

  text(value: string | null): void {
    this.makeRoom(NUMBER_BYTES_MAX + (value?.length ?? 0));
    this.bytes[this.length++] = COMMA;
    if (value === null) this.ascii("null");
    else this.quoted(value);
  }

  number(value: number | null): void {
    this.makeRoom(NUMBER_BYTES_MAX);
    this.bytes[this.length++] = COMMA;
    if (value !== null && Number.isSafeInteger(value) && value >= 0) this.digits(value);
    else this.ascii(JSON.stringify(value));
  }

  flag(value: boolean): void {
    this.makeRoom(NUMBER_BYTES_MAX);
    this.bytes[this.length++] = COMMA;
    this.ascii(value ? "true" : "false");
  }

  /** A JSON number if that is exact, otherwise a string. */
  nano(value: Nano): void {
    const encoded = nanoValue(value);
    if (typeof encoded === "number") this.number(encoded);
    else this.text(encoded);
  }

  /** The caller has reserved space for plain ASCII text, which is nearly all text. */
  private quoted(value: string): void {
    const { bytes, length } = this;
    let at = length;
    bytes[at++] = QUOTE;
    for (let i = 0; i < value.length; i++) {
      const unit = value.charCodeAt(i);
      if (unit < 0x20 || unit > 0x7e || unit === QUOTE || unit === BACKSLASH) {
        this.serialized(value);
        return;
      }
      bytes[at++] = unit;
    }
    bytes[at++] = QUOTE;
    this.length = at;
  }

  private serialized(value: unknown): void {
    const json = JSON.stringify(value);
    this.makeRoom(json.length * UTF8_BYTES_MAX);
    this.length += this.bytes.write(json, this.length);
  }

  private ascii(text: string): void {
    for (let i = 0; i < text.length; i++) this.bytes[this.length++] = text.charCodeAt(i);
  }

  private digits(value: number): void {
    if (value < SMALL) {
      this.smallDigits(value, countDigits(value));
      return;
    }
    const high = Math.floor(value / SMALL);
    this.digits(high);
    this.smallDigits(value - high * SMALL, SMALL_DIGITS);
  }

  private smallDigits(value: number, count: number): void {
    const { bytes, length } = this;
    let left = value | 0;
    for (let at = length + count - 1; at >= length; at--) {
      const rest = (left / 10) | 0;
      bytes[at] = ZERO + left - rest * 10;
      left = rest;
    }
    this.length = length + count;
  }

  private makeRoom(bytes: number): void {
    if (this.length + bytes <= this.bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.bytes.length, this.length + bytes));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }
}

function countDigits(value: number): number {
  let count = 1;
  for (let limit = 10; value >= limit; limit *= 10) count++;
  return count;
}
