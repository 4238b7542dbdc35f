/** Parses the status line and headers of a response, as strictly as those of a request. */

import { decodeLatin1 } from "../../base/bytes.ts";
import { CHUNKED, CR, HeadText, SPACE, scanFields, UNTIL_CLOSE } from "../wire/http-fields.ts";

export class ResponseHead extends HeadText {
  readonly status: number;
  readonly framing: number;
  readonly keepsAlive: boolean;
  /** Position of the body in the parsed bytes. */
  readonly bodyAt: number;

  constructor(
    status: number,
    framing: number,
    keepsAlive: boolean,
    bodyAt: number,
    text: string,
    names: readonly number[],
    textAt: number,
  ) {
    super(text, names, textAt);
    this.status = status;
    this.framing = framing;
    this.keepsAlive = keepsAlive;
    this.bodyAt = bodyAt;
  }
}

/** Returns null when the head is incomplete, and the error text when it is not a valid response head. */
export function parseResponseHead(bytes: Buffer, from: number): ResponseHead | string | null {
  const status = parseStatus(bytes, from);
  if (typeof status !== "number") return status;
  const fields = scanFields(bytes, from + 12);
  if (fields === null || typeof fields === "string") return fields;
  const { length, isChunked, end } = fields;
  const isBare = status < 200 || status === 204 || status === 304;
  const framing = isBare ? 0 : isChunked ? CHUNKED : length >= 0 ? length : UNTIL_CLOSE;
  // With both headers, an intermediary may have used the other one, so the connection cannot be reused.
  const isAmbiguous = isChunked && length >= 0;
  const keepsAlive = bytes[from + 7] === 49 && !fields.closes && !isAmbiguous && framing !== UNTIL_CLOSE;
  const text = decodeLatin1(bytes, from, end - 2);
  return new ResponseHead(status, framing, keepsAlive, end, text, fields.names, from);
}

const PREFIX = "HTTP/1.";

function parseStatus(bytes: Buffer, from: number): number | string | null {
  const length = bytes.length - from;
  for (let i = 0; i < 7 && i < length; i++) {
    if (bytes[from + i] !== PREFIX.charCodeAt(i)) return "not an HTTP/1 response";
  }
  if (length < 13) return null;
  const minor = bytes[from + 7];
  if ((minor !== 48 && minor !== 49) || bytes[from + 8] !== SPACE) return "not an HTTP/1 response";
  let status = 0;
  for (let i = 9; i < 12; i++) {
    const digit = (bytes[from + i] as number) - 48;
    if (digit < 0 || digit > 9) return "the status line has no status";
    status = status * 10 + digit;
  }
  const after = bytes[from + 12];
  if (after !== SPACE && after !== CR) return "the status line has no status";
  return status < 100 || status > 599 ? "an invalid status" : status;
}
