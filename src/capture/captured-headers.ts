/**
 * The headers that a capture contains. An allow-list: a header that is not known may be a credential. The headers of
 * credentials are listed too, and redacted, because their absence explains many failures.
 */

import type { HeaderReader } from "../net/wire/http-fields.ts";
import type { HeaderList } from "./document.ts";

export const CAPTURED_REQUEST_HEADERS: readonly string[] = [
  "host",
  "user-agent",
  "content-type",
  "content-length",
  "content-encoding",
  "transfer-encoding",
  "accept",
  "accept-encoding",
  "accept-language",
  "authorization",
  "x-api-key",
  "api-key",
  "x-goog-api-key",
  "x-goog-api-client",
  "anthropic-version",
  "anthropic-beta",
  "anthropic-dangerous-direct-browser-access",
  "openai-beta",
  "openai-organization",
  "openai-project",
  "idempotency-key",
  "x-client-request-id",
  "x-stainless-lang",
  "x-stainless-package-version",
  "x-stainless-runtime",
  "x-stainless-runtime-version",
  "x-stainless-os",
  "x-stainless-arch",
  "x-stainless-retry-count",
  "x-stainless-timeout",
  "x-stainless-helper-method",
  "x-app",
  "originator",
  "version",
  "session_id",
  "conversation_id",
  "x-codex-turn-state",
  "x-codex-turn-metadata",
  "x-forwarded-proto",
  "traceparent",
  "origin",
  "upgrade",
  "sec-websocket-version",
];

export const CAPTURED_RESPONSE_HEADERS: readonly string[] = [
  "content-type",
  "content-length",
  "content-encoding",
  "transfer-encoding",
  "date",
  "server",
  "via",
  "retry-after",
  "retry-after-ms",
  "x-should-retry",
  "x-request-id",
  "request-id",
  "apim-request-id",
  "openai-version",
  "openai-processing-ms",
  "openai-model",
  "x-ratelimit-limit-requests",
  "x-ratelimit-remaining-requests",
  "x-ratelimit-reset-requests",
  "x-ratelimit-limit-tokens",
  "x-ratelimit-remaining-tokens",
  "x-ratelimit-reset-tokens",
  "anthropic-ratelimit-requests-remaining",
  "anthropic-ratelimit-tokens-remaining",
  "cf-ray",
];

export function readHeaders(headers: HeaderReader, names: readonly string[]): HeaderList {
  return names.flatMap((name) => {
    const value = headers.get(name);
    return value === null ? [] : [[name, value] as const];
  });
}
