/** The texts of the simulator: the same seed and question always produce the same text. */

const OPENINGS: readonly ((question: string) => string)[] = [
  (question) => `Hello! This is the built-in simulator, not a real model. You said: “${question}”.`,
  (question) =>
    `Good to hear from you. I am the built-in simulator, and your words arrived safely: “${question}”.`,
  (question) => `You asked: “${question}”. The built-in simulator answers, so that no real model had to.`,
  (question) => `“${question}” – well put. I am only the built-in simulator, but I read it with pleasure.`,
];

const SENTENCES = [
  "Nothing left your machine and nothing was paid for.",
  "A real model's answer would have travelled the same road, piece by piece.",
  "The same words always bring the same answer, so you can build tests on it.",
  "When you are ready, add a real account; your code need not change.",
  "Ask me something longer and the token count will grow with it.",
  "Turn on streaming and you will see this text arrive in pieces.",
] as const;

const FILLER = `${SENTENCES.join(" ")} `;
const QUESTION_CHARS_MAX = 160;
const PIECE_CHARS = 18;

export function computeHash(seed: number, text: string): number {
  return Bun.hash.xxHash32(text, seed);
}

export function respondTo(question: string, seed: number, variant: number): string {
  const short = shorten(question);
  if (short === "") {
    return `Hello! This is the built-in simulator, not a real model. ${SENTENCES[0]} ${SENTENCES[3]}`;
  }
  const hash = computeHash(seed + variant, question);
  const open = OPENINGS[hash % OPENINGS.length] ?? OPENINGS[0];
  const first = (hash >>> 4) % SENTENCES.length;
  const second = (first + 1 + ((hash >>> 8) % (SENTENCES.length - 1))) % SENTENCES.length;
  return `${open?.(short)} ${SENTENCES[first]} ${SENTENCES[second]}`;
}

export function outputAfterTool(toolOutput: string): string {
  return `This is the built-in simulator. The tool answered: “${shorten(toolOutput)}”. Thank you for running it; that is all I wanted to know.`;
}

export function reasoningAbout(question: string): string {
  const short = shorten(question);
  return short === ""
    ? "There is no question here, so a greeting will do."
    : `The question is “${short}”. A simulator need not know the answer: it repeats the question, says what it is, and stops there.`;
}

function shorten(text: string): string {
  const line = text
    .slice(0, 2 * QUESTION_CHARS_MAX)
    .replace(/\s+/g, " ")
    .trim();
  if (line.length <= QUESTION_CHARS_MAX) return line.toWellFormed();
  return `${line.slice(0, QUESTION_CHARS_MAX).toWellFormed().trimEnd()}…`;
}

/** Long texts are equal, so that a hundred open streams of 50 MB share one. */
const LONG_BYTES = 256 * 1024;
const LONG_TEXTS_MAX = 4;
const longTexts = new Map<number, string>();

function longText(bytes: number): string {
  const cached = longTexts.get(bytes);
  if (cached !== undefined) return cached;
  const text = FILLER.repeat(Math.ceil(bytes / FILLER.length)).slice(0, bytes);
  if (longTexts.size >= LONG_TEXTS_MAX) longTexts.clear();
  longTexts.set(bytes, text);
  return text;
}

/** Makes the text exactly `bytes` long in UTF-8, by cutting it or adding filler. */
export function sized(text: string, bytes: number): string {
  if (bytes > LONG_BYTES) return longText(bytes);
  const missing = bytes - Buffer.byteLength(text);
  if (missing >= 0) return text + ` ${FILLER.repeat(Math.ceil(missing / FILLER.length))}`.slice(0, missing);
  const cut = cutToBytes(text, bytes);
  return cut + ".".repeat(bytes - Buffer.byteLength(cut));
}

/** Returns at most `bytes` of UTF-8 without splitting a character. */
export function cutToBytes(text: string, bytes: number): string {
  if (bytes <= 0) return "";
  if (text.length * 3 <= bytes || Buffer.byteLength(text) <= bytes) return text;
  let end = Math.min(text.length, bytes);
  while (Buffer.byteLength(text.slice(0, end)) > bytes) {
    end -= Math.max(1, Math.ceil((Buffer.byteLength(text.slice(0, end)) - bytes) / 3));
  }
  return takePrefix(text, end);
}

/** Ensures at least one character for each of `events` deltas. */
export function longEnough(text: string, events: number): string {
  // Two characters per delta, because a surrogate pair must not be split.
  const charsMin = events * 2;
  return text.length >= charsMin ? text : sized(text, Math.max(charsMin, events * 8));
}

/** Splits the text in order and without loss: into `events` parts, or by a few words when that is null. */
export function* splitText(text: string, events: number | null): Generator<string> {
  if (events === null) {
    yield* splitByWords(text);
    return;
  }
  let from = 0;
  for (let i = 1; i <= events && from < text.length; i++) {
    let to = i === events ? text.length : Math.floor((text.length * i) / events);
    if (splitsPair(text, to)) to++;
    if (to > from) yield text.slice(from, to);
    from = to;
  }
}

function* splitByWords(text: string): Generator<string> {
  let from = 0;
  while (from < text.length) {
    const space = text.indexOf(" ", from + PIECE_CHARS);
    let to = space < 0 ? text.length : space;
    if (to - from > 4 * PIECE_CHARS) to = from + 4 * PIECE_CHARS;
    if (splitsPair(text, to)) to++;
    yield text.slice(from, to);
    from = to;
  }
}

/** Returns the first `chars` characters, one less if that would split a surrogate pair. */
export function takePrefix(text: string, chars: number): string {
  return text.slice(0, splitsPair(text, chars) ? chars - 1 : chars);
}

function splitsPair(text: string, at: number): boolean {
  const before = text.charCodeAt(at - 1);
  return at > 0 && at < text.length && before >= 0xd800 && before <= 0xdbff;
}
