/**
 * Writes spans into the bytes of a message, in the JSON form of OTLP. It copies prepared bytes and adds what differs from
 * span to span: no span is an object or a text of its own, which would take longer, for every request.
 */

import { ATTRIBUTE, type AttributeName } from "./attribute-names.ts";
import { BEGINNING, jsonText, toBytes, VALUE_CHARS_MAX } from "./span-text.ts";

export interface SpanStart {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | null;
  /** Bytes of `SpanHead`. */
  readonly head: Uint8Array;
  readonly startMs: number;
  readonly endMs: number;
  readonly requestId: string;
}

/** What writes the spans of a request, separated by commas. */
export interface SpanSource {
  writeSpans(writer: SpanWriter): void;
}

export class SpanWriter {
  readonly #bytes: Buffer;
  #length = 0;
  #isFull = false;
  #second = 0;
  #secondDigits: Uint8Array = NO_MILLISECONDS;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get length(): number {
    return this.#length;
  }

  /** Whether something did not fit. What was written since is incomplete: continue with `rewind`. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** Removes what was written after a length. */
  rewind(length: number): void {
    this.#length = length;
    this.#isFull = false;
  }

  written(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  piece(piece: Uint8Array): void {
    if (!this.#hasRoom(piece.length)) return;
    this.#bytes.set(piece, this.#length);
    this.#length += piece.length;
  }

  /** Separates spans. */
  comma(): void {
    this.piece(COMMA);
  }

  /** The beginning of a span, up to and including its first attribute: the request id. */
  start(span: SpanStart): void {
    this.piece(TRACE_ID);
    this.#ascii(span.traceId);
    this.piece(SPAN_ID);
    this.#ascii(span.spanId);
    if (span.parentSpanId !== null) {
      this.piece(PARENT_SPAN_ID);
      this.#ascii(span.parentSpanId);
    }
    this.piece(span.head);
    this.#time(span.startMs);
    this.piece(END_TIME);
    this.#time(span.endMs);
    this.piece(ATTRIBUTES);
    this.#ascii(span.requestId);
    this.piece(END_OF_QUOTED);
  }

  end(isError: boolean): void {
    this.piece(isError ? ENDING_ERROR : ENDING);
  }

  string(name: AttributeName, value: string): void {
    this.piece(STRING_BEGINNING[name]);
    const start = this.#length;
    const isPlain = value.length <= VALUE_CHARS_MAX && this.#quoted(value);
    if (isPlain) return;
    this.#length = start;
    this.#ascii(jsonText(value));
    this.piece(END_OF_NUMBER);
  }

  /** Callers bound the number of values. */
  strings(name: AttributeName, values: readonly string[]): void {
    this.piece(ARRAY_BEGINNING[name]);
    const items = values.map((value) => `{"stringValue":${jsonText(value)}}`);
    this.#ascii(`{"values":[${items.join(",")}]}`);
    this.piece(END_OF_NUMBER);
  }

  int(name: AttributeName, value: number): void {
    this.piece(INT_BEGINNING[name]);
    this.#ascii(String(value));
    this.piece(END_OF_QUOTED);
  }

  /** A time in milliseconds as an attribute in seconds. */
  seconds(name: AttributeName, ms: number): void {
    this.piece(DOUBLE_BEGINNING[name]);
    this.#ascii(String(ms / 1_000));
    this.piece(END_OF_NUMBER);
  }

  #hasRoom(count: number): boolean {
    if (this.#length + count <= this.#bytes.length) return true;
    this.#isFull = true;
    return false;
  }

  #ascii(text: string): void {
    if (this.#hasRoom(text.length)) this.#length += this.#bytes.write(text, this.#length, "latin1");
  }

  /** Writes a value and the end of its attribute. Returns false if a character must be escaped. */
  #quoted(value: string): boolean {
    const count = value.length;
    if (!this.#hasRoom(count + 2)) return true;
    const bytes = this.#bytes;
    let at = this.#length;
    bytes[at++] = QUOTE;
    for (let i = 0; i < count; i++) {
      const code = value.charCodeAt(i);
      if (code < 0x20 || code > 0x7e || code === QUOTE || code === BACKSLASH) return false;
      bytes[at++] = code;
    }
    this.#length = at;
    this.piece(END_OF_QUOTED);
    return true;
  }

  /** A time in nanoseconds. Times of spans lie close together, so the digits of a second are kept. */
  #time(ms: number): void {
    const second = Math.trunc(ms / 1_000);
    if (second !== this.#second) {
      this.#second = second;
      this.#secondDigits = toBytes(String(second));
    }
    this.piece(this.#secondDigits);
    this.piece(MILLISECONDS[ms - second * 1_000] ?? NO_MILLISECONDS);
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const STATUS_ERROR = 2;

/** The last nine digits of a time, for each millisecond of a second. */
const NO_MILLISECONDS = toBytes("000000000");
const MILLISECONDS = Array.from({ length: 1_000 }, (_, ms) =>
  toBytes(`${String(ms).padStart(3, "0")}000000`),
);

const COMMA = toBytes(",");
const TRACE_ID = toBytes('{"traceId":"');
const SPAN_ID = toBytes('","spanId":"');
const PARENT_SPAN_ID = toBytes('","parentSpanId":"');
const END_TIME = toBytes('","endTimeUnixNano":"');
/** The request id is the first attribute of every span, without the comma of the others. */
const ATTRIBUTES = toBytes(`","attributes":[${BEGINNING.string.requestId.slice(1)}"`);
const END_OF_QUOTED = toBytes('"}}');
const END_OF_NUMBER = toBytes("}}");
const ENDING = toBytes("]}");
const ENDING_ERROR = toBytes(`],"status":{"code":${STATUS_ERROR}}}`);

function prepare(
  beginnings: Readonly<Record<AttributeName, string>>,
  quote = "",
): Readonly<Record<AttributeName, Uint8Array>> {
  const names = Object.keys(ATTRIBUTE) as readonly AttributeName[];
  const entries = names.map((name) => [name, toBytes(beginnings[name] + quote)] as const);
  return Object.fromEntries(entries) as Record<AttributeName, Uint8Array>;
}

const STRING_BEGINNING = prepare(BEGINNING.string);
const ARRAY_BEGINNING = prepare(BEGINNING.array);
const INT_BEGINNING = prepare(BEGINNING.int, '"');
const DOUBLE_BEGINNING = prepare(BEGINNING.double);
