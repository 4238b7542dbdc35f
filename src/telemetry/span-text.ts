/**
 * Writes spans in the JSON form of OTLP. The text is concatenated from few, mostly prepared pieces: building the objects
 * of a span and serializing them takes many times as long, for every request. All text is ASCII, so that its length is
 * its size and it can be copied without being encoded.
 */

import { ATTRIBUTE, type AttributeName } from "./attribute-names.ts";

/** Numbers of OTLP. */
export const SPAN_KIND = { server: 2, client: 3 } as const;
export type SpanKind = (typeof SPAN_KIND)[keyof typeof SPAN_KIND];
const STATUS_ERROR = 2;

/** Longer values are cut: clients and upstreams control some of them. */
const VALUE_CHARS_MAX = 256;
const PLAIN_TEXT = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;
const NOT_ASCII = /[\u007f-\uffff]/g;

/** A JSON string in ASCII, also for text that a strict parser of UTF-8 would reject. */
export function jsonText(value: string): string {
  const text = value.length > VALUE_CHARS_MAX ? value.slice(0, VALUE_CHARS_MAX) : value;
  if (PLAIN_TEXT.test(text)) return `"${text}"`;
  return JSON.stringify(text.toWellFormed()).replace(
    NOT_ASCII,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/**
 * Returns the same text in one piece. The runtime keeps a concatenation as a tree of its parts; a text that is used
 * again and again would be assembled again each time.
 */
export function flatText(text: string): string {
  return Buffer.from(text, "latin1").toString("latin1");
}

const NAMES = Object.keys(ATTRIBUTE) as readonly AttributeName[];

function prefixes(type: string, valueStart = ""): Readonly<Record<AttributeName, string>> {
  const entries = NAMES.map(
    (name) => [name, flatText(`,{"key":"${ATTRIBUTE[name]}","value":{"${type}":${valueStart}`)] as const,
  );
  return Object.fromEntries(entries) as Record<AttributeName, string>;
}

const STRING = prefixes("stringValue");
/** 64-bit integers are strings in the JSON form. */
const INT = prefixes("intValue", '"');
const DOUBLE = prefixes("doubleValue");
const BOOL = prefixes("boolValue");

/** Every attribute begins with a comma, so that attributes are joined by concatenation. */
export function stringAttribute(name: AttributeName, value: string): string {
  return `${STRING[name]}${jsonText(value)}}}`;
}

export function intAttribute(name: AttributeName, value: number | bigint): string {
  return `${INT[name]}${value}"}}`;
}

export function doubleAttribute(name: AttributeName, value: number): string {
  return `${DOUBLE[name]}${value}}}`;
}

export function boolAttribute(name: AttributeName, value: boolean): string {
  return `${BOOL[name]}${value}}}`;
}

/** What many spans share: their name and kind. The text stands between the ids and the start of a span. */
export class SpanHead {
  /** For spans of sampled traces without a remote parent, which are nearly all. */
  readonly usual: string;
  readonly #rest: string;

  constructor(name: string, kind: SpanKind) {
    this.#rest = `,"name":${jsonText(name)},"kind":${kind},"startTimeUnixNano":"`;
    this.usual = flatText(this.withFlags(true, false));
  }

  withFlags(isSampled: boolean, isParentRemote: boolean): string {
    const flags = (isSampled ? 1 : 0) | KNOWS_PARENT | (isParentRemote ? PARENT_IS_REMOTE : 0);
    return `","flags":${flags}${this.#rest}`;
  }
}

/** Bits of the flags of OTLP: the parent is known to be local or remote, and it is remote. */
const KNOWS_PARENT = 0x100;
const PARENT_IS_REMOTE = 0x200;

export interface SpanFields {
  readonly requestId: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | null;
  /** A text of `SpanHead`. */
  readonly head: string;
  readonly startMs: number;
  readonly endMs: number;
  /** Attributes of this file, joined. */
  readonly attributes: string;
  readonly isError: boolean;
}

export function spanText(span: SpanFields): string {
  const { parentSpanId } = span;
  const ids =
    parentSpanId === null
      ? `{"traceId":"${span.traceId}","spanId":"${span.spanId}`
      : `{"traceId":"${span.traceId}","spanId":"${span.spanId}","parentSpanId":"${parentSpanId}`;
  return `${ids}${span.head}${nanoseconds(span.startMs)}${AFTER_START}${nanoseconds(span.endMs)}${AFTER_END}${span.requestId}"}}${span.attributes}${span.isError ? ENDING_ERROR : ENDING}`;
}

const AFTER_START = `","endTimeUnixNano":"`;
/** The request id is the first attribute of every span, without the comma of the others. */
const AFTER_END = flatText(`","attributes":[${STRING.requestId.slice(1)}"`);
const ENDING = "]}";
const ENDING_ERROR = `],"status":{"code":${STATUS_ERROR}}}`;

/** The last nine digits of a time, for each millisecond of a second. */
const MILLISECONDS = Array.from({ length: 1_000 }, (_, ms) =>
  flatText(`${String(ms).padStart(3, "0")}000000`),
);
let lastSecond = 0;
let lastSecondText = "0";

/** Times of spans lie close together, so the text of a second is formatted once. */
function nanoseconds(ms: number): string {
  const second = Math.trunc(ms / 1_000);
  if (second !== lastSecond) {
    lastSecond = second;
    lastSecondText = String(second);
  }
  return lastSecondText + (MILLISECONDS[ms - second * 1_000] ?? MILLISECONDS[0]);
}
