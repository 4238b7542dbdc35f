/** Token usage as Gemini reports it: the `usageMetadata` of a response. */

import { isObject } from "../../json/parse.ts";
import { readTier } from "../shared/service-tier.ts";
import type { TokenUsage } from "../shared/usage.ts";

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
  const toolTokens = count(json.toolUsePromptTokenCount);
  const thoughtTokens = count(json.thoughtsTokenCount);
  const promptTokens =
    promptTokenCount === undefined
      ? Math.max(0, count(totalTokenCount) - toolTokens - thoughtTokens - count(candidatesTokenCount))
      : count(promptTokenCount);
  const inputTokens = promptTokens + toolTokens;
  const answerTokens =
    candidatesTokenCount === undefined
      ? Math.max(0, count(totalTokenCount) - inputTokens - thoughtTokens)
      : count(candidatesTokenCount);
  const outputTokens = answerTokens + thoughtTokens;
  return {
    inputTokens,
    cachedTokens: Math.min(inputTokens, count(json.cachedContentTokenCount)),
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
    hasImpossibleCount: counts.some((value) => value !== undefined && value !== null && !isCount(value)),
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
    if (isObject(detail) && detail.modality === modality) tokens += count(detail.tokenCount);
  }
  return tokens;
}

function count(value: unknown): number {
  return isCount(value) ? value : 0;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
