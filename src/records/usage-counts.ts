/** The counts of requests in lists, charts and reports: their names in the APIs, and in the code. */

import { mapKinds } from "../base/map-kinds.ts";

const USAGE_COUNTS = {
  input_tokens: "inputTokens",
  cached_tokens: "cachedTokens",
  cache_write_tokens: "cacheWriteTokens",
  output_tokens: "outputTokens",
  reasoning_tokens: "reasoningTokens",
  images: "images",
} as const;
export type UsageCount = keyof typeof USAGE_COUNTS;
export const USAGE_COUNT_NAMES = Object.keys(USAGE_COUNTS) as readonly UsageCount[];

export function toUsageCounts(
  counts: Readonly<Record<(typeof USAGE_COUNTS)[UsageCount], number>>,
): Record<UsageCount, number> {
  return mapKinds(USAGE_COUNT_NAMES, (name) => counts[USAGE_COUNTS[name]]);
}
