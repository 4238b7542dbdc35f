/** Checks the query of a request to the Gemini API: the key must not be in it, and streams are server-sent events. */

import { parseQuery } from "../console-api/http/query.ts";
import { paramError } from "../errors.ts";
import type { Endpoint } from "../protocols/shared/endpoint.ts";

/** A key in a URL is written to the logs of proxies and servers, so it is rejected even if it is valid. */
export function rejectKeyInQuery(query: string): void {
  if (!query.includes("key=") || !parseQuery(query).has("key")) return;
  throw paramError(
    "key",
    "invalid_request",
    "The API key must not be in the URL, where it is written to logs. Send it in the header `x-goog-api-key` and remove `?key=`. Revoke the key if others may have seen this URL.",
  );
}

/** Without `alt=sse` Google streams a JSON array, which this gateway does not write. */
export function checkGeminiQuery({ streaming }: Endpoint, query: string): void {
  rejectKeyInQuery(query);
  if (streaming !== "always" || parseQuery(query).get("alt") === "sse") return;
  throw paramError(
    "alt",
    "unsupported_parameter",
    "`streamGenerateContent` is supported as server-sent events only. Add `?alt=sse` to the URL, or call `generateContent`.",
  );
}
