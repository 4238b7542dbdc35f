/** Spans as plain objects in the JSON form of OTLP, and the function that writes those of a batch as a message. */

import { ATTRIBUTE, type AttributeName } from "./attribute-names.ts";

/** Numbers of OTLP. */
export const SPAN_KIND = { server: 2, client: 3 } as const;
export const ERROR_STATUS = { code: 2 } as const;

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly flags: number;
  readonly name: string;
  readonly kind: (typeof SPAN_KIND)[keyof typeof SPAN_KIND];
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly SpanAttribute[];
  readonly status: typeof ERROR_STATUS | undefined;
}

export interface SpanAttribute {
  readonly key: string;
  readonly value:
    | { readonly stringValue: string }
    /** 64-bit integers are strings in the JSON form. */
    | { readonly intValue: string }
    | { readonly doubleValue: number }
    | { readonly boolValue: boolean }
    | { readonly arrayValue: { readonly values: readonly { readonly stringValue: string }[] } };
}

/** The parts of a message before and after its list of spans. */
export interface MessageFrame {
  readonly start: string;
  readonly end: string;
}

export function writeMessage({ start, end }: MessageFrame, spans: readonly Span[]): Buffer {
  return Buffer.from(start + JSON.stringify(spans) + end);
}

/** Bits of the flags of OTLP: the trace is sampled, the parent is known to be local or remote, and it is remote. */
const SAMPLED = 0x1;
const KNOWS_PARENT = 0x100;
const PARENT_IS_REMOTE = 0x200;

export function spanFlags(isSampled: boolean, parent: "local" | "remote"): number {
  return (isSampled ? SAMPLED : 0) | KNOWS_PARENT | (parent === "remote" ? PARENT_IS_REMOTE : 0);
}

export function toNanoseconds(ms: number): string {
  return `${Math.trunc(ms)}000000`;
}

/** Longer values are cut: clients and upstreams control some of them. */
const VALUE_CHARS_MAX = 256;

/** Text that a strict parser of UTF-8 accepts. */
export function toStringValue(value: string): { readonly stringValue: string } {
  const text = value.length > VALUE_CHARS_MAX ? value.slice(0, VALUE_CHARS_MAX) : value;
  return { stringValue: text.toWellFormed() };
}

/** The attributes of one span. A value of null adds nothing. */
export class AttributeList {
  readonly items: SpanAttribute[] = [];

  text(name: AttributeName, value: string | null): void {
    if (value !== null) this.items.push({ key: ATTRIBUTE[name], value: toStringValue(value) });
  }

  /** Callers bound the number of values. */
  texts(name: AttributeName, values: readonly string[]): void {
    this.items.push({ key: ATTRIBUTE[name], value: { arrayValue: { values: values.map(toStringValue) } } });
  }

  int(name: AttributeName, value: number | null): void {
    if (value !== null) this.items.push({ key: ATTRIBUTE[name], value: { intValue: String(value) } });
  }

  /** Zero adds nothing. */
  count(name: AttributeName, value: number): void {
    if (value > 0) this.int(name, value);
  }

  /** A time in milliseconds as an attribute in seconds. */
  seconds(name: AttributeName, ms: number): void {
    this.items.push({ key: ATTRIBUTE[name], value: { doubleValue: ms / 1_000 } });
  }

  flag(name: AttributeName, value: boolean): void {
    this.items.push({ key: ATTRIBUTE[name], value: { boolValue: value } });
  }
}
