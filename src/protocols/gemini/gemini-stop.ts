/** Why a response ended, and what it used, in Gemini's terms. */

import type { HubStop } from "../hub/hub-response.ts";
import { type Json, readObject, readString } from "../hub/json-values.ts";
import type { UpstreamError } from "../shared/upstream-error.ts";
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
]);

/** `broken`: the model failed, and another attempt may succeed. */
export function readFinishReason(reason: string): HubStop | "broken" {
  if (FILTERED.has(reason)) return "filtered";
  switch (reason) {
    case "STOP":
      return "end";
    case "MAX_TOKENS":
      return "length";
    case "CONTINUATION":
      return "paused";
    default:
      return "broken";
  }
}

export function writeFinishReason(stop: HubStop): string {
  switch (stop) {
    case "length":
    case "context":
      return "MAX_TOKENS";
    case "filtered":
      return "SAFETY";
    case "end":
    case "stop_sequence":
    case "tools":
    case "paused":
      return "STOP";
  }
}

/** Feedback without a reason only rates the prompt. */
export function isBlocked({ promptFeedback }: Json): boolean {
  return readString(readObject(promptFeedback)?.blockReason) !== null;
}

export function brokenResponse(message: string): UpstreamError {
  return { code: "server_error", type: null, param: null, message };
}

/** Google omits counts of zero. */
export function writeUsageMetadata(usage: TokenUsage): Record<string, number> {
  const { inputTokens, cachedTokens, outputTokens, reasoningTokens } = usage;
  const answerTokens = outputTokens - reasoningTokens;
  return {
    promptTokenCount: inputTokens,
    ...(answerTokens === 0 ? {} : { candidatesTokenCount: answerTokens }),
    totalTokenCount: inputTokens + outputTokens,
    ...(cachedTokens === 0 ? {} : { cachedContentTokenCount: cachedTokens }),
    ...(reasoningTokens === 0 ? {} : { thoughtsTokenCount: reasoningTokens }),
  };
}
