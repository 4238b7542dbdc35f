/**
 * Reads the `usage` object of the Messages API. Its `input_tokens` exclude the cache, while the gateway's counts include
 * it: the parts are added up here, once.
 */

import { isObject } from "../../json/parse.ts";
import { readTier } from "./service-tier.ts";
import { isCount, isInvalidCount, type TokenUsage } from "./usage.ts";

/** Null if there is none, or if it reports neither input nor output. A null count is missing. */
export function readMessagesUsage(json: unknown): TokenUsage | null {
  if (!isObject(json)) return null;
  const fresh = json.input_tokens ?? null;
  const output = json.output_tokens ?? null;
  if (fresh === null && output === null) return null;
  const cached = json.cache_read_input_tokens;
  const written = json.cache_creation_input_tokens;
  const lifetimes = isObject(json.cache_creation) ? json.cache_creation : {};
  const hour = lifetimes.ephemeral_1h_input_tokens;
  const details = isObject(json.output_tokens_details) ? json.output_tokens_details : {};
  const thinking = details.thinking_tokens;
  const tools = isObject(json.server_tool_use) ? json.server_tool_use : {};
  const searches = tools.web_search_requests;
  const outputTokens = count(output);
  // Older reports have only the sum, newer ones may have only the parts.
  const parts = count(lifetimes.ephemeral_5m_input_tokens) + count(hour);
  const cacheWriteTokens = Math.max(count(written), parts);
  return {
    inputTokens: count(fresh) + count(cached) + cacheWriteTokens,
    cachedTokens: count(cached),
    cacheWriteTokens,
    cacheWrite1hTokens: Math.min(cacheWriteTokens, count(hour)),
    imageInputTokens: 0,
    audioInputTokens: 0,
    outputTokens,
    reasoningTokens: Math.min(outputTokens, count(thinking)),
    audioOutputTokens: 0,
    webSearches: count(searches),
    tier: readTier(json.speed, json.service_tier),
    missing: fresh === null ? "input" : output === null ? "output" : null,
    isEarly: false,
    hasImpossibleCount: [fresh, output, cached, written, hour, thinking, searches].some(isInvalidCount),
  };
}

/** The counts of a stream are cumulative, and later events correct earlier ones; null keeps the earlier count. */
export function mergeMessagesUsage(
  earlier: Readonly<Record<string, unknown>>,
  later: unknown,
): Readonly<Record<string, unknown>> {
  if (!isObject(later)) return earlier;
  const merged: Record<string, unknown> = { ...earlier };
  for (const [name, value] of Object.entries(later)) if (value !== null) merged[name] = value;
  return merged;
}

/** The report at the end of a stream counts the output. One without it leaves the output to be counted. */
export function isFinalMessagesUsage(json: unknown): boolean {
  return isObject(json) && typeof json.output_tokens === "number";
}

function count(value: unknown): number {
  return isCount(value) ? value : 0;
}
