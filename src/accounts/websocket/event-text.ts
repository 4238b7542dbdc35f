/**
 * Converts the messages of an upstream's WebSocket to the event stream that the upstream would send over HTTP. Each
 * message is the data of one event and contains its type.
 */

import { decodeLatin1, NO_BYTES, writeBytes } from "../../base/bytes.ts";
import { Cache } from "../../base/cache.ts";
import { type Part, wholeBytesPart } from "../../base/parts.ts";
import { JSON_DEPTH_MAX } from "../../count-limits.ts";
import { type ObjectScan, type ScanFailure, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { isPrivateEvent } from "../../protocols/responses/private-event.ts";
import { findEventFault, PARSED_EVENT } from "../../protocols/shared/event-bounds.ts";
import { isEventName } from "../../protocols/shared/stream.ts";

/**
 * - `created`: forwarded, the first event of its response
 * - `event`: forwarded
 * - `terminal`: forwarded, the last event of its response
 * - `error`: replaces the response or the rest of it
 * - `private`: only for the gateway, for example the limits of the account
 */
export type UpstreamMessageKind = "created" | "event" | "terminal" | "error" | "private";

const EVENT = wantedFields(["type"]);

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const BLANK_LINE_BYTES = 2;
const utf8 = new TextEncoder();
const BEFORE_TYPE = utf8.encode('{"type":"');

const TERMINAL: ReadonlySet<string> = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
  "response.cancelled",
]);
/** Bytes that are allowed in a type: letters, digits, dot, hyphen and underscore. */
const NAME_BYTE = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  NAME_BYTE[byte] = /[\w.-]/.test(String.fromCharCode(byte)) ? 1 : 0;
}

/** The start of all messages of one type, and the event lines that precede them. */
interface Opening {
  readonly kind: UpstreamMessageKind;
  /** `{"type":"response.output_text.delta"`. */
  readonly json: Uint8Array;
  /** `event: response.output_text.delta` and the start of the next line, `data: `. */
  readonly lines: Uint8Array;
}

/** Types are few and short and occur in every response. */
const openingsByType = new Cache<string, Opening>({ name: "event openings by type", entriesMax: 256 });
/** No type is longer. A longer one would be decoded, and repeated in the event line. */
const TYPE_BYTES_MAX = 64;

function lookUpOpening(type: string): Opening {
  return openingsByType.getOrCreate(type, buildOpening);
}

function buildOpening(type: string): Opening {
  return {
    kind: classifyType(type),
    json: utf8.encode(`{"type":"${type}"`),
    lines: eventLines(type),
  };
}

/** The lines before the JSON of an event, and the start of its own line. */
function eventLines(type: string | null): Uint8Array {
  return utf8.encode(type === null ? "data: " : `event: ${type}\ndata: `);
}

/** One event: these lines, then a range of an array, then a blank line. */
interface EventPiece {
  readonly lines: Uint8Array;
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
}

/** Collects the events of one read, to pass them on in one piece. A class: it lives as long as a response. */
export class EventText {
  #pieces: EventPiece[] = [];
  #length = 0;
  /** Most events have the type of the event before, which then needs no lookup. */
  #last: Opening | null = null;
  readonly #lineEnds = new LineEnds();

  add(bytes: Uint8Array, start: number, end: number): UpstreamMessageKind {
    if (this.#lineEnds.isWithin(bytes, start, end))
      return this.#addUnusual(withoutLineBreaks(bytes, start, end));
    if (this.#last === null || !startsWith(bytes, start, this.#last.json)) {
      const nameEnd = plainNameEnd(bytes, start, end);
      if (nameEnd < 0) return this.#addUnusual({ bytes, start, end });
      this.#last = lookUpOpening(decodeLatin1(bytes, start + BEFORE_TYPE.length, nameEnd));
    }
    const { kind, lines } = this.#last;
    if (kind !== "error" && kind !== "private") this.#append(lines, bytes, start, end);
    return kind;
  }

  /** Discards what was added since the last `take`. */
  clear(): void {
    this.#pieces = [];
    this.#length = 0;
  }

  /** Returns null when there are no events. */
  take(): Uint8Array | null {
    const pieces = this.#pieces;
    this.#lineEnds.clear();
    if (pieces.length === 0) return null;
    const text = Buffer.allocUnsafe(this.#length);
    let to = 0;
    for (const { lines, bytes, start, end } of pieces) {
      to = writeBytes(text, to, lines);
      to = writeBytes(text, to, bytes, start, end);
      text[to++] = LF;
      text[to++] = LF;
    }
    this.clear();
    return text;
  }

  /** Handles a message whose type is not the first field, or whose JSON contained line breaks. */
  #addUnusual(message: Part): UpstreamMessageKind {
    const { bytes, start, end } = message;
    // Above the bounds, searching the type would hold the event loop: the reader of the stream then decides.
    const isBounded = findEventFault(message, PARSED_EVENT) === null;
    const type = isBounded ? readType(bytes, scanEvent(bytes, start, end)) : null;
    const kind = classifyType(type);
    if (kind === "error" || kind === "private") return kind;
    this.#append(eventLines(type !== null && isEventName(type) ? type : null), bytes, start, end);
    return kind;
  }

  #append(lines: Uint8Array, bytes: Uint8Array, start: number, end: number): void {
    this.#pieces.push({ lines, bytes, start, end });
    this.#length += lines.length + end - start + BLANK_LINE_BYTES;
  }
}

/** Returns the end of the type's name for a message that starts with it; -1 for any other. */
function plainNameEnd(bytes: Uint8Array, start: number, end: number): number {
  if (!startsWith(bytes, start, BEFORE_TYPE)) return -1;
  let at = start + BEFORE_TYPE.length;
  const last = Math.min(end - 1, at + TYPE_BYTES_MAX);
  while (at < last && NAME_BYTE[bytes[at] as number] === 1) at++;
  return bytes[at] === QUOTE ? at : -1;
}

/** Compares byte by byte: for so few bytes this is faster than a call of the runtime. */
function startsWith(bytes: Uint8Array, at: number, expected: Uint8Array): boolean {
  for (let i = 0; i < expected.length; i++) if (bytes[at + i] !== expected[i]) return false;
  return true;
}

/** The position of the next line break: a read with many messages is searched once, not once for each. */
class LineEnds {
  #bytes: Uint8Array = NO_BYTES;
  #lf = 0;
  #cr = 0;

  /**
   * Must be called for the messages of a read in order. A message of several frames has an array of its own; the
   * positions in the read are kept meanwhile.
   */
  isWithin(bytes: Uint8Array, start: number, end: number): boolean {
    if (start === 0 && end === bytes.length) return bytes.includes(LF) || bytes.includes(CR);
    const isNew = bytes !== this.#bytes;
    if (isNew || this.#lf < start) this.#lf = findNext(bytes, LF, start);
    if (isNew || this.#cr < start) this.#cr = findNext(bytes, CR, start);
    this.#bytes = bytes;
    return this.#lf < end || this.#cr < end;
  }

  /** The read is consumed. Releases its bytes. */
  clear(): void {
    this.#bytes = NO_BYTES;
  }
}

function findNext(bytes: Uint8Array, byte: number, from: number): number {
  const at = bytes.indexOf(byte, from);
  return at < 0 ? bytes.length : at;
}

/** Line breaks in JSON are white space, but in an event they would end the line. Decoding the text would take longer. */
function withoutLineBreaks(bytes: Uint8Array, start: number, end: number): Part {
  // A message of several frames has an array of its own, and may be megabytes long.
  const json = start === 0 && end === bytes.length ? bytes : bytes.slice(start, end);
  for (let at = 0; at < json.length; at++) {
    const byte = json[at];
    if (byte === LF || byte === CR) json[at] = SPACE;
  }
  return wholeBytesPart(json);
}

/** Returns the kind of a message that is not forwarded. */
export function readMessageKind(bytes: Uint8Array, start: number, end: number): UpstreamMessageKind {
  return classifyType(readType(bytes, scanEvent(bytes, start, end)));
}

function readType(bytes: Uint8Array, scan: EventScan | ScanFailure): string | null {
  const type = scan.ok ? scan.fields.type : undefined;
  return type === undefined || type.end - type.start > TYPE_BYTES_MAX ? null : stringValue(bytes, type);
}

/** A message without a type is passed to the stream parser, which counts such messages. */
function classifyType(type: string | null): UpstreamMessageKind {
  if (type === null) return "event";
  if (type === "response.created") return "created";
  if (TERMINAL.has(type)) return "terminal";
  if (type === "error") return "error";
  return isPrivateEvent(type) ? "private" : "event";
}

type EventScan = ObjectScan<"type">;

function scanEvent(bytes: Uint8Array, start: number, end: number): EventScan | ScanFailure {
  return scanObject(bytes, start, end, EVENT, { depthMax: JSON_DEPTH_MAX });
}
