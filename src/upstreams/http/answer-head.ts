/**
 * Status line and headers of an answer. Strict: where two readers could differ about where an answer ends, it is
 * refused. One pass over the bytes checks every character and reads the three headers that frame the body; any
 * other header is looked up in the text when somebody asks.
 */

export interface AnswerHeaders {
  /** The name in lower case. A header sent more than once is joined with ", ". */
  get(name: string): string | null;
  has(name: string): boolean;
}

/** Framing of a body whose length is not known beforehand; any other framing is the length itself. */
export const CHUNKED = -1;
export const UNTIL_CLOSE = -2;

const TAB = 9;
const LF = 10;
const CR = 13;
const SPACE = 32;
const COLON = 58;
const TOKEN = 1;
const VALUE = 2;
const LENGTH_DIGITS_MAX = 15;

/** Of each byte: may it stand in a header's name, in a value. */
export const BYTE_CLASS = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  const isToken = /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(byte));
  const isValue = byte === TAB || (byte >= SPACE && byte !== 127);
  BYTE_CLASS[byte] = (isToken ? TOKEN : 0) | (isValue ? VALUE : 0);
}

/** A class, so that each answer costs one object and no closures. */
export class AnswerHead implements AnswerHeaders {
  readonly status: number;
  readonly framing: number;
  readonly keepsAlive: boolean;
  /** Where the body begins in the bytes that were parsed. */
  readonly bodyAt: number;
  private readonly text: string;
  private lower: string | null = null;

  /** The text is every line of the head, each with its CR LF. */
  constructor(status: number, framing: number, keepsAlive: boolean, bodyAt: number, text: string) {
    this.status = status;
    this.framing = framing;
    this.keepsAlive = keepsAlive;
    this.bodyAt = bodyAt;
    this.text = text;
  }

  get(name: string): string | null {
    // In Latin-1 no letter changes its length with its case: offsets are the same in both.
    this.lower ??= this.text.toLowerCase();
    const wanted = lineStart(name);
    let found: string | null = null;
    let at = this.lower.indexOf(wanted);
    while (at >= 0) {
      const from = at + wanted.length;
      const to = this.text.indexOf("\r\n", from);
      const value = trimmed(this.text, from, to);
      found = found === null ? value : `${found}, ${value}`;
      at = this.lower.indexOf(wanted, to);
    }
    return found;
  }

  has(name: string): boolean {
    this.lower ??= this.text.toLowerCase();
    return this.lower.includes(lineStart(name));
  }
}

/** Only names that stand in our own code are asked for, and all of them with every answer. */
const lineStarts = new Map<string, string>();

function lineStart(name: string): string {
  let start = lineStarts.get(name);
  if (start === undefined) {
    start = `\r\n${name}:`;
    lineStarts.set(name, start);
  }
  return start;
}

/** Null when the head goes on after these bytes; what is wrong with it when it can be no head of an answer. */
export function parseHead(bytes: Buffer, from: number): AnswerHead | string | null {
  const end = bytes.length;
  const status = parseStatus(bytes, from);
  if (typeof status !== "number") return status;
  let at = from + 12;
  let length = -1;
  let isChunked = false;
  let keepsAlive = bytes[from + 7] === 49;
  let lineFrom = at;
  let nameTo = at;
  for (;;) {
    // The rest of a line: of the status line at first, then of each header's.
    while (at < end && ((BYTE_CLASS[bytes[at] as number] as number) & VALUE) !== 0) at++;
    if (at < end && bytes[at] !== CR) return "a control character in the head";
    if (at + 1 >= end) return null;
    if (bytes[at + 1] !== LF) return "a bare CR in the head";
    switch (nameTo - lineFrom) {
      case 10:
        if (isName(bytes, lineFrom, "connection") && namesClose(bytes, nameTo + 1, at)) keepsAlive = false;
        break;
      case 14: {
        if (!isName(bytes, lineFrom, "content-length")) break;
        const given = parseLength(bytes, nameTo + 1, at);
        if (given < 0 || (length >= 0 && given !== length)) return "an impossible Content-Length";
        length = given;
        break;
      }
      case 17:
        if (!isName(bytes, lineFrom, "transfer-encoding")) break;
        if (isChunked || fieldValue(bytes, nameTo + 1, at).toLowerCase() !== "chunked") {
          return "an unknown Transfer-Encoding";
        }
        isChunked = true;
        break;
    }
    at += 2;
    if (at >= end) return null;
    if (bytes[at] === CR) break;
    lineFrom = at;
    while (at < end && ((BYTE_CLASS[bytes[at] as number] as number) & TOKEN) !== 0) at++;
    if (at >= end) return null;
    // A folded line, a space before the colon and a line without one all end here.
    if (at === lineFrom || bytes[at] !== COLON) return "a header line without a proper name";
    nameTo = at++;
  }
  if (at + 1 >= end) return null;
  if (bytes[at + 1] !== LF) return "a bare CR in the head";
  const isBare = status < 200 || status === 204 || status === 304;
  const framing = isBare ? 0 : isChunked ? CHUNKED : length >= 0 ? length : UNTIL_CLOSE;
  // With both, somebody on the way may have believed the other: nothing after this answer can be trusted.
  const isUnclear = isChunked && length >= 0;
  const text = bytes.toString("latin1", from, at);
  return new AnswerHead(status, framing, keepsAlive && !isUnclear && framing !== UNTIL_CLOSE, at + 2, text);
}

const PREFIX = "HTTP/1.";

function parseStatus(bytes: Buffer, from: number): number | string | null {
  const length = bytes.length - from;
  for (let i = 0; i < 7 && i < length; i++) {
    if (bytes[from + i] !== PREFIX.charCodeAt(i)) return "not an HTTP/1 answer";
  }
  if (length < 13) return null;
  const minor = bytes[from + 7];
  if ((minor !== 48 && minor !== 49) || bytes[from + 8] !== SPACE) return "not an HTTP/1 answer";
  let status = 0;
  for (let i = 9; i < 12; i++) {
    const digit = (bytes[from + i] as number) - 48;
    if (digit < 0 || digit > 9) return "no status in the status line";
    status = status * 10 + digit;
  }
  const after = bytes[from + 12];
  if (after !== SPACE && after !== CR) return "no status in the status line";
  return status < 100 || status > 599 ? "an impossible status" : status;
}

function isName(bytes: Buffer, at: number, name: string): boolean {
  for (let i = 0; i < name.length; i++) {
    // Setting the bit makes letters lower case; the hyphen has it already, and what else becomes a hyphen
    // (the byte 13) is no token.
    if (((bytes[at + i] as number) | 32) !== name.charCodeAt(i)) return false;
  }
  return true;
}

/** -1 when it is no plain number. */
function parseLength(bytes: Buffer, from: number, to: number): number {
  let at = from;
  let end = to;
  while (at < end && isBlank(bytes[at] as number)) at++;
  while (end > at && isBlank(bytes[end - 1] as number)) end--;
  if (at === end || end - at > LENGTH_DIGITS_MAX) return -1;
  let length = 0;
  for (; at < end; at++) {
    const digit = (bytes[at] as number) - 48;
    if (digit < 0 || digit > 9) return -1;
    length = length * 10 + digit;
  }
  return length;
}

function namesClose(bytes: Buffer, from: number, to: number): boolean {
  const value = fieldValue(bytes, from, to).toLowerCase();
  if (value === "keep-alive") return false;
  return value.split(",").some((option) => trimmed(option, 0, option.length) === "close");
}

function fieldValue(bytes: Buffer, from: number, to: number): string {
  return trimmed(bytes.toString("latin1", from, to), 0, to - from);
}

/** Not `trim`, which also takes the Latin-1 no-break space away. */
function trimmed(text: string, from: number, to: number): string {
  let at = from;
  let end = to;
  while (at < end && isBlank(text.charCodeAt(at))) at++;
  while (end > at && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(at, end);
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB;
}
