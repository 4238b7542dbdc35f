/** Validates and encodes the head of an outgoing request. */

import { Cache } from "../../base/cache.ts";
import { partsLength } from "../../base/parts.ts";
import type { OutgoingRequest } from "./contract.ts";

const HEADER_LINES = /^(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*$/;
const PATH = /^\/[!-~]*$/;

/**
 * Returns what is wrong with the path or headers, or null. Any text that could start a new line is rejected. So are
 * characters beyond Latin-1: they would be cut to their low byte, which may be a line feed.
 */
export function findHeadFault({ path, headers }: Pick<OutgoingRequest, "path" | "headers">): string | null {
  if (!isValid(path, validPaths, PATH)) return "the path has an invalid character";
  if (!isValid(headers, validHeaders, HEADER_LINES)) return "the headers have an invalid line";
  return null;
}

/** Nearly all requests use the same few paths and headers. Valid ones are cached and not checked again. */
const CACHE_ENTRIES_MAX = 1_000;
const validPaths = new Cache<string, true>({ name: "valid paths", entriesMax: CACHE_ENTRIES_MAX });
const validHeaders = new Cache<string, true>({ name: "valid headers", entriesMax: CACHE_ENTRIES_MAX });
/** A client may have chosen a part of the text, so longer texts are not cached. */
const CACHED_CHARS_MAX = 2_048;

function isValid(text: string, valid: Cache<string, true>, rule: RegExp): boolean {
  if (valid.get(text) === true) return true;
  if (!rule.test(text)) return false;
  if (text.length <= CACHED_CHARS_MAX) valid.set(text, true);
  return true;
}

/** The bytes of a head, in Latin-1. */
export interface OutgoingHead {
  /** Everything before the lines that frame the body. Similar requests share it. */
  readonly start: Uint8Array;
  /** The lines that frame the body, and the empty line. */
  readonly end: string;
}

export function buildHead(request: OutgoingRequest, hostLine: string): OutgoingHead {
  return { start: lookUpStart(request, hostLine), end: buildEnd(request) };
}

export function encodeHead({ start, end }: OutgoingHead): Uint8Array {
  return Buffer.concat([start, Buffer.from(end)]);
}

/**
 * By headers, then by path: joining both into one key would copy the headers for each request. Not a `Cache`, because
 * the bound is the number of starts of all headers together.
 */
const startsByHeaders = new Map<string, Map<string, CachedStart>>();
let cachedStartCount = 0;

interface CachedStart {
  readonly method: string;
  readonly hostLine: string;
  readonly bytes: Uint8Array;
}

function lookUpStart({ method, path, headers, body }: OutgoingRequest, hostLine: string): Uint8Array {
  const cached = startsByHeaders.get(headers)?.get(path);
  if (cached !== undefined && cached.method === method && cached.hostLine === hostLine) return cached.bytes;
  const bytes = Buffer.from(`${method} ${path} HTTP/1.1\r\n${hostLine}${headers}`, "latin1");
  // A request without a body retrieves a stored object. Its path is rarely used again, so it is not cached.
  if (body !== null && bytes.length <= CACHED_CHARS_MAX)
    cacheStart(headers, path, { method, hostLine, bytes });
  return bytes;
}

function cacheStart(headers: string, path: string, start: CachedStart): void {
  if (cachedStartCount >= CACHE_ENTRIES_MAX) {
    startsByHeaders.clear();
    cachedStartCount = 0;
  }
  cachedStartCount++;
  const byPath = startsByHeaders.get(headers) ?? new Map<string, CachedStart>();
  byPath.set(path, start);
  startsByHeaders.set(headers, byPath);
}

function buildEnd({ method, body }: Pick<OutgoingRequest, "method" | "body">): string {
  if (body === null) return method === "POST" ? "content-length: 0\r\n\r\n" : "\r\n";
  const length = "open" in body ? body.contentLength : partsLength(body);
  return length === null ? "transfer-encoding: chunked\r\n\r\n" : `content-length: ${length}\r\n\r\n`;
}
