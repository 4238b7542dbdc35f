/** The JSON grammar outside strings: each function finds the end of the value at an offset. */

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const COMMA = 0x2c;
export const COLON = 0x3a;
export const OBJECT_OPEN = 0x7b;
export const OBJECT_CLOSE = 0x7d;
export const ARRAY_OPEN = 0x5b;
export const ARRAY_CLOSE = 0x5d;
const MINUS = 0x2d;
const PLUS = 0x2b;
const DOT = 0x2e;
export const DIGIT_0 = 0x30;
export const DIGIT_9 = 0x39;
export const SPACE = 0x20;
export const LF = 0x0a;
export const END = -1;

/** A quote within this distance is found faster by a loop than by a call into native code. */
const NEAR_BYTES = 40;
export const DEPTH_LIMIT = 1024;

/** The kind of each open container. Shared by all scans: a scan never yields, so only one runs at a time. */
const openers = new Uint8Array(DEPTH_LIMIT + 1);

export const FAULTS = [
  { reason: "not_object", detail: "expected a JSON object" },
  { reason: "bom", detail: "a byte order mark is not allowed" },
  { reason: "syntax", detail: "expected a key in double quotes" },
  { reason: "syntax", detail: "expected ':' after the key" },
  { reason: "syntax", detail: "expected a value" },
  { reason: "syntax", detail: "malformed number" },
  { reason: "syntax", detail: "expected ',' or '}' after the value" },
  { reason: "syntax", detail: "expected ',' or ']' after the value" },
  { reason: "syntax", detail: "malformed escape in the key" },
  { reason: "depth", detail: "nested too deeply" },
  { reason: "unterminated", detail: "the string has no end" },
  { reason: "unterminated", detail: "the object has no end" },
  { reason: "trailing", detail: "expected nothing after the object" },
] as const;

export const NOT_OBJECT = 0;
export const BOM = 1;
export const KEY = 2;
const AFTER_KEY = 3;
const VALUE = 4;
const NUMBER = 5;
export const AFTER_MEMBER = 6;
const AFTER_ITEM = 7;
export const KEY_ESCAPE = 8;
export const TOO_DEEP = 9;
const STRING_END = 10;
const OBJECT_END = 11;
export const TRAILING = 12;

/** The functions below return the offset after the value, or a fault: code and offset in one negative number. */
export function fault(code: number, offset: number): number {
  return -1 - (offset * FAULTS.length + code);
}

/** At the end of the text the fault is that the text ends. */
export function isFault(code: number, offset: number, end: number): number {
  return fault(offset < end ? code : OBJECT_END, offset);
}

export function byteAt(bytes: Uint8Array, at: number, end: number): number {
  return at < end ? (bytes[at] ?? END) : END;
}

export function skipSpace(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end) {
    const c = bytes[at] ?? END;
    if (c > SPACE || (c !== SPACE && c !== LF && c !== 0x0d && c !== 0x09)) break;
    at++;
  }
  return at;
}

export function valueEnd(bytes: Uint8Array, at: number, end: number, depthMax: number): number {
  const c = byteAt(bytes, at, end);
  if (c === QUOTE) return stringEnd(bytes, at + 1, end, at);
  if (c === OBJECT_OPEN || c === ARRAY_OPEN) return containerEnd(bytes, at, end, depthMax);
  if (c === MINUS || (c >= DIGIT_0 && c <= DIGIT_9)) return numberEnd(bytes, at, end);
  return literalEnd(bytes, at, end);
}

/** The values of all containers that were walked so far. Shared by all scans, like `openers`. */
let walkedValues = 0;

/** Two calls, one before and one after a walk, give the number of values that it passed over: see `JsonField.values`. */
export function countWalkedValues(): number {
  return walkedValues;
}

/** No recursion: hostile nesting costs one byte of `openers` per level, up to `depthMax`. */
function containerEnd(bytes: Uint8Array, from: number, end: number, depthMax: number): number {
  let at = from;
  let depth = 1;
  let opener = END;
  let values = 0;
  for (;;) {
    values++;
    let c = byteAt(bytes, at, end);
    if (c === QUOTE) {
      at = stringEnd(bytes, at + 1, end, at);
    } else if (c === OBJECT_OPEN || c === ARRAY_OPEN) {
      if (depth >= depthMax) return fault(TOO_DEEP, at);
      opener = c;
      openers[++depth] = c;
      at++;
      c = byteAt(bytes, at, end);
      if (c <= SPACE) {
        at = skipSpace(bytes, at, end);
        c = byteAt(bytes, at, end);
      }
      // In ASCII each closing bracket is two after its opening one.
      if (c !== opener + 2) {
        if (opener === OBJECT_OPEN) at = keyAndColonEnd(bytes, at, end);
        if (at < 0) return at;
        continue;
      }
      at++;
      opener = openers[--depth] ?? END;
    } else if (c === MINUS || (c >= DIGIT_0 && c <= DIGIT_9)) {
      at = numberEnd(bytes, at, end);
    } else {
      at = literalEnd(bytes, at, end);
    }
    if (at < 0) return at;

    for (;;) {
      if (depth === 1) {
        walkedValues += values;
        return at;
      }
      c = byteAt(bytes, at, end);
      if (c <= SPACE) {
        at = skipSpace(bytes, at, end);
        c = byteAt(bytes, at, end);
      }
      if (c === COMMA) break;
      if (c !== opener + 2) return isFault(opener === OBJECT_OPEN ? AFTER_MEMBER : AFTER_ITEM, at, end);
      at++;
      opener = openers[--depth] ?? END;
    }
    at++;
    if (byteAt(bytes, at, end) <= SPACE) at = skipSpace(bytes, at, end);
    if (opener === OBJECT_OPEN) at = keyAndColonEnd(bytes, at, end);
    if (at < 0) return at;
  }
}

function keyAndColonEnd(bytes: Uint8Array, from: number, end: number): number {
  if (byteAt(bytes, from, end) !== QUOTE) return isFault(KEY, from, end);
  const at = stringEnd(bytes, from + 1, end, from);
  return at < 0 ? at : colonEnd(bytes, at, end);
}

/** Also skips the space after the colon, to the first byte of the value. */
export function colonEnd(bytes: Uint8Array, from: number, end: number): number {
  let at = byteAt(bytes, from, end) <= SPACE ? skipSpace(bytes, from, end) : from;
  if (byteAt(bytes, at, end) !== COLON) return isFault(AFTER_KEY, at, end);
  at++;
  return byteAt(bytes, at, end) <= SPACE ? skipSpace(bytes, at, end) : at;
}

/** `from` is inside the string that opened at `quote`, and not in the middle of an escape. */
export function stringEnd(bytes: Uint8Array, from: number, end: number, quote: number): number {
  let at = from;
  const limit = Math.min(end, at + NEAR_BYTES);
  while (at < limit) {
    const c = bytes[at];
    if (c === QUOTE) return at + 1;
    // A branch instead of a computed step: the next load must not wait for this comparison.
    if (c === BACKSLASH) {
      at += 2;
      continue;
    }
    at++;
  }
  return longStringEnd(bytes, at, end, quote);
}

/** Native search from quote to quote, and byte by byte while quotes are close to each other, as in code. */
function longStringEnd(bytes: Uint8Array, from: number, end: number, quote: number): number {
  let at = from;
  while (at < end) {
    const close = bytes.indexOf(QUOTE, at);
    if (close < 0 || close >= end) break;
    // Each run of backslashes is counted once, by the quote directly after it: linear time for any input.
    let escapes = close;
    while (escapes > at && bytes[escapes - 1] === BACKSLASH) escapes--;
    let limit = close - at < NEAR_BYTES ? Math.min(end, close + NEAR_BYTES) : 0;
    at = close + 1;
    if (((close - escapes) & 1) === 0) return at;
    while (at < limit) {
      const c = bytes[at];
      if (c === QUOTE) return at + 1;
      if (c === BACKSLASH) {
        at += 2;
        if (bytes[at - 1] === QUOTE) limit = Math.min(end, at + NEAR_BYTES);
        continue;
      }
      at++;
    }
  }
  return fault(STRING_END, quote);
}

function literalEnd(bytes: Uint8Array, at: number, end: number): number {
  const c = byteAt(bytes, at, end);
  const length = c === 0x66 ? 5 : 4;
  if (at + length <= end) {
    const second = bytes[at + 1];
    const third = bytes[at + 2];
    const fourth = bytes[at + 3];
    // true, null, false
    if (c === 0x74 && second === 0x72 && third === 0x75 && fourth === 0x65) return at + 4;
    if (c === 0x6e && second === 0x75 && third === 0x6c && fourth === 0x6c) return at + 4;
    if (c === 0x66 && second === 0x61 && third === 0x6c && fourth === 0x73 && bytes[at + 4] === 0x65) {
      return at + 5;
    }
  }
  return isFault(VALUE, at, end);
}

function numberEnd(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  let c = bytes[at] ?? END;
  if (c === MINUS) c = byteAt(bytes, ++at, end);
  if (c === DIGIT_0) at++;
  else at = digitsEnd(bytes, at, end);
  if (at < 0) return at;
  c = byteAt(bytes, at, end);
  if (c === DOT) {
    at = digitsEnd(bytes, at + 1, end);
    if (at < 0) return at;
    c = byteAt(bytes, at, end);
  }
  if (c === 0x65 || c === 0x45) {
    const sign = byteAt(bytes, at + 1, end);
    at = digitsEnd(bytes, sign === PLUS || sign === MINUS ? at + 2 : at + 1, end);
  }
  return at;
}

/** Requires at least one digit. */
function digitsEnd(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end) {
    const c = bytes[at] ?? END;
    if (c < DIGIT_0 || c > DIGIT_9) break;
    at++;
  }
  return at > from ? at : isFault(NUMBER, at, end);
}
