/** Token usage as responses report it, in one format for all interfaces. */

import { usageLimits } from "../../count-limits.ts";
import { isObject } from "../../json/parse.ts";
import type { ReportedTier, TokenCounts } from "../../money/token-counts.ts";
import { readTier } from "./service-tier.ts";

/** Images are not part of a report: the readers of responses count them. */
export interface TokenUsage extends Omit<TokenCounts, "images"> {
  /** The service tier; null if the upstream does not report it. */
  tier: ReportedTier | null;
  /** The half that was not reported and does not follow from the total. It is 0 here and must be counted. */
  missing: "input" | "output" | null;
  /** Reported before the response had ended: more output may have followed. */
  isEarly: boolean;
  /** The report contains an impossible count. That count is 0 here, and the others must not be trusted. */
  hasImpossibleCount: boolean;
  /** The passes of a request that ran several, if they are reported. The counts above are their sums. */
  passes?: readonly UsagePass[];
}

/** One pass of a model over its own context, such as a compaction or the advice of another model. */
export interface UsagePass {
  /** Null for the model of the request. */
  readonly model: string | null;
  readonly tokens: TokenCounts;
}

/**
 * Reads a `usage` object of any interface. Returns null if there is none, or if it reports neither input nor output. A
 * count that is not a non-negative safe integer is never used: an upstream must not be able to credit a user. An
 * explicit 0 is a value; null counts as missing.
 */
export function readUsage(json: unknown): TokenUsage | null {
  if (!isObject(json)) return null;
  const input = json.input_tokens ?? json.prompt_tokens ?? null;
  const output = json.output_tokens ?? json.completion_tokens ?? null;
  if (input === null && output === null) return null;
  const total = json.total_tokens ?? null;
  const inputDetails = readDetails(json.input_tokens_details ?? json.prompt_tokens_details);
  const outputDetails = readDetails(json.output_tokens_details ?? json.completion_tokens_details);
  // DeepSeek and Moonshot have the hits of the cache outside the details.
  const cached = inputDetails.cached_tokens ?? json.prompt_cache_hit_tokens ?? json.cached_tokens;
  // OpenRouter has the name of Messages, Perplexity its own.
  const searches = readDetails(json.server_tool_use).web_search_requests ?? json.num_search_queries;
  const inputTokens = input === null ? subtractCounts(total, output) : readCount(input);
  const outputTokens =
    output === null
      ? subtractCounts(total, input)
      : countWithReasoning({ input, output, total, reasoning: outputDetails.reasoning_tokens });
  return {
    inputTokens,
    cachedTokens: countPart(inputTokens, cached),
    cacheWriteTokens: countPart(inputTokens, inputDetails.cache_write_tokens),
    cacheWrite1hTokens: 0,
    imageInputTokens: countPart(inputTokens, inputDetails.image_tokens),
    audioInputTokens: countPart(inputTokens, inputDetails.audio_tokens),
    outputTokens,
    reasoningTokens: countPart(outputTokens, outputDetails.reasoning_tokens),
    audioOutputTokens: countPart(outputTokens, outputDetails.audio_tokens),
    webSearches: readCount(searches),
    tier: readTier(json.service_tier),
    missing: total !== null ? null : input === null ? "input" : output === null ? "output" : null,
    isEarly: false,
    hasImpossibleCount:
      isInvalidCount(input) ||
      isInvalidCount(output) ||
      isInvalidCount(total) ||
      isInvalidCount(cached) ||
      isInvalidCount(inputDetails.cache_write_tokens) ||
      isInvalidCount(inputDetails.image_tokens) ||
      isInvalidCount(inputDetails.audio_tokens) ||
      isInvalidCount(outputDetails.reasoning_tokens) ||
      isInvalidCount(outputDetails.audio_tokens) ||
      isInvalidCount(searches),
  };
}

/** OpenAI reports the tier beside the usage instead of in it. */
export function withTier(usage: TokenUsage | null, tier: unknown): TokenUsage | null {
  return usage === null || usage.tier !== null ? usage : { ...usage, tier: readTier(tier) };
}

/** The limits of a model; null if unknown. */
export interface ModelWindow {
  contextTokens: number | null;
  outputTokensMax: number | null;
}

/**
 * True for usage that must be clamped and flagged. Each of `choices` may use the whole output, and each of `rounds` the
 * whole window.
 */
export function isImpossibleUsage(
  usage: TokenUsage,
  { contextTokens, outputTokensMax }: ModelWindow,
  { choices = 1, rounds = 1 } = {},
): boolean {
  const inputMax = Math.min((contextTokens ?? Number.POSITIVE_INFINITY) * rounds, usageLimits.inputTokensMax);
  const outputMax = (outputTokensMax ?? contextTokens ?? usageLimits.outputTokensMax) * choices * rounds;
  return usage.hasImpossibleCount || usage.inputTokens > inputMax || usage.outputTokens > outputMax;
}

/**
 * Some vendors count reasoning beside the output instead of in it: xAI, and Google under OpenAI's API. The total shows
 * it; without a total, reasoning that exceeds the output does.
 */
function countWithReasoning(report: {
  readonly input: unknown;
  readonly output: unknown;
  readonly total: unknown;
  readonly reasoning: unknown;
}): number {
  const { input, output, total } = report;
  const outputTokens = readCount(output);
  const reasoningTokens = readCount(report.reasoning);
  if (total === null) return reasoningTokens > outputTokens ? outputTokens + reasoningTokens : outputTokens;
  return input === null ? outputTokens : Math.max(outputTokens, subtractCounts(total, input));
}

function readDetails(json: unknown): Record<string, unknown> {
  return isObject(json) ? json : {};
}

function countPart(whole: number, part: unknown): number {
  return Math.min(whole, readCount(part));
}

/** A value was reported that is not a count. */
export function isInvalidCount(value: unknown): boolean {
  return value !== undefined && value !== null && !isCount(value);
}

function subtractCounts(total: unknown, known: unknown): number {
  return Math.max(0, readCount(total) - readCount(known));
}

/** A value that is not a count is none. */
export function readCount(value: unknown): number {
  return isCount(value) ? value : 0;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
