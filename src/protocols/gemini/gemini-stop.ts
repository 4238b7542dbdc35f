/** Why a response ended, and what it used, in Gemini's terms. */

import type { DroppedFields } from "../hub/dropped-fields.ts";
import type { HubStop } from "../hub/hub-response.ts";
import { type Json, readObject, readString } from "../hub/json-values.ts";
import type { TokenUsage } from "../shared/usage.ts";

const FILTERED: ReadonlySet<string> = new Set([
  "SAFETY",
  "RECITATION",
  "BLOCKLIST",
  "PROHIBITED_CONTENT",
  "SPII",
  "LANGUAGE",
  "IMAGE_SAFETY",
  "IMAGE_PROHIBITED_CONTENT",
  "IMAGE_RECITATION",
  "MODEL_ARMOR",
]);

/**
 * The model decides how it ends, so no reason is a fault of the account. Those that name an output without use
 * (`MALFORMED_FUNCTION_CALL`, `UNEXPECTED_TOOL_CALL`, `OTHER`), and unknown ones, are `failed`.
 */
export function readFinishReason(reason: string): HubStop {
  if (FILTERED.has(reason)) return "filtered";
  switch (reason) {
    case "STOP":
      return "end";
    case "MAX_TOKENS":
      return "length";
    case "CONTINUATION":
      return "paused";
    default:
      return "failed";
  }
}

export function writeFinishReason(stop: HubStop): string {
  switch (stop) {
    case "length":
    case "context":
      return "MAX_TOKENS";
    case "filtered":
      return "SAFETY";
    case "failed":
      return "OTHER";
    case "end":
    case "stop_sequence":
    case "tools":
    case "paused":
      return "STOP";
  }
}

/** Names what the end of a candidate says and other dialects cannot express. */
export function noteCandidateLosses(
  candidate: Json,
  stop: HubStop,
  dropped: Pick<DroppedFields, "add">,
): void {
  if (stop === "failed") dropped.add(`finishReason.${readString(candidate.finishReason)}`);
  if (readObject(candidate.logprobsResult) !== null) dropped.add("logprobsResult");
}

/** Feedback without a reason only rates the prompt. */
export function isBlocked({ promptFeedback }: Json): boolean {
  return readString(readObject(promptFeedback)?.blockReason) !== null;
}

/** Google omits counts of zero. */
export function writeUsageMetadata(usage: TokenUsage): Record<string, number> {
  const { inputTokens, cachedTokens, outputTokens, reasoningTokens } = usage;
  const responseTokens = outputTokens - reasoningTokens;
  return {
    promptTokenCount: inputTokens,
    ...(responseTokens === 0 ? {} : { candidatesTokenCount: responseTokens }),
    totalTokenCount: inputTokens + outputTokens,
    ...(cachedTokens === 0 ? {} : { cachedContentTokenCount: cachedTokens }),
    ...(reasoningTokens === 0 ? {} : { thoughtsTokenCount: reasoningTokens }),
  };
}
