/** What each vendor's usage report costs, from the JSON of the report to the charge in nano-USD. */

import { expect, test } from "bun:test";
import { BUNDLED_PRICES } from "../../money/price-list.ts";
import { computeTariffCosts, makeTariff } from "../../money/tariff.ts";
import { readGeminiUsage } from "../gemini/gemini-usage.ts";
import { readMessagesUsage } from "../messages/messages-usage.ts";
import { readUsage, type TokenUsage } from "./usage.ts";

type Reader = (json: unknown) => TokenUsage | null;

function invoice(model: string, usage: TokenUsage | null): bigint {
  const listed = BUNDLED_PRICES.models[model];
  if (listed === undefined || usage === null) throw new Error(`no invoice for ${model}`);
  const counts = { ...usage, images: 0 };
  return computeTariffCosts(makeTariff(listed.price), counts, { imageKind: null, tier: usage.tier }).costNano;
}

const INVOICES: readonly [what: string, model: string, read: Reader, report: object, nano: bigint][] = [
  [
    "Anthropic: input without the cache, reads, writes of both lifetimes and output",
    "claude-sonnet-4-6",
    readMessagesUsage,
    {
      input_tokens: 1_000,
      cache_read_input_tokens: 10_000,
      cache_creation_input_tokens: 3_000,
      cache_creation: { ephemeral_5m_input_tokens: 1_000, ephemeral_1h_input_tokens: 2_000 },
      output_tokens: 500,
    },
    // 1,000 × $3 + 10,000 × $0.30 + 1,000 × $3.75 + 2,000 × $6 + 500 × $15, per million
    29_250_000n,
  ],
  [
    "Anthropic: a report without lifetimes counts all writes as five minutes",
    "claude-sonnet-4-6",
    readMessagesUsage,
    { input_tokens: 0, cache_creation_input_tokens: 1_000, cache_read_input_tokens: null, output_tokens: 0 },
    3_750_000n,
  ],
  [
    "Anthropic: searches are billed by the call",
    "claude-opus-5",
    readMessagesUsage,
    { input_tokens: 100, output_tokens: 10, server_tool_use: { web_search_requests: 3 } },
    30_750_000n,
  ],
  [
    "Anthropic: the fast mode has its own price",
    "claude-opus-5-5",
    readMessagesUsage,
    { input_tokens: 1_000, output_tokens: 100, speed: "fast" },
    12_000_000n,
  ],
  [
    "Anthropic: a long prompt is counted with its cache",
    "claude-haiku-5-5",
    readMessagesUsage,
    { input_tokens: 1_000, cache_read_input_tokens: 100_000, output_tokens: 0 },
    5_500_000n,
  ],
  [
    "OpenAI: cached tokens are part of the input",
    "gpt-5",
    readUsage,
    {
      prompt_tokens: 1_000,
      completion_tokens: 100,
      total_tokens: 1_100,
      prompt_tokens_details: { cached_tokens: 400 },
    },
    1_800_000n,
  ],
  [
    "DeepSeek: hits of the cache are reported beside the input",
    "gpt-5",
    readUsage,
    {
      prompt_tokens: 1_000,
      completion_tokens: 100,
      total_tokens: 1_100,
      prompt_cache_hit_tokens: 400,
      prompt_cache_miss_tokens: 600,
    },
    1_800_000n,
  ],
  [
    "OpenAI: cache writes have their own price if the report has them",
    "claude-sonnet-4-6",
    readUsage,
    {
      input_tokens: 1_000,
      output_tokens: 100,
      total_tokens: 1_100,
      input_tokens_details: { cached_tokens: 400, cache_write_tokens: 500 },
      output_tokens_details: { reasoning_tokens: 60 },
    },
    // 100 × $3 + 400 × $0.30 + 500 × $3.75 + 100 × $15, per million: reasoning is inside the output
    3_795_000n,
  ],
  [
    "Google: tokens of tools are input, and a missing count follows from the total",
    "gemini-2.5-pro",
    readGeminiUsage,
    { promptTokenCount: 1_000, toolUsePromptTokenCount: 200, thoughtsTokenCount: 50, totalTokenCount: 1_350 },
    // 1,200 × $1.25 + (100 + 50) × $10, per million
    3_000_000n,
  ],
  [
    "Anthropic: thinking is inside the output",
    "claude-sonnet-4-6",
    readMessagesUsage,
    { input_tokens: 100, output_tokens: 50, output_tokens_details: { thinking_tokens: 40 } },
    1_050_000n,
  ],
  [
    "Google: thoughts are output in addition to the candidates",
    "gemini-2.5-pro",
    readGeminiUsage,
    {
      promptTokenCount: 1_000,
      cachedContentTokenCount: 400,
      candidatesTokenCount: 100,
      thoughtsTokenCount: 50,
      totalTokenCount: 1_150,
    },
    2_300_000n,
  ],
];

test.each(INVOICES)("%s", (_what, model, read, report, nano) => {
  expect(invoice(model, read(report))).toBe(nano);
});
