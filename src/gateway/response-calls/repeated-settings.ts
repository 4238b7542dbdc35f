/** Settings of a request that its response repeats, for a response whose request is no longer known. */

import { joinParts, type Part, partsLength, wholeBytesPart } from "../../base/parts.ts";
import { JSON_DEPTH_MAX, usageLimits } from "../../count-limits.ts";
import { isObject } from "../../json/parse.ts";
import { scanObject, wantedFields } from "../../json/scan.ts";
import { findEventFault, parseMember, SCANNED_EVENT } from "../../protocols/shared/event-bounds.ts";

const FIELDS = wantedFields(["max_tool_calls", "reasoning"]);
/** With images. Copying a longer one would hold the event loop. */
const SEARCHED_BYTES_MAX = 16 * 1024 * 1024;

/** The most searches, which the gateway has added to the request. Null if the response does not say. */
export function readSearchLimit(body: readonly Part[]): number | null {
  const limit = readMember(body, "max_tool_calls");
  if (typeof limit !== "number" || !Number.isSafeInteger(limit) || limit < 0) return null;
  return Math.min(limit, usageLimits.webSearchesMax);
}

export function readEffort(body: readonly Part[]): string | null {
  const reasoning = readMember(body, "reasoning");
  return isObject(reasoning) && typeof reasoning.effort === "string" ? reasoning.effort : null;
}

/** Null if it is missing, or too long to be searched. The response is scanned: parsing it would hold the event loop. */
function readMember(body: readonly Part[], name: "max_tool_calls" | "reasoning"): unknown {
  if (partsLength(body) > SEARCHED_BYTES_MAX) return null;
  const bytes = joinParts(body);
  if (findEventFault(wholeBytesPart(bytes), SCANNED_EVENT) !== null) return null;
  const scan = scanObject(bytes, 0, bytes.length, FIELDS, { depthMax: JSON_DEPTH_MAX });
  const field = scan.ok ? scan.fields[name] : undefined;
  return field === undefined ? null : parseMember(bytes, field);
}
