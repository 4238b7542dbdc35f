/**
 * The parts of spans that many spans share, in the JSON form of OTLP. They are written once as text and kept as bytes,
 * which `SpanWriter` copies. All text is ASCII, so that its length is its size.
 */

import { ATTRIBUTE, type AttributeName } from "./attribute-names.ts";

/** Numbers of OTLP. */
export const SPAN_KIND = { server: 2, client: 3 } as const;
export type SpanKind = (typeof SPAN_KIND)[keyof typeof SPAN_KIND];

/** Longer values are cut: clients and upstreams control some of them. */
export const VALUE_CHARS_MAX = 256;
const NOT_ASCII = /[\u007f-\uffff]/g;

/** A JSON string in ASCII, also for text that a strict parser of UTF-8 would reject. */
export function jsonText(value: string): string {
  const text = value.length > VALUE_CHARS_MAX ? value.slice(0, VALUE_CHARS_MAX) : value;
  return JSON.stringify(text.toWellFormed()).replace(
    NOT_ASCII,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

export function toBytes(ascii: string): Uint8Array {
  return Buffer.from(ascii, "latin1");
}

const NAMES = Object.keys(ATTRIBUTE) as readonly AttributeName[];

function beginnings(type: string): Readonly<Record<AttributeName, string>> {
  const entries = NAMES.map((name) => [name, `,{"key":"${ATTRIBUTE[name]}","value":{"${type}":`] as const);
  return Object.fromEntries(entries) as Record<AttributeName, string>;
}

/** The text of attributes before their value. It begins with a comma, so that attributes are joined by concatenation. */
export const BEGINNING = {
  string: beginnings("stringValue"),
  int: beginnings("intValue"),
  double: beginnings("doubleValue"),
  bool: beginnings("boolValue"),
  array: beginnings("arrayValue"),
} as const;

export function stringAttribute(name: AttributeName, value: string): string {
  return `${BEGINNING.string[name]}${jsonText(value)}}}`;
}

/** 64-bit integers are strings in the JSON form. */
export function intAttribute(name: AttributeName, value: number): string {
  return `${BEGINNING.int[name]}"${value}"}}`;
}

export function boolAttribute(name: AttributeName, value: boolean): string {
  return `${BEGINNING.bool[name]}${value}}}`;
}

/** What many spans share: their name and kind. The bytes stand between the ids and the start of a span. */
export class SpanHead {
  /** For spans of sampled traces without a remote parent, which are nearly all. */
  readonly usual: Uint8Array;
  readonly #rest: string;

  constructor(name: string, kind: SpanKind) {
    this.#rest = `,"name":${jsonText(name)},"kind":${kind},"startTimeUnixNano":"`;
    this.usual = this.withFlags(true, false);
  }

  withFlags(isSampled: boolean, isParentRemote: boolean): Uint8Array {
    const flags = (isSampled ? 1 : 0) | KNOWS_PARENT | (isParentRemote ? PARENT_IS_REMOTE : 0);
    return toBytes(`","flags":${flags}${this.#rest}`);
  }
}

/** Bits of the flags of OTLP: the parent is known to be local or remote, and it is remote. */
const KNOWS_PARENT = 0x100;
const PARENT_IS_REMOTE = 0x200;
