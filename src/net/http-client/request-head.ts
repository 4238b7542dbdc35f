/** The head of a request: what may be in it, and its text. */

import { partsLength } from "../wire/parts.ts";
import type { OutgoingRequest } from "./contract.ts";

const HEADER_LINES = /^(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*$/;
const PATH = /^\/[!-~]*$/;

/**
 * What is wrong with it, if anything. Anything that could begin a line of its own is refused, characters beyond
 * Latin-1 as well: they would be cut to their low byte, which may be a line feed.
 */
export function findHeadFault({ path, headers }: Pick<OutgoingRequest, "path" | "headers">): string | null {
  if (!isGood(path, goodPaths, PATH)) return "the path holds a character that cannot be sent";
  if (!isGood(headers, goodHeaders, HEADER_LINES)) return "the headers hold a line that cannot be sent";
  return null;
}

/** Paths and headers are nearly always the same few: those that were found good are not looked at again. */
const goodPaths = new Set<string>();
const goodHeaders = new Set<string>();
const GOOD_MAX = 1_000;
/** A client may have chosen a part of it: what is longer is not kept. */
const KEPT_CHARS_MAX = 2_048;

function isGood(text: string, known: Set<string>, rule: RegExp): boolean {
  if (known.has(text)) return true;
  if (!rule.test(text)) return false;
  if (text.length > KEPT_CHARS_MAX) return true;
  if (known.size >= GOOD_MAX) known.clear();
  known.add(text);
  return true;
}

/** The bytes of a head, in Latin-1. */
export interface OutgoingHead {
  /** Everything before the lines that frame the body: requests of a kind share it. */
  readonly start: Uint8Array;
  /** The lines that frame the body, and the empty line. */
  readonly end: string;
}

export function buildHead(request: OutgoingRequest, hostLine: string): OutgoingHead {
  return { start: startOf(request, hostLine), end: endOf(request) };
}

export function encodeHead({ start, end }: OutgoingHead): Uint8Array {
  return Buffer.concat([start, Buffer.from(end)]);
}

/** Cached by the headers and the path that it is made of. */
const starts = new Map<string, Map<string, Start>>();
let startsKept = 0;

interface Start {
  readonly method: string;
  readonly hostLine: string;
  readonly bytes: Uint8Array;
}

function startOf({ method, path, headers, body }: OutgoingRequest, hostLine: string): Uint8Array {
  const known = starts.get(headers)?.get(path);
  if (known !== undefined && known.method === method && known.hostLine === hostLine) return known.bytes;
  const bytes = Buffer.from(`${method} ${path} HTTP/1.1\r\n${hostLine}${headers}`, "latin1");
  // Without a body it fetches something stored upstream. Such a path hardly comes again, so it is not cached.
  if (body !== null && bytes.length <= KEPT_CHARS_MAX) keep(headers, path, { method, hostLine, bytes });
  return bytes;
}

function keep(headers: string, path: string, start: Start): void {
  if (startsKept >= GOOD_MAX) {
    starts.clear();
    startsKept = 0;
  }
  startsKept++;
  const byPath = starts.get(headers) ?? new Map<string, Start>();
  byPath.set(path, start);
  starts.set(headers, byPath);
}

function endOf({ method, body }: Pick<OutgoingRequest, "method" | "body">): string {
  if (body === null) return method === "POST" ? "content-length: 0\r\n\r\n" : "\r\n";
  const length = "open" in body ? body.contentLength : partsLength(body);
  return length === null ? "transfer-encoding: chunked\r\n\r\n" : `content-length: ${length}\r\n\r\n`;
}
