/** Token counts as an answer reports them, in one shape for all families. */

import { isObject } from "../../json/parse.ts";

export interface TokenUsage {
  inputTokens: number;
  /** Inside `inputTokens`, as are the other kinds of input. */
  cachedTokens: number;
  cacheWriteTokens: number;
  imageInputTokens: number;
  audioInputTokens: number;
  outputTokens: number;
  /** Inside `outputTokens`, as is audio. */
  reasoningTokens: number;
  audioOutputTokens: number;
  /** The half that was not reported and does not follow from the total. It stands as 0 here, and has to be counted. */
  lacks: "input" | "output" | null;
  /** It was reported before the answer had ended: more may have been said since. */
  isEarly: boolean;
  /** It named a count that no answer can have. Such a count stands as 0 here, and none of the others is to be trusted. */
  absurd: boolean;
}

/**
 * Reads a `usage` object of any family. Null when there is none, or when it tells neither input nor output. A count
 * that is not a non-negative safe integer is never used: an upstream must not be able to credit anyone. An explicit
 * 0 is a value; null is as good as missing.
 */
export function readUsage(json: unknown): TokenUsage | null {
  if (!isObject(json)) return null;
  const input = json.input_tokens ?? json.prompt_tokens ?? null;
  const output = json.output_tokens ?? json.completion_tokens ?? null;
  if (input === null && output === null) return null;
  const total = json.total_tokens ?? null;
  const inputDetails = detailsOf(json.input_tokens_details ?? json.prompt_tokens_details);
  const outputDetails = detailsOf(json.output_tokens_details ?? json.completion_tokens_details);
  const cached = inputDetails.cached_tokens ?? json.prompt_cache_hit_tokens;
  const inputTokens = input === null ? rest(total, output) : count(input);
  const outputTokens = output === null ? rest(total, input) : count(output);
  return {
    inputTokens,
    cachedTokens: partOf(inputTokens, cached),
    cacheWriteTokens: partOf(inputTokens, inputDetails.cache_write_tokens),
    imageInputTokens: partOf(inputTokens, inputDetails.image_tokens),
    audioInputTokens: partOf(inputTokens, inputDetails.audio_tokens),
    outputTokens,
    reasoningTokens: partOf(outputTokens, outputDetails.reasoning_tokens),
    audioOutputTokens: partOf(outputTokens, outputDetails.audio_tokens),
    lacks: total !== null ? null : input === null ? "input" : output === null ? "output" : null,
    isEarly: false,
    absurd:
      isNonsense(input) ||
      isNonsense(output) ||
      isNonsense(total) ||
      isNonsense(cached) ||
      isNonsense(inputDetails.cache_write_tokens) ||
      isNonsense(inputDetails.image_tokens) ||
      isNonsense(inputDetails.audio_tokens) ||
      isNonsense(outputDetails.reasoning_tokens) ||
      isNonsense(outputDetails.audio_tokens),
  };
}

/** What a model can take in and give; null where it is not known. */
export interface ModelWindow {
  contextTokens: number | null;
  outputTokensMax: number | null;
}

/** Several times what the largest models take: beyond it a count is wrong, whatever the model. */
const INPUT_TOKENS_SANE_MAX = 50_000_000;
const OUTPUT_TOKENS_SANE_MAX = 5_000_000;

/**
 * True for usage that is to be clamped and flagged. Each of `choices` answers may use the whole output. A call that
 * adds up several passes (a batch of embeddings, hosted tools) may rightly exceed the window: its window is null.
 */
export function isImpossibleUsage(usage: TokenUsage, window: ModelWindow, choices = 1): boolean {
  const inputMax = window.contextTokens ?? INPUT_TOKENS_SANE_MAX;
  const outputMax = window.outputTokensMax ?? window.contextTokens ?? OUTPUT_TOKENS_SANE_MAX;
  return usage.absurd || usage.inputTokens > inputMax || usage.outputTokens > outputMax * choices;
}

function detailsOf(json: unknown): Record<string, unknown> {
  return isObject(json) ? json : {};
}

function partOf(whole: number, part: unknown): number {
  return Math.min(whole, count(part));
}

/** Something was reported that is no count. */
function isNonsense(value: unknown): boolean {
  return value !== undefined && value !== null && !isCount(value);
}

function rest(total: unknown, known: unknown): number {
  return Math.max(0, count(total) - count(known));
}

function count(value: unknown): number {
  return isCount(value) ? value : 0;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
