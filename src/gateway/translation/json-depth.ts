/** Rejects JSON of upstreams that is nested too deeply: writing it again takes seconds, or fails. */

import type { Part } from "../../base/parts.ts";
import { scanObject, wantedFields } from "../../json/scan.ts";

/** As deep as a request may be nested. */
export const DEPTH_MAX = 128;
/** A shorter text cannot be nested so deeply that it takes noticeable time. */
const CHECKED_BYTES_MIN = 16 * 1024;
const NOTHING = wantedFields([]);

export function isTooDeep({ bytes, start, end }: Part): boolean {
  if (end - start < CHECKED_BYTES_MIN) return false;
  const scan = scanObject(bytes, start, end, NOTHING, { depthMax: DEPTH_MAX });
  return !scan.ok && scan.reason === "depth";
}
