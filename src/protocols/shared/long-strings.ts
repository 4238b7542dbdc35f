/**
 * Parses an event of megabytes without its long strings: they are images or, of a hostile upstream, text. Decoding one
 * takes several milliseconds for each MiB, and readers only need to know where it is.
 */

import { decodeText } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";
import { parseJson } from "../../json/parse.ts";
import {
  ARRAY_CLOSE,
  ARRAY_OPEN,
  COLON,
  DEPTH_LIMIT,
  OBJECT_CLOSE,
  OBJECT_OPEN,
  QUOTE,
  skipSpace,
  stringEnd,
  valueEnd,
} from "../../json/walk.ts";

/** A shorter event is parsed as it is. */
const EVENT_BYTES_MIN = 1024 * 1024;
const LONG_STRING_BYTES_MIN = 64 * 1024;

/** A string that is not decoded: its content, as the event has it between the quotes. */
export class LongString implements Part {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;

  constructor(bytes: Uint8Array, start: number, end: number) {
    this.bytes = bytes;
    this.start = start;
    this.end = end;
  }
}

/** A string of an event. */
export type EventString = string | LongString;

/** Whether the value is a string with a content. */
export function isEventString(value: unknown): value is EventString {
  return value instanceof LongString || (typeof value === "string" && value !== "");
}

/** The content as JSON has it between the quotes. */
export function textContent(text: EventString): Part {
  if (text instanceof LongString) return text;
  const bytes = Buffer.from(JSON.stringify(text));
  return { bytes, start: 1, end: bytes.length - 1 };
}

export function isLongEvent(start: number, end: number): boolean {
  return end - start > EVENT_BYTES_MIN;
}

/**
 * Each long string of a long event is a `LongString` in the result; all else is as `JSON.parse` has it. Returns null if
 * the bytes are not JSON. The event must be within the bounds of events that are parsed.
 */
export function parseWithoutLongStrings(bytes: Uint8Array, start: number, end: number): unknown {
  if (!isLongEvent(start, end)) return parseJson(bytes, start, end);
  // What is cut at the long strings below has the structure of JSON: only the content of strings may be malformed.
  const from = skipSpace(bytes, start, end);
  const to = valueEnd(bytes, from, end, DEPTH_LIMIT);
  if (to < 0 || skipSpace(bytes, to, end) !== end) return null;
  try {
    return new LongEvent(bytes).parse(from, to);
  } catch {
    return null;
  }
}

/** Elements of an array or members of an object that follow each other. */
type Piece = unknown[] | Record<string, unknown>;

interface OpenContainer {
  readonly isArray: boolean;
  readonly start: number;
  /** Where the text begins that is not in `pieces`. */
  from: number;
  /** The name of the current member of an object, with its quotes. */
  nameStart: number;
  nameEnd: number;
  /** Null until there is a long string in the container. */
  pieces: Piece[] | null;
}

/**
 * Parses the text between the long strings. A container with a long string is put together of the pieces before,
 * between and after them, so that no value has to stand for one: whatever an upstream writes is only itself.
 */
class LongEvent {
  readonly #bytes: Uint8Array;
  readonly #open: OpenContainer[] = [];

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Throws if the content of a string is malformed. */
  parse(start: number, end: number): unknown {
    const bytes = this.#bytes;
    // The value is the only element of an array without brackets.
    const whole: OpenContainer = { ...openContainer(true, start), from: start, pieces: [] };
    this.#open.push(whole);
    for (let at = start; at < end; at++) {
      const c = bytes[at];
      if (c === QUOTE) at = this.#passString(at, end) - 1;
      else if (c === OBJECT_OPEN || c === ARRAY_OPEN) this.#open.push(openContainer(c === ARRAY_OPEN, at));
      else if (c === OBJECT_CLOSE || c === ARRAY_CLOSE) this.#close(at);
    }
    return (this.#finish(whole, end) as unknown[])[0];
  }

  /** Returns the end of the string. */
  #passString(start: number, end: number): number {
    const close = stringEnd(this.#bytes, start + 1, end, start);
    const container = this.#open.at(-1);
    if (close < 0 || container === undefined) throw new Error("the event was not scanned before");
    if (this.#bytes[skipSpace(this.#bytes, close, end)] === COLON) {
      container.nameStart = start;
      container.nameEnd = close;
    } else if (close - start > LONG_STRING_BYTES_MIN) {
      this.#parseUpTo(start);
      this.#add(container, new LongString(this.#bytes, start + 1, close - 1), close);
    }
    return close;
  }

  #close(at: number): void {
    const container = this.#open.pop();
    const outer = this.#open.at(-1);
    // Without a long string its text is parsed with the text around it.
    if (container?.pieces && outer) this.#add(outer, this.#finish(container, at), at + 1);
  }

  /** In all open containers, the elements and members before the value at `start`. */
  #parseUpTo(start: number): void {
    for (const [depth, container] of this.#open.entries()) {
      const value = this.#open[depth + 1]?.start ?? start;
      this.#parseText(container, container.isArray ? value : container.nameStart);
    }
  }

  /** A value that is not parsed with the text around it. */
  #add(container: OpenContainer, value: unknown, end: number): void {
    const { isArray, nameStart, nameEnd } = container;
    const name = isArray ? "" : String(JSON.parse(decodeText(this.#bytes, nameStart, nameEnd)));
    container.pieces?.push(isArray ? [value] : { [name]: value });
    container.from = end;
  }

  #parseText(container: OpenContainer, to: number): void {
    container.pieces ??= [];
    if (to <= container.from) return;
    const text = decodeText(this.#bytes, container.from, to).trim();
    container.from = to;
    // The commas before and after a piece, or between two long strings.
    const list = text.slice(text.startsWith(",") ? 1 : 0, text.endsWith(",") ? -1 : text.length);
    if (list !== "") container.pieces.push(JSON.parse(container.isArray ? `[${list}]` : `{${list}}`));
  }

  #finish(container: OpenContainer, end: number): Piece {
    this.#parseText(container, end);
    const pieces = container.pieces ?? [];
    // The last of the members with the same name counts, as in a text that is parsed whole.
    return container.isArray ? pieces.flat() : Object.fromEntries(pieces.flatMap(Object.entries));
  }
}

function openContainer(isArray: boolean, start: number): OpenContainer {
  return { isArray, start, from: start + 1, nameStart: 0, nameEnd: 0, pieces: null };
}
