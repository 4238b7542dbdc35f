/** The head of a request: what may be in it, and its text. */

import { lengthOf } from "../../wire/splice.ts";
import type { HttpRequest } from "./contract.ts";

const HEADER_LINES = /^(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*$/;
const PATH = /^\/[!-~]*$/;

/**
 * What is wrong with it, if anything. Anything that could begin a line of its own is refused, characters beyond
 * Latin-1 as well: they would be cut to their low byte, which may be a line feed.
 */
export function faultOf(request: HttpRequest): string | null {
  if (!PATH.test(request.path)) return "the path holds a character that cannot be sent";
  if (!HEADER_LINES.test(request.headers)) return "the headers hold a line that cannot be sent";
  return null;
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
