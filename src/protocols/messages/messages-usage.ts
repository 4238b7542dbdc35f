/** Writes token usage in the form of the Messages API. */

import type { TokenUsage } from "../shared/usage.ts";

/** `input_tokens` exclude what was read from or written to the cache. */
export function writeMessagesUsage(usage: TokenUsage): Record<string, unknown> {
  const { inputTokens, cachedTokens, cacheWriteTokens, cacheWrite1hTokens, outputTokens, reasoningTokens } =
    usage;
  return {
    input_tokens: Math.max(0, inputTokens - cachedTokens - cacheWriteTokens),
    cache_creation_input_tokens: cacheWriteTokens,
    cache_read_input_tokens: cachedTokens,
    ...(cacheWriteTokens === 0
      ? {}
      : {
          cache_creation: {
            ephemeral_5m_input_tokens: cacheWriteTokens - cacheWrite1hTokens,
            ephemeral_1h_input_tokens: cacheWrite1hTokens,
          },
        }),
    output_tokens: outputTokens,
    ...(usage.webSearches === 0
      ? {}
      : { server_tool_use: { web_search_requests: usage.webSearches, web_fetch_requests: 0 } }),
    ...(reasoningTokens === 0 ? {} : { output_tokens_details: { thinking_tokens: reasoningTokens } }),
  };
}
