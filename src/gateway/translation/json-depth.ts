/** Rejects JSON of upstreams that is nested too deeply: writing it again takes seconds, or fails. */

import type { Part } from "../../base/parts.ts";
import { JSON_DEPTH_MAX } from "../../count-limits.ts";
import { scanObject, wantedFields } from "../../json/scan.ts";

/** A shorter text cannot be nested so deeply that it takes noticeable time. */
const CHECKED_BYTES_MIN = 16 * 1024;
const NOTHING = wantedFields([]);

export function isTooDeep({ bytes, start, end }: Part): boolean {
  if (end - start < CHECKED_BYTES_MIN) return false;
  const scan = scanObject(bytes, start, end, NOTHING, { depthMax: JSON_DEPTH_MAX });
  return !scan.ok && scan.reason === "depth";
}
