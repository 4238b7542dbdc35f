/**
 * The fields of an HTTP head, asked or answered. Strict: where two readers could differ about where a message ends, it
 * is refused. One pass over the bytes checks every character and reads the fields that frame the body; any other is
 * looked up in the text when somebody asks.
 */

import { decodeLatin1 } from "./bytes.ts";

export interface HeaderReader {
  /** The name in lower case. A header sent more than once is joined with ", ". */
  get(name: string): string | null;
  has(name: string): boolean;
}

/** Framing of a body whose length is not known beforehand; any other framing is the length itself. */
export const CHUNKED = -1;
export const UNTIL_CLOSE = -2;

const TAB = 9;
export const LF = 10;
export const CR = 13;
export const SPACE = 32;
export const COLON = 58;
/** This bit makes letters lower case. */
const LOWER_CASE = 32;
export const TOKEN = 1;
export const VALUE = 2;
const LENGTH_DIGITS_MAX = 15;

/** Of each byte: may it stand in a header's name, in a value. */
export const BYTE_CLASS = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  const isToken = /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(byte));
  const isValue = byte === TAB || (byte >= SPACE && byte !== 127);
  BYTE_CLASS[byte] = (isToken ? TOKEN : 0) | (isValue ? VALUE : 0);
}

/** No name that is asked for is that long. */
const NAME_BYTES = 256;

/** What the fields say about the body, the connection and themselves. */
export class Fields {
  /** After the empty line. */
  end = 0;
  /** Of each, in one number: where its name begins, times `NAME_BYTES`, and how long it is. */
  readonly names: number[] = [];
  /** The length of the body; -1 where none is given. */
  length = -1;
  lengths = 0;
  /** Where its digits begin. */
  lengthAt = -1;
  isChunked = false;
  hosts = 0;
  closes = false;
  keepsAlive = false;
}

/**
 * Reads on from anywhere in the first line. Null when the head goes on after these bytes; what is wrong with it when it
 * can be no head.
 */
export function scanFields(bytes: Buffer, from: number): Fields | string | null {
  const end = bytes.length;
  const fields = new Fields();
  let at = from;
  let lineFrom = at;
  let nameTo = at;
  for (;;) {
    // The rest of a line: of the first one, then of each field's.
    while (at < end && ((BYTE_CLASS[bytes[at] as number] as number) & VALUE) !== 0) at++;
    if (at < end && bytes[at] !== CR) return "a control character in the head";
    if (at + 1 >= end) return null;
    if (bytes[at + 1] !== LF) return "a bare CR in the head";
    const fault = readField(fields, bytes, lineFrom, nameTo, at);
    if (fault !== null) return fault;
    at += 2;
    if (at >= end) return null;
    if (bytes[at] === CR) break;
    lineFrom = at;
    while (at < end && ((BYTE_CLASS[bytes[at] as number] as number) & TOKEN) !== 0) at++;
    if (at >= end) return null;
    // A folded line, a space before the colon and a line without one all end here.
    if (at === lineFrom || bytes[at] !== COLON) return "a header line without a proper name";
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
      const digitsAt = pastBlanks(bytes, nameTo + 1, lineTo);
      const given = parseLength(bytes, digitsAt, lineTo);
      if (given < 0 || (fields.length >= 0 && given !== fields.length)) return "an impossible Content-Length";
      fields.length = given;
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

/** A class, so that each head costs one object and no closures. */
export class HeadText implements HeaderReader {
  private readonly text: string;
  private readonly names: readonly number[];
  private readonly textAt: number;
  /** How long its names are, a bit for each length. Most of what is asked for is not there, and no name is as long. */
  private readonly lengths: number;

  /** The text is of whole lines, each with its CR LF. `names` counts as `textAt` does, where the text begins. */
  constructor(text: string, names: readonly number[], textAt: number) {
    this.text = text;
    this.names = names;
    this.textAt = textAt;
    let lengths = 0;
    for (const name of names) lengths |= bitOf(name % NAME_BYTES);
    this.lengths = lengths;
  }

  get(name: string): string | null {
    const { text, names } = this;
    let found: string | null = null;
    for (let i = this.find(name, 0); i < names.length; i = this.find(name, i + 1)) {
      const from = this.at(i) + name.length + 1;
      const value = trimValue(text, from, text.indexOf("\r\n", from));
      found = found === null ? value : `${found}, ${value}`;
    }
    return found;
  }

  has(name: string): boolean {
    return this.find(name, 0) < this.names.length;
  }

  /** Which of the names it is, from one of them on; as many as there are for none. */
  private find(name: string, first: number): number {
    const { names } = this;
    const { length } = name;
    if ((this.lengths & bitOf(length)) === 0) return names.length;
    for (let i = first; i < names.length; i++) {
      if ((names[i] as number) % NAME_BYTES === length && this.isAt(this.at(i), name)) return i;
    }
    return names.length;
  }

  private at(index: number): number {
    return Math.trunc((this.names[index] as number) / NAME_BYTES) - this.textAt;
  }

  private isAt(at: number, name: string): boolean {
    const { text } = this;
    for (let i = 0; i < name.length; i++) {
      const given = text.charCodeAt(at + i);
      const wanted = name.charCodeAt(i);
      if (given !== wanted && (!isUpper(given) || (given | LOWER_CASE) !== wanted)) return false;
    }
    return true;
  }
}

/** Lengths share bits from 32 on. */
function bitOf(length: number): number {
  return 1 << length;
}

function isUpper(code: number): boolean {
  return code >= 65 && code <= 90;
}

function isName(bytes: Buffer, at: number, name: string): boolean {
  for (let i = 0; i < name.length; i++) {
    // The hyphen has the bit already, and what else becomes a hyphen (the byte 13) is no token.
    if (((bytes[at + i] as number) | LOWER_CASE) !== name.charCodeAt(i)) return false;
  }
  return true;
}

/** -1 when it is no plain number. */
function parseLength(bytes: Buffer, from: number, to: number): number {
  const end = digitsEnd(bytes, from);
  return pastBlanks(bytes, end, to) === to ? parseNumber(bytes, from, end) : -1;
}

function pastBlanks(bytes: Buffer, from: number, to: number): number {
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

/** The number that these digits write; -1 when there are none, or more than any length has. */
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

/** Not `trim`, which also takes the Latin-1 no-break space away. */
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
