/** Separates the prose of a source file (comments and texts) from its code, for the tests of the project's language. */

export interface Prose {
  /** The number of its first line, from 1. */
  readonly line: number;
  readonly text: string;
}

export const COMMENT = /\/\*[\s\S]*?\*\/|(?<!:)\/\/[^\n]*/g;
const COMMENT_OR_STRING =
  /\/\*[\s\S]*?\*\/|(?<!:)\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g;

/** A shorter string is a name or a value, not a sentence. */
const SENTENCE_WORDS_MIN = 4;

/** Comments, and strings that are long enough to be sentences. */
export function readProse(text: string): Prose[] {
  const prose: Prose[] = [];
  let line = 1;
  let countedTo = 0;
  for (const { 0: found, index } of text.matchAll(COMMENT_OR_STRING)) {
    if (!found.startsWith("/") && found.split(/\s+/).length < SENTENCE_WORDS_MIN) continue;
    line += text.slice(countedTo, index).split("\n").length - 1;
    countedTo = index;
    prose.push({ line, text: found.replaceAll(/\$\{[^}]*\}/g, "") });
  }
  return prose;
}

/** The text without comments and strings. */
export function readCode(text: string): string {
  return text.replaceAll(COMMENT_OR_STRING, "");
}
