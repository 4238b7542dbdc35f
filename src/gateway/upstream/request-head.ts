/** The path and the header lines of a request to an account. */

import type { PolicyAccount } from "../../accounts/account.ts";
import { hostedHeaderLines, hostedPath, isHosted } from "../../accounts/cloud/hosting.ts";
import { forwardedMessagesHeaders, forwardedRequestHeaders } from "../../accounts/headers.ts";
import { credentialHeader, upstreamPath } from "../../accounts/upstream-address.ts";
import { EVENT_FRAMES_TYPE } from "../../protocols/messages/bedrock-events.ts";
import type { UpstreamAttempt } from "./upstream-attempt.ts";

export const JSON_TYPE = "application/json";
const EVENTS_TYPE = "text/event-stream";
const MESSAGES_PATH = "/messages";

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
export function lookUpPath({ account, path, upstreamModel, body, wantsEvents }: UpstreamAttempt): string {
  if (isHosted(account)) return hostedPath(account, { path, upstreamModel, streams: wantsEvents });
  // Without a body the path contains the id of a stored response. Their number is unbounded, so they are not cached.
  if (account.kind === "azure" || body === null || path.includes("{model}"))
    return upstreamPath(account, path, upstreamModel);
  const paths = cacheFor(account, commonPaths);
  let resolved = paths.get(path);
  if (resolved === undefined) {
    resolved = upstreamPath(account, path, upstreamModel);
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
    if (wantsEvents) lines += `accept: ${account.kind === "bedrock" ? EVENT_FRAMES_TYPE : EVENTS_TYPE}\r\n`;
    if (kind !== null) byKind.set(kind, lines);
  }
  const tokenLine = token === null ? "" : `authorization: Bearer ${token}\r\n`;
  const extra = tokenLine + forwardedLines(attempt) + traceLines;
  return extra === "" ? lines : lines + extra;
}

function forwardedLines({ account, path, clientHeaders }: UpstreamAttempt): string {
  if (isHosted(account)) return hostedHeaderLines(account, { path, clientHeaders });
  return path.startsWith(MESSAGES_PATH)
    ? forwardedMessagesHeaders(clientHeaders)
    : forwardedRequestHeaders(clientHeaders);
}
