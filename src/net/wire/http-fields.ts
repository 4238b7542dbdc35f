/**
 * Parses the header fields of an HTTP head, of a request or a response. The parser is strict: a message is rejected
 * if two parsers could disagree about where it ends. One pass over the bytes checks every character and reads the
 * fields that frame the body. All other fields are looked up in the text on demand.
 */

import { decodeLatin1 } from "../../base/bytes.ts";

export interface HeaderReader {
  /** `name` is in lower case. A header that was sent more than once is joined with ", ". */
  get(name: string): string | null;
  has(name: string): boolean;
}

/** Framing of a body of unknown length; any other framing value is the length itself. */
export const CHUNKED = -1;
export const UNTIL_CLOSE = -2;

const TAB = 9;
export const LF = 10;
export const CR = 13;
export const SPACE = 32;
export const COLON = 58;
/** Setting this bit converts an ASCII letter to lower case. */
const LOWER_CASE = 32;
export const TOKEN = 1;
export const VALUE = 2;
const LENGTH_DIGITS_MAX = 15;

/** For each byte: whether it is allowed in a header name and in a header value. */
export const BYTE_CLASS = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  const isToken = /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(byte));
  const isValue = byte === TAB || (byte >= SPACE && byte !== 127);
  BYTE_CLASS[byte] = (isToken ? TOKEN : 0) | (isValue ? VALUE : 0);
}

/** No header that the code looks up has a name this long. */
const NAME_BYTES = 256;

/** The parsed framing and connection fields, and the positions of all names. */
export class Fields {
  /** Position after the empty line. */
  end = 0;
  /** One number per field: the position of its name times `NAME_BYTES`, plus the length of the name. */
  readonly names: number[] = [];
  /** The Content-Length, or -1. */
  length = -1;
  lengths = 0;
  /** Position of its digits. */
  lengthAt = -1;
  isChunked = false;
  hosts = 0;
  closes = false;
  keepsAlive = false;
}

/** Continues anywhere in the first line. Null for an incomplete head, an error text for an invalid one. */
export function scanFields(bytes: Buffer, from: number): Fields | string | null {
  const end = bytes.length;
  const fields = new Fields();
  let at = from;
  let lineFrom = at;
  let nameTo = at;
  for (;;) {
    // The rest of a line: first of the start line, then of each field line.
    while (at < end && ((BYTE_CLASS[bytes[at] as number] as number) & VALUE) !== 0) at++;
    if (at < end && bytes[at] !== CR) return "a control character in the head";
    if (at + 1 >= end) return null;
    if (bytes[at + 1] !== LF) return "a bare CR in the head";
    const error = readField(fields, bytes, lineFrom, nameTo, at);
    if (error !== null) return error;
    at += 2;
    if (at >= end) return null;
    if (bytes[at] === CR) break;
    lineFrom = at;
    while (at < end && ((BYTE_CLASS[bytes[at] as number] as number) & TOKEN) !== 0) at++;
    if (at >= end) return null;
    // This rejects folded lines, a space before the colon and lines without a colon.
    if (at === lineFrom || bytes[at] !== COLON) return "a header line without a valid name";
    nameTo = at++;
    fields.names.push(lineFrom * NAME_BYTES + Math.min(nameTo - lineFrom, NAME_BYTES - 1));
  }
  if (at + 1 >= end) return null;
  if (bytes[at + 1] !== LF) return "a bare CR in the head";
  fields.end = at + 2;
  return fields;
}

function readField(
  fields: Fields,
  bytes: Buffer,
  lineFrom: number,
  nameTo: number,
  lineTo: number,
): string | null {
  switch (nameTo - lineFrom) {
    case 4:
      if (isName(bytes, lineFrom, "host")) fields.hosts++;
      break;
    case 10:
      if (isName(bytes, lineFrom, "connection")) readConnection(fields, bytes, nameTo + 1, lineTo);
      break;
    case 14: {
      if (!isName(bytes, lineFrom, "content-length")) break;
      const digitsAt = skipBlanks(bytes, nameTo + 1, lineTo);
      const parsed = parseLength(bytes, digitsAt, lineTo);
      if (parsed < 0 || (fields.length >= 0 && parsed !== fields.length)) return "an invalid Content-Length";
      fields.length = parsed;
      fields.lengthAt = digitsAt;
      fields.lengths++;
      break;
    }
    case 17:
      if (!isName(bytes, lineFrom, "transfer-encoding")) break;
      if (fields.isChunked || fieldValue(bytes, nameTo + 1, lineTo).toLowerCase() !== "chunked") {
        return "an unknown Transfer-Encoding";
      }
      fields.isChunked = true;
      break;
  }
  return null;
}

const HEAD_END = "\r\n\r\n";

/** Whether a head that was incomplete after `knownBytes` bytes may end within the first `length` bytes. */
export function containsHeadEnd(bytes: Buffer, knownBytes: number, length: number): boolean {
  const from = Math.max(0, knownBytes - HEAD_END.length + 1);
  return decodeLatin1(bytes, from, length).includes(HEAD_END);
}

/** A class, so that a head costs one object and no closures. */
export class HeadText implements HeaderReader {
  readonly #text: string;
  readonly #names: readonly number[];
  readonly #textAt: number;
  /**
   * Bit set of the lengths of all names. Most lookups are for absent headers, and usually no name has that length.
   */
  readonly #lengths: number;

  /**
   * `text` consists of whole lines, each with its CR LF. Positions in `names` are relative to the same origin as
   * `textAt`, the position of the text.
   */
  constructor(text: string, names: readonly number[], textAt: number) {
    this.#text = text;
    this.#names = names;
    this.#textAt = textAt;
    let lengths = 0;
    for (const name of names) lengths |= lengthBit(name % NAME_BYTES);
    this.#lengths = lengths;
  }

  get(name: string): string | null {
    const text = this.#text;
    const names = this.#names;
    let joined: string | null = null;
    for (let i = this.#find(name, 0); i < names.length; i = this.#find(name, i + 1)) {
      const from = this.#at(i) + name.length + 1;
      const value = trimValue(text, from, text.indexOf("\r\n", from));
      joined = joined === null ? value : `${joined}, ${value}`;
    }
    return joined;
  }

  has(name: string): boolean {
    return this.#find(name, 0) < this.#names.length;
  }

  /** Returns the index of the name, searching from `first`, or `names.length` if it is absent. */
  #find(name: string, first: number): number {
    const names = this.#names;
    const { length } = name;
    if ((this.#lengths & lengthBit(length)) === 0) return names.length;
    for (let i = first; i < names.length; i++) {
      if ((names[i] as number) % NAME_BYTES === length && this.#isAt(this.#at(i), name)) return i;
    }
    return names.length;
  }

  #at(index: number): number {
    return Math.trunc((this.#names[index] as number) / NAME_BYTES) - this.#textAt;
  }

  #isAt(at: number, name: string): boolean {
    const text = this.#text;
    for (let i = 0; i < name.length; i++) {
      const actual = text.charCodeAt(at + i);
      const expected = name.charCodeAt(i);
      if (actual !== expected && (!isUpper(actual) || (actual | LOWER_CASE) !== expected)) return false;
    }
    return true;
  }
}

/** Lengths from 32 on share bits. */
function lengthBit(length: number): number {
  return 1 << length;
}

function isUpper(code: number): boolean {
  return code >= 65 && code <= 90;
}

function isName(bytes: Buffer, at: number, name: string): boolean {
  for (let i = 0; i < name.length; i++) {
    // The hyphen has this bit already. The only other byte that becomes a hyphen is 13, which is not a token
    // character.
    if (((bytes[at + i] as number) | LOWER_CASE) !== name.charCodeAt(i)) return false;
  }
  return true;
}

/** Returns -1 for anything but a plain number. */
function parseLength(bytes: Buffer, from: number, to: number): number {
  const end = digitsEnd(bytes, from);
  return skipBlanks(bytes, end, to) === to ? parseNumber(bytes, from, end) : -1;
}

function skipBlanks(bytes: Buffer, from: number, to: number): number {
  let at = from;
  while (at < to && isBlank(bytes[at] as number)) at++;
  return at;
}

export function digitsEnd(bytes: Buffer, from: number): number {
  let at = from;
  while (isDigit(bytes[at])) at++;
  return at;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 48 && byte <= 57;
}

/** Parses these digits; -1 when there are none, or more than a length can have. */
export function parseNumber(bytes: Buffer, from: number, to: number): number {
  if (to === from || to - from > LENGTH_DIGITS_MAX) return -1;
  let number = 0;
  for (let at = from; at < to; at++) number = number * 10 + (bytes[at] as number) - 48;
  return number;
}

function readConnection(fields: Fields, bytes: Buffer, from: number, to: number): void {
  for (const option of fieldValue(bytes, from, to).toLowerCase().split(",")) {
    const name = trimValue(option, 0, option.length);
    if (name === "close") fields.closes = true;
    else if (name === "keep-alive") fields.keepsAlive = true;
  }
}

function fieldValue(bytes: Buffer, from: number, to: number): string {
  return trimValue(decodeLatin1(bytes, from, to), 0, to - from);
}

/** Not `trim`, which also removes the Latin-1 no-break space. */
export function trimValue(text: string, from: number, to: number): string {
  let at = from;
  let end = to;
  while (at < end && isBlank(text.charCodeAt(at))) at++;
  while (end > at && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(at, end);
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB;
}
