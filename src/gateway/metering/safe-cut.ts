/**
 * Where a text can be cut without changing how many tokens its parts have. The tokenizer first parts a text into
 * words, each with the one space or mark before it, and never merges across words.
 */

const LF = 0x0a;
const SPACE = 0x20;
const SLASH = 0x2f;
const IDEOGRAPHS_FROM = 0x3040;

/**
 * The last place in (from, to] where a word surely begins; `to` itself (but not inside a pair of surrogates) when the
 * text has no such place. `to` lies before the end of the text.
 */
export function safeCut(text: string, from: number, to: number): number {
  for (let at = to; at > from; at--) if (startsWord(text, at)) return at;
  return isHighSurrogate(text.charCodeAt(to - 1)) && to - 1 > from ? to - 1 : to;
}

function startsWord(text: string, at: number): boolean {
  const before = text.charCodeAt(at - 1);
  const here = text.charCodeAt(at);
  if (here === SPACE) return !isSpace(before) && at + 1 < text.length && !isSpace(text.charCodeAt(at + 1));
  // A mark takes the line's end with it, and a slash after that.
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
