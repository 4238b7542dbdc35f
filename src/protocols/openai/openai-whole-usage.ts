/** Reads the usage of a whole response of OpenAI's API. */

import { stringValue } from "../../json/scan.ts";
import type { BodyFields } from "../shared/endpoint.ts";
import { parseUsageMember } from "../shared/event-bounds.ts";
import { readUsage, type TokenUsage, withTier } from "../shared/usage.ts";

export function readWholeUsage(
  bytes: Uint8Array,
  { usage, service_tier: tier }: BodyFields,
): TokenUsage | null {
  if (usage?.kind !== "object") return null;
  const reported = readUsage(parseUsageMember(bytes, usage));
  return withTier(reported, tier === undefined ? null : stringValue(bytes, tier));
}
