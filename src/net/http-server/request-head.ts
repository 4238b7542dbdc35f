/** Parses a request's line and headers. What two parsers could read differently is rejected. */

import { decodeLatin1 } from "../../base/bytes.ts";
import {
  BYTE_CLASS,
  CHUNKED,
  CR,
  digitsEnd,
  type Fields,
  type HeaderReader,
  HeadText,
  LF,
  SPACE,
  scanFields,
  TOKEN,
} from "../wire/http-fields.ts";

/** Why a request is rejected. Its end is unknown, so no bytes after it are read. */
export interface RequestFault {
  readonly kind: "malformed" | "head_too_large" | "version" | "expectation" | "late";
  readonly reason: string;
}

export const HEAD_TIMEOUT: RequestFault = {
  kind: "late",
  reason: "the request head did not arrive in time",
};

/**
 * All parsed values of a head except those about the body. Heads that differ only in their body length share this
 * object.
 */
export class RequestOptions {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: HeaderReader;
  readonly keepsAlive: boolean;
  readonly isHttp10: boolean;
  /** The client waits for 100 Continue before it sends the body. */
  readonly expectsContinue: boolean;

  constructor(method: string, target: string, isHttp10: boolean, fields: Fields, headers: HeaderReader) {
    this.method = method;
    this.target = target;
    this.headers = headers;
    this.keepsAlive = !fields.closes && (!isHttp10 || fields.keepsAlive);
    this.isHttp10 = isHttp10;
    this.expectsContinue = !isHttp10 && headers.has("expect");
  }
}

export class RequestHead {
  readonly options: RequestOptions;
  /** The length of the body, 0 for none, or CHUNKED. */
  readonly framing: number;
  /** Position of the digits of Content-Length in the parsed bytes, or -1. */
  readonly lengthAt: number;
  /** Position of the body in the parsed bytes. */
  readonly bodyAt: number;

  constructor(options: RequestOptions, framing: number, lengthAt: number, bodyAt: number) {
    this.options = options;
    this.framing = framing;
    this.lengthAt = lengthAt;
    this.bodyAt = bodyAt;
  }
}

/** Sent when a client that expects 100 Continue may send its body. */
export const CONTINUE = Buffer.from("HTTP/1.1 100 Continue\r\n\r\n");

const VERSION = "HTTP/1.";
const VERSION_BYTES = VERSION.length + 1;
const FIELDS_MAX = 128;

/** Some clients send an extra empty line after a body. */
export function skipEmptyLines(bytes: Buffer): number {
  let at = 0;
  while (bytes[at] === CR && bytes[at + 1] === LF) at += 2;
  return at;
}

/** Returns null when the head is incomplete. */
export function parseRequestHead(
  bytes: Buffer,
  from: number,
  bytesMax: number,
): RequestHead | RequestFault | null {
  const head = parseHead(bytes, from);
  if (head !== null && !(head instanceof RequestHead)) return head;
  const headBytes = (head === null ? bytes.length : head.bodyAt) - from;
  return headBytes > bytesMax ? tooLarge(`more than ${bytesMax} bytes`) : head;
}

function parseHead(bytes: Buffer, from: number): RequestHead | RequestFault | null {
  const end = bytes.length;
  let at = from;
  while (at < end && ((BYTE_CLASS[bytes[at] as number] as number) & TOKEN) !== 0) at++;
  if (at === end) return null;
  if (at === from || bytes[at] !== SPACE) return malformed("the request line does not begin with a method");
  const methodTo = at++;
  // The target ends at a space, a control character or a byte that is not ASCII.
  while (at < end && (bytes[at] as number) > SPACE && (bytes[at] as number) < 127) at++;
  if (at === end) return null;
  const targetTo = at;
  if (bytes[at] !== SPACE || targetTo === methodTo + 1) {
    return malformed("the request line has no path");
  }
  if (end - at <= VERSION_BYTES) return null;
  const minor = parseVersion(bytes, at + 1);
  if (typeof minor !== "number") return minor;
  const versionTo = at + 1 + VERSION_BYTES;
  if (versionTo < end && bytes[versionTo] !== CR)
    return malformed("the request line does not end after its version");
  const fields = scanFields(bytes, versionTo);
  if (fields === null) return null;
  if (typeof fields === "string") return malformed(fields);
  const { length, isChunked, hosts } = fields;
  if (isChunked && length >= 0) return malformed("both Content-Length and Transfer-Encoding");
  if (fields.lengths > 1) return malformed("Content-Length more than once");
  if (isChunked && minor === 0) return malformed("Transfer-Encoding in HTTP/1.0");
  if (hosts > 1 || (hosts === 0 && minor === 1)) return malformed("not exactly one Host header");
  if (fields.names.length > FIELDS_MAX) return tooLarge(`more than ${FIELDS_MAX} header lines`);
  const target = decodeLatin1(bytes, methodTo + 1, targetTo);
  // An absolute URL is for proxies. It names a second host, which an intermediary may have routed by.
  if (!target.startsWith("/")) return malformed("the request target must be a path that starts with /");
  const headers = new HeadText(decodeHead(bytes, targetTo, fields), fields.names, targetTo);
  if (hosts === 1 && !isHost(headers.get("host") ?? "")) {
    return malformed("the Host header is empty or not a host name");
  }
  const options = new RequestOptions(
    decodeLatin1(bytes, from, methodTo),
    target,
    minor === 0,
    fields,
    headers,
  );
  if (options.expectsContinue && headers.get("expect")?.toLowerCase() !== "100-continue") {
    return { kind: "expectation", reason: "only 100-continue is supported" };
  }
  return new RequestHead(options, isChunked ? CHUNKED : Math.max(0, length), fields.lengthAt, fields.end);
}

/** Decodes the head with blanks in place of the Content-Length digits, which differ between otherwise equal heads. */
function decodeHead(bytes: Buffer, from: number, { lengthAt, end }: Fields): string {
  const to = end - 2;
  if (lengthAt < 0) return decodeLatin1(bytes, from, to);
  const afterAt = digitsEnd(bytes, lengthAt);
  return (
    decodeLatin1(bytes, from, lengthAt) + " ".repeat(afterAt - lengthAt) + decodeLatin1(bytes, afterAt, to)
  );
}

function parseVersion(bytes: Buffer, at: number): number | RequestFault {
  for (let i = 0; i < VERSION.length; i++) {
    if (bytes[at + i] !== VERSION.charCodeAt(i)) return rejectVersion(bytes, at);
  }
  const minor = (bytes[at + VERSION.length] as number) - 48;
  return minor === 0 || minor === 1 ? minor : rejectVersion(bytes, at);
}

function rejectVersion(bytes: Buffer, at: number): RequestFault {
  return decodeLatin1(bytes, at, at + 5) === "HTTP/"
    ? { kind: "version", reason: "only HTTP/1.1 and HTTP/1.0 are supported" }
    : malformed("the request line has no HTTP version");
}

const HOST = /^(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/;
let lastValidHost = "";

/** Caches the last valid value, because nearly every client sends the same one. */
function isHost(host: string): boolean {
  if (host === lastValidHost) return true;
  if (!HOST.test(host)) return false;
  lastValidHost = host;
  return true;
}

function malformed(reason: string): RequestFault {
  return { kind: "malformed", reason };
}

function tooLarge(reason: string): RequestFault {
  return { kind: "head_too_large", reason };
}
