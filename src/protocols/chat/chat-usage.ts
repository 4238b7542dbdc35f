/** Writes token usage in the form of Chat Completions. */

import { formatTier } from "../shared/service-tier.ts";
import type { TokenUsage } from "../shared/usage.ts";

export function writeUsageMembers(usage: TokenUsage): Record<string, unknown> {
  return {
    ...(usage.tier === null ? {} : { service_tier: formatTier(usage.tier) }),
    usage: writeChatUsage(usage),
  };
}

function writeChatUsage(usage: TokenUsage): Record<string, unknown> {
  return {
    prompt_tokens: usage.inputTokens,
    completion_tokens: usage.outputTokens,
    total_tokens: usage.inputTokens + usage.outputTokens,
    prompt_tokens_details: {
      cached_tokens: usage.cachedTokens,
      ...(usage.cacheWriteTokens === 0 ? {} : { cache_write_tokens: usage.cacheWriteTokens }),
    },
    completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  };
}
