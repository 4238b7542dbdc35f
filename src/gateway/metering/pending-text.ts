/** A growing text whose tokens are not counted yet, as the contents of JSON strings, concatenated. */

import { decodeText } from "../../base/bytes.ts";
import { BACKSLASH } from "../../json/walk.ts";
import { roughTokens } from "./rough-tokens.ts";
import { safeCut } from "./safe-cut.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** Separates unrelated texts. A raw line feed cannot occur inside an event. */
export const TEXT_BREAK_BYTES = Uint8Array.of(0x0a);

/** Stays pending when the rest is counted, because the last word may continue. */
const TAIL_CHARS = 256;
const INITIAL_BYTES = 512;
/** Longer pieces are copied faster by `set` than byte by byte. */
const LONG_PIECE_BYTES = 64;
const LETTER_U = 0x75;
const UNICODE_ESCAPE_BYTES = 6;
const SHORT_ESCAPE_BYTES = 2;

export class PendingText {
  #bytes = new Uint8Array(INITIAL_BYTES);
  #length = 0;
  /** The part up to here is included in `#estimatedTokens`. */
  #estimatedTo = 0;
  #estimatedTokens = 0;

  get length(): number {
    return this.#length;
  }

  append(bytes: Uint8Array, start: number, end: number): void {
    const oldLength = this.#length;
    const length = oldLength + end - start;
    if (length > this.#bytes.length) this.#growTo(2 * length);
    const target = this.#bytes;
    if (end - start > LONG_PIECE_BYTES) target.set(bytes.subarray(start, end), oldLength);
    else for (let from = start, to = oldLength; from < end; ) target[to++] = bytes[from++] ?? 0;
    this.#length = length;
  }

  #growTo(capacity: number): void {
    const grown = new Uint8Array(capacity);
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }

  /** Estimates the tokens from the characters. Each byte is read once, however often this is called. */
  estimateTokens(): number {
    this.#estimatedTokens += roughTokens(this.#bytes, this.#estimatedTo, this.#length);
    this.#estimatedTo = this.#length;
    return this.#estimatedTokens;
  }

  countTokens(tokenizer: Tokenizer): number {
    return countTexts(decodeTexts(this.#bytes, this.#length), tokenizer);
  }

  /** Counts at most `bytesMax` from the start, without the last words of that part, which stay pending. */
  takeCounted(bytesMax: number, tokenizer: Tokenizer): number {
    const end = this.#length <= bytesMax ? this.#length : lastCharacterEnd(this.#bytes, bytesMax);
    const texts = decodeTexts(this.#bytes, end);
    const last = texts.pop() ?? "";
    const cut =
      last.length <= TAIL_CHARS
        ? 0
        : safeCut(last, Math.max(0, last.length - 2 * TAIL_CHARS), last.length - TAIL_CHARS);
    texts.push(last.slice(0, cut));
    this.#replaceStart(end, last.slice(cut));
    return countTexts(texts, tokenizer);
  }

  /** Moves the whole text to the end of `other`, separated from the texts beside it. */
  moveTo(other: PendingText): void {
    other.append(TEXT_BREAK_BYTES, 0, 1);
    other.append(this.#bytes, 0, this.#length);
    other.append(TEXT_BREAK_BYTES, 0, 1);
    this.#length = 0;
  }

  #replaceStart(end: number, text: string): void {
    const escaped = Buffer.from(JSON.stringify(text).slice(1, -1));
    const length = escaped.length + this.#length - end;
    if (length > this.#bytes.length) this.#growTo(length);
    this.#bytes.copyWithin(escaped.length, end, this.#length);
    this.#bytes.set(escaped);
    this.#length = length;
    this.#estimatedTo = 0;
    this.#estimatedTokens = 0;
  }
}

/** The last position up to `to` that is neither inside a character nor inside an escape sequence. */
function lastCharacterEnd(bytes: Uint8Array, to: number): number {
  let end = 0;
  for (let at = 0; at <= to; ) {
    const byte = bytes[at] ?? 0;
    if ((byte & 0xc0) !== 0x80) end = at;
    if (byte !== BACKSLASH) at++;
    else at += bytes[at + 1] === LETTER_U ? UNICODE_ESCAPE_BYTES : SHORT_ESCAPE_BYTES;
  }
  return end;
}

function decodeTexts(bytes: Uint8Array, end: number): string[] {
  return decodeText(bytes, 0, end).split("\n").map(unescapeText);
}

function countTexts(texts: readonly string[], tokenizer: Tokenizer): number {
  return texts.reduce((sum, text) => sum + tokenizer.count(text), 0);
}

function unescapeText(inside: string): string {
  if (!inside.includes("\\")) return inside;
  try {
    return String(JSON.parse(`"${inside}"`));
  } catch {
    // An invalid escape is the upstream's error and changes the count by only a few tokens.
    return inside;
  }
}
