/**
 * Reads and writes the `usage` object of the Messages API. Its `input_tokens` exclude the cache, while the gateway's
 * counts include it: the parts are added up here, once.
 */

import { isObject } from "../../json/parse.ts";
import { NO_TOKENS, type TokenCounts } from "../../money/token-counts.ts";
import { LongString } from "../shared/long-strings.ts";
import { readTier } from "../shared/service-tier.ts";
import { isInvalidCount, readCount, type TokenUsage, type UsagePass } from "../shared/usage.ts";

/**
 * Null if there is none, or if it reports neither input nor output. A null count is missing. The counts of a request
 * with several passes (compaction, advice of another model, fallback) cover only those that wrote the message, so the
 * passes are added up.
 */
export function readMessagesUsage(json: unknown): TokenUsage | null {
  if (!isObject(json)) return null;
  const fresh = json.input_tokens ?? null;
  const output = json.output_tokens ?? null;
  if (fresh === null && output === null) return null;
  const details = isObject(json.output_tokens_details) ? json.output_tokens_details : {};
  const thinking = details.thinking_tokens;
  const tools = isObject(json.server_tool_use) ? json.server_tool_use : {};
  const searches = tools.web_search_requests;
  const own = readPass(json);
  const { passes, tokens, isInvalid } = readPasses(json.iterations);
  const areComplete =
    tokens.inputTokens >= own.tokens.inputTokens && tokens.outputTokens >= own.tokens.outputTokens;
  const counts = areComplete ? tokens : own.tokens;
  return {
    inputTokens: counts.inputTokens,
    cachedTokens: counts.cachedTokens,
    cacheWriteTokens: counts.cacheWriteTokens,
    cacheWrite1hTokens: counts.cacheWrite1hTokens,
    imageInputTokens: 0,
    audioInputTokens: 0,
    outputTokens: counts.outputTokens,
    reasoningTokens: Math.min(counts.outputTokens, readCount(thinking)),
    audioOutputTokens: 0,
    webSearches: readCount(searches),
    tier: readTier(json.speed, json.service_tier),
    missing: fresh === null ? "input" : output === null ? "output" : null,
    isEarly: false,
    hasImpossibleCount: [thinking, searches].some(isInvalidCount) || own.isInvalid || isInvalid,
    ...(areComplete && passes.length > 0 ? { passes } : {}),
  };
}

/** The passes of a report, with their sum. */
interface Passes {
  readonly passes: readonly UsagePass[];
  readonly tokens: TokenCounts;
  readonly isInvalid: boolean;
}

const NO_PASSES: Passes = { passes: [], tokens: NO_TOKENS, isInvalid: false };

/** A stream may report its usage in thousands of events that repeat no passes: those of an earlier event are read once. */
const knownPasses = new WeakMap<readonly unknown[], Passes>();

function readPasses(iterations: unknown): Passes {
  if (!Array.isArray(iterations)) return NO_PASSES;
  let known = knownPasses.get(iterations);
  if (known === undefined) {
    const read = iterations.filter(isObject).slice(0, PASSES_MAX).map(readPass);
    known = {
      passes: read.map(({ model, tokens }) => ({ model, tokens })),
      tokens: read.reduce((sum, { tokens }) => addTokens(sum, tokens), NO_TOKENS),
      isInvalid: read.some((pass) => pass.isInvalid),
    };
    knownPasses.set(iterations, known);
  }
  return known;
}

/** More are not plausible: their sum is below the total then, and they are not used. */
const PASSES_MAX = 1_000;

function readPass(json: Readonly<Record<string, unknown>>): UsagePass & { readonly isInvalid: boolean } {
  const { input_tokens: fresh, output_tokens: output, cache_read_input_tokens: cached, model } = json;
  const written = json.cache_creation_input_tokens;
  const lifetimes = isObject(json.cache_creation) ? json.cache_creation : {};
  const hour = lifetimes.ephemeral_1h_input_tokens;
  // Older reports have only the sum, newer ones may have only the parts.
  const parts = readCount(lifetimes.ephemeral_5m_input_tokens) + readCount(hour);
  const cacheWriteTokens = Math.max(readCount(written), parts);
  return {
    model: typeof model === "string" ? model : null,
    tokens: {
      ...NO_TOKENS,
      inputTokens: readCount(fresh) + readCount(cached) + cacheWriteTokens,
      cachedTokens: readCount(cached),
      cacheWriteTokens,
      cacheWrite1hTokens: Math.min(cacheWriteTokens, readCount(hour)),
      outputTokens: readCount(output),
    },
    isInvalid: [fresh, output, cached, written, hour].some(isInvalidCount),
  };
}

function addTokens(sum: TokenCounts, more: TokenCounts): TokenCounts {
  return {
    ...sum,
    inputTokens: sum.inputTokens + more.inputTokens,
    cachedTokens: sum.cachedTokens + more.cachedTokens,
    cacheWriteTokens: sum.cacheWriteTokens + more.cacheWriteTokens,
    cacheWrite1hTokens: sum.cacheWrite1hTokens + more.cacheWrite1hTokens,
    outputTokens: sum.outputTokens + more.outputTokens,
  };
}

/** Reports have about ten members. A stream that adds others to each of its reports would be copied again and again. */
const USAGE_MEMBERS_MAX = 64;

/** The counts of a stream are cumulative, and later events correct earlier ones; null keeps the earlier count. */
export function mergeMessagesUsage(
  earlier: Readonly<Record<string, unknown>>,
  later: unknown,
): Readonly<Record<string, unknown>> {
  if (!isObject(later)) return earlier;
  const merged: Record<string, unknown> = { ...earlier };
  let members = Object.keys(merged).length;
  for (const [name, value] of Object.entries(later)) {
    // A long string would keep its whole event in memory.
    if (value === null || value instanceof LongString) continue;
    if (!(name in merged) && ++members > USAGE_MEMBERS_MAX) continue;
    merged[name] = value;
  }
  return merged;
}

/** The report at the end of a stream counts the output. One without it leaves the output to be counted. */
export function isFinalMessagesUsage(json: unknown): boolean {
  return isObject(json) && typeof json.output_tokens === "number";
}

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
