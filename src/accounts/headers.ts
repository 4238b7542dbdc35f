/** Allow-lists both ways: what is not named here does not cross the gateway. */

import type { AnswerHeaders } from "../net/http-client/contract.ts";
import type { HeaderReader } from "../net/wire/http-fields.ts";
import type { HeaderLines } from "../net/wire/http-message.ts";

/** Client headers that change what the upstream does and carry nobody's identity. */
export const FORWARDED_UP = [
  "openai-beta",
  "x-openai-internal-codex-responses-lite",
  "x-codex-beta-features",
] as const;

const PLAIN_VALUE = /^[\x20-\x7e]{1,1024}$/;

/** As lines of a request's head. */
export function headersUp(from: HeaderReader): string {
  let lines = "";
  for (const name of FORWARDED_UP) {
    const value = from.get(name);
    if (value !== null && PLAIN_VALUE.test(value)) lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

const PROCESSING_MS = /^\d{1,9}$/;

/**
 * As lines of our answer's head. An upstream's header reaches the client only if its value cannot carry anything but
 * what its name says. Its `x-codex-turn-state` does not: it is for that account alone, and clients of ours are kept with
 * their account by other means.
 */
export function headersDown(
  from: AnswerHeaders,
  publicModel: string,
  upstreamRequestId: string | null,
): HeaderLines {
  let lines = upstreamRequestId === null ? "" : `x-upstream-request-id: ${upstreamRequestId}\r\n`;
  const processingMs = from.get("openai-processing-ms");
  if (processingMs !== null && PROCESSING_MS.test(processingMs)) {
    lines += `openai-processing-ms: ${processingMs}\r\n`;
  }
  if (from.has("x-reasoning-included")) lines += "x-reasoning-included: true\r\n";
  if (from.has("openai-model") && PLAIN_VALUE.test(publicModel)) lines += `openai-model: ${publicModel}\r\n`;
  return lines;
}

const UPSTREAM_REQUEST_ID =
  /^(?:req_[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/;

/** For the provider's support desk, in our records and to the client: if it has the form of an id and of nothing else. */
export function upstreamRequestId(from: AnswerHeaders): string | null {
  const id = from.get("x-request-id") ?? from.get("apim-request-id");
  return id !== null && UPSTREAM_REQUEST_ID.test(id) ? id : null;
}
