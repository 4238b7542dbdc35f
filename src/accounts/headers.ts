/** Allow-lists of headers in both directions. A header that is not listed here does not pass the gateway. */

import type { ResponseHeaders } from "../net/http-client/contract.ts";
import type { HeaderReader } from "../net/wire/http-fields.ts";
import type { HeaderLines } from "../net/wire/http-message.ts";

/** Client headers that change the behaviour of the upstream and contain no identity. */
export const FORWARDED_REQUEST_HEADERS = [
  "openai-beta",
  "x-openai-internal-codex-responses-lite",
  "x-codex-beta-features",
] as const;

const PLAIN_VALUE = /^[\x20-\x7e]{1,1024}$/;

/** Returns the forwarded headers as lines of the upstream request head. */
export function forwardedRequestHeaders(from: HeaderReader): string {
  let lines = "";
  for (const name of FORWARDED_REQUEST_HEADERS) {
    const value = from.get(name);
    if (value !== null && PLAIN_VALUE.test(value)) lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** The version of a request whose client names none. It accepts every field of the later ones. */
export const ANTHROPIC_VERSION = "2023-06-01";

const VERSION_VALUE = /^[\w.-]{1,64}$/;
/** An open list: its entries change with every release of a client, and a body field needs its own entry. */
const BETA_VALUE = /^[\w.,: -]{1,4096}$/;

/** The same for a Messages API: the version is required, the list of betas belongs to the fields of the body. */
export function forwardedMessagesHeaders(from: HeaderReader): string {
  const version = from.get("anthropic-version");
  const betas = from.get("anthropic-beta");
  const isKnownForm = version !== null && VERSION_VALUE.test(version);
  const versionLine = `anthropic-version: ${isKnownForm ? version : ANTHROPIC_VERSION}\r\n`;
  return betas !== null && BETA_VALUE.test(betas)
    ? `${versionLine}anthropic-beta: ${betas}\r\n`
    : versionLine;
}

const PROCESSING_MS = /^\d{1,9}$/;

/**
 * Returns the forwarded headers as lines of the response head. An upstream header is forwarded only if its value has
 * the expected format. `x-codex-turn-state` is not forwarded: it is valid for that account only,
 * and the gateway keeps conversations on their account by other means.
 */
export function forwardedResponseHeaders(
  from: ResponseHeaders,
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
  /^(?:req_[0-9a-f]{32}|req_(?:vrtx_)?[0-9A-Za-z]{20,32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/;

/** The upstream's request id, for its support. Only values in the form of an id are accepted. */
export function upstreamRequestId(from: ResponseHeaders): string | null {
  const id =
    from.get("x-request-id") ??
    from.get("apim-request-id") ??
    from.get("request-id") ??
    from.get("x-amzn-requestid");
  return id !== null && UPSTREAM_REQUEST_ID.test(id) ? id : null;
}
