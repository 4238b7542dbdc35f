/** Token usage as Gemini reports it: the `usageMetadata` of a response. */

import { isObject } from "../../json/parse.ts";
import { readTier } from "../shared/service-tier.ts";
import { isInvalidCount, readCount, type TokenUsage } from "../shared/usage.ts";

/**
 * Fields with the value 0 are omitted by Google, so a missing count is 0. `promptTokenCount` includes the cached tokens;
 * `candidatesTokenCount` excludes the thoughts, which are billed as output.
 */
export function readGeminiUsage(json: unknown): TokenUsage | null {
  if (!isObject(json)) return null;
  const { promptTokenCount, candidatesTokenCount, totalTokenCount } = json;
  if (promptTokenCount === undefined && candidatesTokenCount === undefined && totalTokenCount === undefined)
    return null;
  const counts = [
    promptTokenCount,
    candidatesTokenCount,
    totalTokenCount,
    json.cachedContentTokenCount,
    json.thoughtsTokenCount,
    json.toolUsePromptTokenCount,
  ];
  const toolTokens = readCount(json.toolUsePromptTokenCount);
  const thoughtTokens = readCount(json.thoughtsTokenCount);
  const promptTokens =
    promptTokenCount === undefined
      ? Math.max(0, readCount(totalTokenCount) - toolTokens - thoughtTokens - readCount(candidatesTokenCount))
      : readCount(promptTokenCount);
  const inputTokens = promptTokens + toolTokens;
  const responseTokens =
    candidatesTokenCount === undefined
      ? Math.max(0, readCount(totalTokenCount) - inputTokens - thoughtTokens)
      : readCount(candidatesTokenCount);
  const outputTokens = responseTokens + thoughtTokens;
  return {
    inputTokens,
    cachedTokens: Math.min(inputTokens, readCount(json.cachedContentTokenCount)),
    cacheWriteTokens: 0,
    cacheWrite1hTokens: 0,
    imageInputTokens: Math.min(inputTokens, countModality(json.promptTokensDetails, "IMAGE")),
    audioInputTokens: Math.min(inputTokens, countModality(json.promptTokensDetails, "AUDIO")),
    outputTokens,
    reasoningTokens: thoughtTokens,
    audioOutputTokens: Math.min(outputTokens, countModality(json.candidatesTokensDetails, "AUDIO")),
    webSearches: 0,
    tier: readTier(json.serviceTier),
    missing: findMissing(json),
    isEarly: false,
    hasImpossibleCount: counts.some(isInvalidCount),
  };
}

/** Without a total, the half that is not reported does not follow from it. */
function findMissing(json: Readonly<Record<string, unknown>>): TokenUsage["missing"] {
  if (json.totalTokenCount !== undefined) return null;
  if (json.promptTokenCount === undefined) return "input";
  return json.candidatesTokenCount === undefined && json.thoughtsTokenCount === undefined ? "output" : null;
}

/** Sums the tokens of one modality in a list like `[{ "modality": "AUDIO", "tokenCount": 12 }]`. */
function countModality(details: unknown, modality: "IMAGE" | "AUDIO"): number {
  if (!Array.isArray(details)) return 0;
  let tokens = 0;
  for (const detail of details) {
    if (isObject(detail) && detail.modality === modality) tokens += readCount(detail.tokenCount);
  }
  return tokens;
}
