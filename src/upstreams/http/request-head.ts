/** The head of a request: what may be in it, and its text. */

import { lengthOf } from "../../wire/splice.ts";
import type { HttpRequest } from "./contract.ts";

const HEADER_LINES = /^(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*$/;
const PATH = /^\/[!-~]*$/;

/**
 * What is wrong with it, if anything. Anything that could begin a line of its own is refused, characters beyond
 * Latin-1 as well: they would be cut to their low byte, which may be a line feed.
 */
export function faultOf({ path, headers }: Pick<HttpRequest, "path" | "headers">): string | null {
  if (!isGood(path, goodPaths, PATH)) return "the path holds a character that cannot be sent";
  if (!isGood(headers, goodHeaders, HEADER_LINES)) return "the headers hold a line that cannot be sent";
  return null;
}

/** Paths and headers are nearly always the same few: those that were found good are not looked at again. */
const goodPaths = new Set<string>();
const goodHeaders = new Set<string>();
const GOOD_MAX = 1_000;

function isGood(text: string, known: Set<string>, rule: RegExp): boolean {
  if (known.has(text)) return true;
  if (!rule.test(text)) return false;
  if (known.size >= GOOD_MAX) known.clear();
  known.add(text);
  return true;
}

/** Latin-1 text, with the empty line that ends it. */
export function headOf(request: HttpRequest, hostLine: string): string {
  const { method, path, headers, body } = request;
  const start = `${method} ${path} HTTP/1.1\r\n${hostLine}${headers}`;
  if (body === null) return method === "POST" ? `${start}content-length: 0\r\n\r\n` : `${start}\r\n`;
  const length = "open" in body ? body.contentLength : lengthOf(body);
  return length === null
    ? `${start}transfer-encoding: chunked\r\n\r\n`
    : `${start}content-length: ${length}\r\n\r\n`;
}
