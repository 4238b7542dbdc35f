/**
 * Views of a captured text in which a secret is plain: the text without JSON escapes, and the strings that a stream
 * splits over its events. Each character of a view has its place in the text, so that a match can be cut out there.
 */

/** A view: its text, and for each character the range of the original text that it stands for. */
interface TextView {
  readonly text: string;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
}

/** A range of the original text. */
export interface TextSpan {
  readonly start: number;
  readonly end: number;
}

/** JSON within a string within JSON: the arguments of a tool call in a response are the second level. */
const NESTED_ESCAPES_MAX = 4;
/** Members of a stream whose strings are joined. The dialects use fewer; an upstream may invent more. */
const JOINED_MEMBERS_MAX = 64;

/** All views of a text, the text itself first. A text without escapes has only this view. */
export function* openViews(text: string): Generator<TextView> {
  yield* decodeLevels(openPlainView(text));
  if (!isEventStream(text)) return;
  for (const joined of joinStrings(text)) yield* decodeLevels(joined);
}

/** A match in a view may be several ranges of the text: one in each event of a stream. */
export function mapSpan({ starts, ends }: TextView, { start, end }: TextSpan): TextSpan[] {
  const spans: TextSpan[] = [];
  let from = starts[start] ?? 0;
  for (let i = start; i < end; i++) {
    const next = starts[i + 1] ?? 0;
    const at = ends[i] ?? 0;
    if (i + 1 < end && next === at) continue;
    spans.push({ start: from, end: at });
    from = next;
  }
  return spans;
}

function* decodeLevels(view: TextView): Generator<TextView> {
  let decoded: TextView | null = view;
  for (let level = 0; decoded !== null && level <= NESTED_ESCAPES_MAX; level++) {
    yield decoded;
    decoded = decodeEscapes(decoded);
  }
}

function openPlainView(text: string): TextView {
  const starts = new Uint32Array(text.length);
  for (let i = 0; i < text.length; i++) starts[i] = i;
  return { text, starts, ends: starts.map((start) => start + 1) };
}

const BACKSLASH = 0x5c;
const LOWER_U = 0x75;
const QUOTE = 0x22;
const LINE_END = 0x0a;
/** The short escapes of JSON: the letter after the backslash, and its character. */
const SHORT_ESCAPES: ReadonlyMap<number, number> = new Map(
  Object.entries({
    '"': '"',
    "\\": "\\",
    "/": "/",
    b: "\b",
    f: "\f",
    n: "\n",
    r: "\r",
    t: "\t",
  }).map(([letter, character]) => [letter.charCodeAt(0), character.charCodeAt(0)]),
);

/** Decodes one level of JSON escapes. Null if there is none. Unknown escapes stay as they are. */
function decodeEscapes(view: TextView): TextView | null {
  const { text } = view;
  if (!text.includes("\\")) return null;
  const units = new Uint16Array(text.length);
  const starts = new Uint32Array(text.length);
  const ends = new Uint32Array(text.length);
  let length = 0;
  for (let i = 0; i < text.length; length++) {
    const chars = text.charCodeAt(i) === BACKSLASH ? measureEscape(text, i) : 1;
    units[length] = chars === 1 ? text.charCodeAt(i) : readEscape(text, i);
    starts[length] = view.starts[i] ?? 0;
    ends[length] = view.ends[i + chars - 1] ?? 0;
    i += chars;
  }
  if (length === text.length) return null;
  return {
    text: Buffer.from(units.buffer, 0, length * 2).toString("utf16le"),
    starts: starts.subarray(0, length),
    ends: ends.subarray(0, length),
  };
}

/** The characters of the escape at the backslash; 1 if it is none. */
function measureEscape(text: string, at: number): 1 | 2 | 6 {
  const letter = text.charCodeAt(at + 1);
  if (letter === LOWER_U) return /^[\da-f]{4}$/i.test(text.slice(at + 2, at + 6)) ? 6 : 1;
  return SHORT_ESCAPES.has(letter) ? 2 : 1;
}

function readEscape(text: string, at: number): number {
  const letter = text.charCodeAt(at + 1);
  return SHORT_ESCAPES.get(letter) ?? Number.parseInt(text.slice(at + 2, at + 6), 16);
}

// Streams.

/** Server-sent events. The messages of a WebSocket are captured as events too. */
function isEventStream(text: string): boolean {
  return /^(?:event|data):/m.test(text);
}

/** For each member name, all strings of the stream in their order: the deltas of a text are one text. */
function joinStrings(text: string): TextView[] {
  const members = new Map<string, TextSpan[]>();
  let name = "";
  for (const span of findStrings(text)) {
    if (isName(text, span.end)) {
      name = text.slice(span.start, span.end);
      continue;
    }
    const spans = members.get(name);
    if (spans !== undefined) spans.push(span);
    else if (members.size < JOINED_MEMBERS_MAX) members.set(name, [span]);
  }
  return [...members.values()].filter((spans) => spans.length > 1).map((spans) => joinSpans(text, spans));
}

/** The contents of all JSON strings, without their quotes. A line end ends a string: the text may begin within one. */
function* findStrings(text: string): Generator<TextSpan> {
  for (let start = text.indexOf('"') + 1; start > 0; ) {
    let end = start;
    let code = text.charCodeAt(end);
    while (end < text.length && code !== QUOTE && code !== LINE_END) {
      end += code === BACKSLASH ? 2 : 1;
      code = text.charCodeAt(end);
    }
    if (code === QUOTE) yield { start, end };
    start = text.indexOf('"', end + 1) + 1;
  }
}

function isName(text: string, closingQuote: number): boolean {
  return /^\s{0,8}:/.test(text.slice(closingQuote + 1, closingQuote + 10));
}

function joinSpans(text: string, spans: readonly TextSpan[]): TextView {
  const length = spans.reduce((sum, { start, end }) => sum + end - start, 0);
  const starts = new Uint32Array(length);
  let at = 0;
  for (const { start, end } of spans) for (let i = start; i < end; i++) starts[at++] = i;
  return {
    text: spans.map(({ start, end }) => text.slice(start, end)).join(""),
    starts,
    ends: starts.map((start) => start + 1),
  };
}
