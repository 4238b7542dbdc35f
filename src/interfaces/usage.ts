/** Token counts as an answer reports them, in one shape for all families. */

import { isObject } from "../wire/json-parse.ts";

export interface TokenUsage {
  inputTokens: number;
  /** Inside `inputTokens`. */
  cachedTokens: number;
  /** Inside `inputTokens`. */
  cacheWriteTokens: number;
  outputTokens: number;
  /** Inside `outputTokens`. */
  reasoningTokens: number;
}

/**
 * Reads a `usage` object of any family. Null when there is none or when it names no count at all.
 * A count that is not a non-negative safe integer is taken as 0: an upstream must not be able to
 * credit anyone. An explicit 0 is a value.
 */
export function readUsage(json: unknown): TokenUsage | null {
  if (!isObject(json)) return null;
  const input = json.input_tokens ?? json.prompt_tokens;
  const output = json.output_tokens ?? json.completion_tokens;
  if (input === undefined && output === undefined && json.total_tokens === undefined) return null;
  const inputDetails = json.input_tokens_details ?? json.prompt_tokens_details;
  const outputDetails = json.output_tokens_details ?? json.completion_tokens_details;
  const inputTokens = count(input);
  const outputTokens = count(output);
  return {
    inputTokens,
    cachedTokens: Math.min(
      inputTokens,
      isObject(inputDetails) ? count(inputDetails.cached_tokens) : count(json.prompt_cache_hit_tokens),
    ),
    cacheWriteTokens: isObject(inputDetails)
      ? Math.min(inputTokens, count(inputDetails.cache_write_tokens))
      : 0,
    outputTokens,
    reasoningTokens: isObject(outputDetails)
      ? Math.min(outputTokens, count(outputDetails.reasoning_tokens))
      : 0,
  };
}

function count(value: unknown): number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : 0;
}
