/**
 * Finds where a text can be cut without changing the token count of its parts. The tokenizer first splits a text into
 * words, each with one preceding space or punctuation mark, and never merges across words.
 */

const LF = 0x0a;
const SPACE = 0x20;
const SLASH = 0x2f;
const IDEOGRAPHS_FROM = 0x3040;

/**
 * Returns the last position in (from, to] where a word certainly begins. If there is none, returns `to`, but never
 * inside a surrogate pair. `to` is before the end of the text.
 */
export function safeCut(text: string, from: number, to: number): number {
  for (let at = to; at > from; at--) if (startsWord(text, at)) return at;
  return isHighSurrogate(text.charCodeAt(to - 1)) && to - 1 > from ? to - 1 : to;
}

function startsWord(text: string, at: number): boolean {
  const before = text.charCodeAt(at - 1);
  const here = text.charCodeAt(at);
  if (here === SPACE) return !isSpace(before) && at + 1 < text.length && !isSpace(text.charCodeAt(at + 1));
  // A punctuation mark includes a following line break, and a slash after it.
  if (before === LF) return !isSpace(here) && here !== SLASH;
  return (
    isIdeographicMark(here) &&
    isIdeograph(before) &&
    at + 1 < text.length &&
    isIdeograph(text.charCodeAt(at + 1))
  );
}

function isSpace(code: number): boolean {
  return code === SPACE || (code >= 0x09 && code <= 0x0d) || code === 0xa0 || code === 0x3000;
}

/** 、。《》「」 and the full-width ，！：；？ */
function isIdeographicMark(code: number): boolean {
  return (
    (code >= 0x3001 && code <= 0x3003) ||
    (code >= 0x3008 && code <= 0x3011) ||
    code === 0xff0c ||
    code === 0xff01 ||
    code === 0xff1a ||
    code === 0xff1b ||
    code === 0xff1f
  );
}

function isIdeograph(code: number): boolean {
  return code >= IDEOGRAPHS_FROM && code <= 0xd7a3;
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
