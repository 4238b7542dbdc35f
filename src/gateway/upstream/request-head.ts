/** The path and the header lines of a request to an account. */

import type { PolicyAccount } from "../../accounts/account.ts";
import { credentialHeader, KINDS } from "../../accounts/kinds/table.ts";
import type { UpstreamAttempt } from "./upstream-attempt.ts";

export const JSON_TYPE = "application/json";
const EVENTS_TYPE = "text/event-stream";

/** Header lines and paths that all requests of a kind to an account share, built once. */
const commonLines = new WeakMap<PolicyAccount, Map<string, string>>();
const commonPaths = new WeakMap<PolicyAccount, Map<string, string>>();

function cacheFor(
  account: PolicyAccount,
  cache: WeakMap<PolicyAccount, Map<string, string>>,
): Map<string, string> {
  let texts = cache.get(account);
  if (texts === undefined) {
    texts = new Map();
    cache.set(account, texts);
  }
  return texts;
}

/** Returns the same string object for the same path, so that caches keyed by it hit. */
export function lookUpPath(attempt: UpstreamAttempt): string {
  const { account, path, body } = attempt;
  const kind = KINDS[account.kind];
  // Without a body the path contains the id of a stored response. Their number is unbounded, so they are not cached.
  if (!kind.hasStablePaths || body === null || path.includes("{model}")) return kind.path(account, attempt);
  const paths = cacheFor(account, commonPaths);
  let resolved = paths.get(path);
  if (resolved === undefined) {
    resolved = kind.path(account, attempt);
    paths.set(path, resolved);
  }
  return resolved;
}

/** The headers of an attempt: only those that are needed. `token` is null if the credential itself is sent. */
export function headerLines(userAgent: string, attempt: UpstreamAttempt, token: string | null): string {
  const { account, body, wantsEvents, traceLines = "" } = attempt;
  const byKind = cacheFor(account, commonLines);
  const contentType = body === null ? "" : body.contentType;
  // A multipart content type contains its boundary, which differs for each request, so it is not cached.
  const kind =
    contentType.length > JSON_TYPE.length ? null : wantsEvents ? `${contentType} events` : contentType;
  let lines = kind === null ? undefined : byKind.get(kind);
  if (lines === undefined) {
    const credential = credentialHeader(account);
    // Compression would delay the events of a stream, and a hostile account could send a decompression bomb.
    lines = `user-agent: ${userAgent}\r\naccept-encoding: identity\r\n`;
    if (credential !== null) lines += `${credential[0]}: ${credential[1]}\r\n`;
    if (body !== null) lines += `content-type: ${contentType}\r\n`;
    if (wantsEvents) lines += `accept: ${KINDS[account.kind].framing?.contentType ?? EVENTS_TYPE}\r\n`;
    if (kind !== null) byKind.set(kind, lines);
  }
  const tokenLine = token === null ? "" : `authorization: Bearer ${token}\r\n`;
  const extra = tokenLine + KINDS[account.kind].forwardedHeaders(account, attempt) + traceLines;
  return extra === "" ? lines : lines + extra;
}
