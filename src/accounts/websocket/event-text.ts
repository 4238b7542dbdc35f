/**
 * Messages of an upstream's WebSocket as the event stream that the same upstream would have sent over HTTP: each
 * message is the data of one event, and names its type itself.
 */

import { type ObjectScan, type ScanFailure, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { decodeLatin1, writeBytes } from "../../net/wire/bytes.ts";
import { formatEvent } from "../../net/wire/sse-write.ts";
import { isPrivateEvent } from "../../protocols/responses/private-event.ts";
import { isEventName } from "../../protocols/shared/stream.ts";

/**
 * - `created`: goes on, and is the first of its response
 * - `event`: goes on
 * - `terminal`: goes on, and is the last of its response
 * - `error`: in place of an answer, or of the rest of one
 * - `private`: between the upstream and us, such as what it says of the account's limits
 */
export type UpstreamMessageKind = "created" | "event" | "terminal" | "error" | "private";

const EVENT = wantedFields(["type"]);
const DEPTH_MAX = 128;

const LF = 0x0a;
const CR = 0x0d;
const QUOTE = 0x22;
const BLANK_LINE_BYTES = 2;
const NOTHING = new Uint8Array(0);
const utf8 = new TextEncoder();
const BEFORE_TYPE = utf8.encode('{"type":"');

const TERMINAL: ReadonlySet<string> = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
  "response.cancelled",
]);
/** May stand in a type: letters, digits, dot, hyphen and underscore. */
const NAME_BYTE = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  NAME_BYTE[byte] = /[\w.-]/.test(String.fromCharCode(byte)) ? 1 : 0;
}

/** How messages of one type begin, and what an event has in front of them. */
interface Opening {
  readonly kind: UpstreamMessageKind;
  /** `{"type":"response.output_text.delta"`. */
  readonly json: Uint8Array;
  /** `event: response.output_text.delta` and the beginning of the next line, `data: `. */
  readonly lines: Uint8Array;
}

/** Types are few and short, and come with every response; whatever else comes by does not stay. */
const openings = new Map<string, Opening>();
const OPENINGS_MAX = 256;
const KEPT_TYPE_BYTES_MAX = 64;

function openingOf(type: string): Opening {
  const known = openings.get(type);
  if (known !== undefined) return known;
  const opening = {
    kind: kindOf(type),
    json: utf8.encode(`{"type":"${type}"`),
    lines: utf8.encode(`event: ${type}\ndata: `),
  };
  if (type.length > KEPT_TYPE_BYTES_MAX) return opening;
  if (openings.size >= OPENINGS_MAX) openings.clear();
  openings.set(type, opening);
  return opening;
}

/** One event: these lines, then part of an array, then a blank line. */
interface Piece {
  readonly lines: Uint8Array;
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
}

/** Gathers what one read brought, so that it is handed on in one piece. A class: it lives as long as a response. */
export class EventText {
  private pieces: Piece[] = [];
  private length = 0;
  /** Most events have the type of the one before: then nothing about it has to be found out again. */
  private last: Opening | null = null;
  private readonly lineEnds = new LineEnds();

  add(bytes: Uint8Array, start: number, end: number): UpstreamMessageKind {
    if (this.lineEnds.isWithin(bytes, start, end)) return this.addUnusual(bytes, start, end);
    if (this.last === null || !startsWith(bytes, start, this.last.json)) {
      const nameEnd = plainNameEnd(bytes, start, end);
      if (nameEnd < 0) return this.addUnusual(bytes, start, end);
      this.last = openingOf(decodeLatin1(bytes, start + BEFORE_TYPE.length, nameEnd));
    }
    const { kind, lines } = this.last;
    if (kind !== "error" && kind !== "private") this.put(lines, bytes, start, end);
    return kind;
  }

  /** Drops what was added since the last `take`. */
  forget(): void {
    this.pieces = [];
    this.length = 0;
  }

  /** Null when there is nothing. */
  take(): Uint8Array | null {
    const { pieces } = this;
    this.lineEnds.forget();
    if (pieces.length === 0) return null;
    const text = Buffer.allocUnsafe(this.length);
    let to = 0;
    for (const { lines, bytes, start, end } of pieces) {
      to = writeBytes(text, to, lines);
      to = writeBytes(text, to, bytes, start, end);
      text[to++] = LF;
      text[to++] = LF;
    }
    this.forget();
    return text;
  }

  /** The type does not come first, or the JSON is written in lines. */
  private addUnusual(bytes: Uint8Array, start: number, end: number): UpstreamMessageKind {
    const message = bytes.slice(start, end);
    const scan = scanEvent(message);
    const type = typeIn(message, scan);
    const kind = kindOf(type);
    if (kind === "error" || kind === "private") return kind;
    const name = type !== null && isEventName(type) ? type : null;
    const event = formatEvent(name, message);
    this.put(NOTHING, event, 0, event.length - BLANK_LINE_BYTES);
    return kind;
  }

  private put(lines: Uint8Array, bytes: Uint8Array, start: number, end: number): void {
    this.pieces.push({ lines, bytes, start, end });
    this.length += lines.length + end - start + BLANK_LINE_BYTES;
  }
}

/** Where the type's name ends, for a message that begins with it; -1 for any other. */
function plainNameEnd(bytes: Uint8Array, start: number, end: number): number {
  if (!startsWith(bytes, start, BEFORE_TYPE)) return -1;
  let at = start + BEFORE_TYPE.length;
  while (at < end && NAME_BYTE[bytes[at] as number] === 1) at++;
  return at < end && bytes[at] === QUOTE ? at : -1;
}

/** Byte by byte: for so few that is quicker than a call of the runtime. */
function startsWith(bytes: Uint8Array, at: number, expected: Uint8Array): boolean {
  for (let i = 0; i < expected.length; i++) if (bytes[at + i] !== expected[i]) return false;
  return true;
}

/** Where a line ends next, remembered: a read of many messages is searched once, and not to its end for each. */
class LineEnds {
  private bytes: Uint8Array = NOTHING;
  private lf = 0;
  private cr = 0;

  /** The messages of a read in order. */
  isWithin(bytes: Uint8Array, start: number, end: number): boolean {
    const isNew = bytes !== this.bytes;
    if (isNew || this.lf < start) this.lf = nextOf(bytes, LF, start);
    if (isNew || this.cr < start) this.cr = nextOf(bytes, CR, start);
    this.bytes = bytes;
    return this.lf < end || this.cr < end;
  }

  /** The read is over, and is not to be kept for what is known of it. */
  forget(): void {
    this.bytes = NOTHING;
  }
}

function nextOf(bytes: Uint8Array, byte: number, from: number): number {
  const at = bytes.indexOf(byte, from);
  return at < 0 ? bytes.length : at;
}

/** The kind of a message that is not forwarded. */
export function readMessageKind(bytes: Uint8Array, start: number, end: number): UpstreamMessageKind {
  return kindOf(typeIn(bytes, scanEvent(bytes, start, end)));
}

function typeIn(bytes: Uint8Array, scan: EventScan | ScanFailure): string | null {
  return scan.ok && scan.fields.type ? stringValue(bytes, scan.fields.type) : null;
}

/** What has no type is left to the reader of the stream, which counts such things. */
function kindOf(type: string | null): UpstreamMessageKind {
  if (type === null) return "event";
  if (type === "response.created") return "created";
  if (TERMINAL.has(type)) return "terminal";
  if (type === "error") return "error";
  return isPrivateEvent(type) ? "private" : "event";
}

type EventScan = ObjectScan<"type">;

function scanEvent(bytes: Uint8Array, start = 0, end = bytes.length): EventScan | ScanFailure {
  return scanObject(bytes, start, end, EVENT, { depthMax: DEPTH_MAX });
}
