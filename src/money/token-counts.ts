/** The counts by which a request is measured, priced and recorded. */

import type { ServiceTier } from "../records/price.ts";

/** `standard` stands for every tier without its own prices. */
export type ReportedTier = ServiceTier | "standard";

/** `unknown` stands for a name that is neither a standard tier nor one with prices: it may be the dearest one. */
export type RequestedTier = ServiceTier | "unknown";

/**
 * Cached, written, image and audio tokens are part of `inputTokens`; reasoning and audio are part of `outputTokens`.
 * Each part may have its own price.
 */
export interface TokenCounts {
  inputTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  /** The part of `cacheWriteTokens` that is kept for an hour instead of five minutes. */
  cacheWrite1hTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  imageInputTokens: number;
  audioInputTokens: number;
  audioOutputTokens: number;
  /** Generated images: not tokens, but counted and priced like them. */
  images: number;
  /** Searches of the web that the upstream ran for the request. */
  webSearches: number;
}

export const NO_TOKENS: Readonly<TokenCounts> = {
  inputTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  imageInputTokens: 0,
  audioInputTokens: 0,
  audioOutputTokens: 0,
  images: 0,
  webSearches: 0,
};
