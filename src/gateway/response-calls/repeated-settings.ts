/** Settings of a request that its response repeats, for a response whose request is no longer known. */

import { joinParts, type Part, partsLength, wholeBytesPart } from "../../base/parts.ts";
import { responseBounds, usageLimits } from "../../count-limits.ts";
import { isObject } from "../../json/parse.ts";
import { parseWithin } from "../../protocols/shared/event-bounds.ts";

/** The most searches, which the gateway has added to the request. Null if the response does not say. */
export function readSearchLimit(body: readonly Part[]): number | null {
  const limit = parseResponse(body).max_tool_calls;
  if (typeof limit !== "number" || !Number.isSafeInteger(limit) || limit < 0) return null;
  return Math.min(limit, usageLimits.webSearchesMax);
}

export function readEffort(body: readonly Part[]): string | null {
  const { reasoning } = parseResponse(body);
  return isObject(reasoning) && typeof reasoning.effort === "string" ? reasoning.effort : null;
}

/** No members if joining or parsing the response would hold the event loop. */
function parseResponse(body: readonly Part[]): Record<string, unknown> {
  if (partsLength(body) > responseBounds.eventParsedBytesMax) return {};
  const json = parseWithin(wholeBytesPart(joinParts(body)));
  return isObject(json) ? json : {};
}
