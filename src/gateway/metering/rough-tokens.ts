/**
 * Estimates the tokens of a text from the classes of its bytes, for figures that are needed at once and need not be
 * exact. Fitted to o200k_base on the test corpus; within 20 % for most texts.
 */

import { BACKSLASH } from "../../json/walk.ts";

/** Tokens per character, by its class. */
const WORD_START = 0.95;
const WORD_REST = 0.055;
const DIGIT = 0.4;
const MARK = 0.6;
const LINE_END = 0.42;
const IDEOGRAPH = 0.7;
const OTHER_LETTER = 0.33;
const PICTOGRAPH = 2.2;

/** `bytes[start, end)` is the content of a JSON string. */
export function roughTokens(bytes: Uint8Array, start: number, end: number): number {
  let tokens = 0;
  let inWord = false;
  for (let at = start; at < end; at++) {
    const c = bytes[at] ?? 0;
    const isLetter = (c >= 0x61 && c <= 0x7a) || (c >= 0x41 && c <= 0x5a);
    if (isLetter) tokens += inWord ? WORD_REST : WORD_START;
    else if (c === BACKSLASH) {
      const letter = bytes[++at];
      if (letter === 0x75) {
        at += 4;
        tokens += IDEOGRAPH;
      } else tokens += letter === 0x6e ? LINE_END : MARK;
    } else if (c > 0x20 && c < 0x80) tokens += c >= 0x30 && c <= 0x39 ? DIGIT : MARK;
    else if (c >= 0xf0) tokens += PICTOGRAPH;
    else if (c >= 0xe3) tokens += IDEOGRAPH;
    else if (c >= 0xc0) tokens += OTHER_LETTER;
    inWord = isLetter;
  }
  return tokens;
}
