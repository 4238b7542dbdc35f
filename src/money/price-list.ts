/**
 * Public list prices of well-known models, so that a new installation can charge without its own prices. They are a
 * snapshot of one day: an operator's price takes precedence, and `prices update` replaces entries.
 */

import type { ListedModel, Price, PriceList, PriceQuotation } from "../records/price.ts";
import { HOSTED_MODELS } from "./hosted-prices.ts";
import { ANTHROPIC_MODELS, GOOGLE_MODELS } from "./vendor-prices.ts";

const SEARCH_QUOTATION: PriceQuotation = {
  units: ["per_call.web_search"],
  source: "OpenAI",
  date: "2026-11-17",
};

function buildListedModel(
  price: Price,
  contextTokens: number | null,
  outputTokensMax: number | null,
): ListedModel {
  const isQuoted = price.per_call !== undefined;
  return { price, contextTokens, outputTokensMax, ...(isQuoted ? { quotation: SEARCH_QUOTATION } : {}) };
}

const tokens = (input: string, cached_input: string, output: string): Price => ({
  input,
  cached_input,
  output,
});

/**
 * OpenAI's price of a search by the tool `web_search`, the same for all models that have it. The older
 * `web_search_preview` and the search models that are not reasoning models cost more.
 */
const SEARCH = { per_call: { web_search: "0.01" } } as const;
const PREVIEW_SEARCH = { per_call: { web_search: "0.025" } } as const;

const gpt5 = buildListedModel({ ...tokens("1.25", "0.125", "10"), ...SEARCH }, 400_000, 128_000);
const gpt5mini = buildListedModel({ ...tokens("0.25", "0.025", "2"), ...SEARCH }, 400_000, 128_000);
const gpt5nano = buildListedModel({ ...tokens("0.05", "0.005", "0.40"), ...SEARCH }, 400_000, 128_000);
const gpt5chat = buildListedModel({ ...tokens("1.25", "0.125", "10"), ...SEARCH }, 128_000, 16_384);
const gpt52 = buildListedModel({ ...tokens("1.75", "0.175", "14"), ...SEARCH }, 400_000, 128_000);
const gpt4o = buildListedModel({ ...tokens("2.50", "1.25", "10"), ...SEARCH }, 128_000, 16_384);
const gpt4oMini = buildListedModel({ ...tokens("0.15", "0.075", "0.60"), ...SEARCH }, 128_000, 16_384);
const gpt41 = buildListedModel({ ...tokens("2", "0.50", "8"), ...SEARCH }, 1_047_576, 32_768);
const gpt41mini = buildListedModel({ ...tokens("0.40", "0.10", "1.60"), ...SEARCH }, 1_047_576, 32_768);
const gpt41nano = buildListedModel(tokens("0.10", "0.025", "0.40"), 1_047_576, 32_768);
const o3 = buildListedModel({ ...tokens("2", "0.50", "8"), ...SEARCH }, 200_000, 100_000);
const o4mini = buildListedModel({ ...tokens("1.10", "0.275", "4.40"), ...SEARCH }, 200_000, 100_000);

/** Sizes of the GPT image models: square, tall, wide. */
function buildSizePrices(quality: string, square: string, oblong: string): Record<string, string> {
  return {
    [`1024x1024/${quality}`]: square,
    [`1024x1536/${quality}`]: oblong,
    [`1536x1024/${quality}`]: oblong,
  };
}

export const BUNDLED_PRICES: PriceList = {
  date: "2026-03-21",
  models: {
    ...ANTHROPIC_MODELS,
    ...GOOGLE_MODELS,
    ...HOSTED_MODELS,
    "gpt-5": gpt5,
    "gpt-5-2025-08-07": gpt5,
    "gpt-5-codex": gpt5,
    "gpt-5-chat-latest": gpt5chat,
    "gpt-5-mini": gpt5mini,
    "gpt-5-mini-2025-08-07": gpt5mini,
    "gpt-5-nano": gpt5nano,
    "gpt-5-nano-2025-08-07": gpt5nano,
    "gpt-5-pro": buildListedModel({ input: "15", output: "120", ...SEARCH }, 400_000, 272_000),
    "gpt-5.1": gpt5,
    "gpt-5.1-codex": gpt5,
    "gpt-5.1-codex-mini": gpt5mini,
    "gpt-5.1-chat-latest": gpt5chat,
    "gpt-5.2": gpt52,
    "gpt-5.2-codex": gpt52,
    "gpt-4.1": gpt41,
    "gpt-4.1-2025-04-14": gpt41,
    "gpt-4.1-mini": gpt41mini,
    "gpt-4.1-mini-2025-04-14": gpt41mini,
    "gpt-4.1-nano": gpt41nano,
    "gpt-4.1-nano-2025-04-14": gpt41nano,
    "gpt-4o": gpt4o,
    "gpt-4o-2024-08-06": gpt4o,
    "gpt-4o-2024-11-20": gpt4o,
    "gpt-4o-search-preview": buildListedModel(
      { input: "2.50", output: "10", ...PREVIEW_SEARCH },
      128_000,
      16_384,
    ),
    "gpt-4o-mini-search-preview": buildListedModel(
      { input: "0.15", output: "0.60", ...PREVIEW_SEARCH },
      128_000,
      16_384,
    ),
    "gpt-4o-mini": gpt4oMini,
    "gpt-4o-mini-2024-07-18": gpt4oMini,
    o3,
    "o3-2025-04-16": o3,
    "o3-mini": buildListedModel(tokens("1.10", "0.55", "4.40"), 200_000, 100_000),
    "o3-pro": buildListedModel({ input: "20", output: "80" }, 200_000, 100_000),
    "o4-mini": o4mini,
    "o4-mini-2025-04-16": o4mini,
    o1: buildListedModel(tokens("15", "7.50", "60"), 200_000, 100_000),
    "gpt-3.5-turbo": buildListedModel({ input: "0.50", output: "1.50" }, 16_385, 4_096),
    "text-embedding-3-small": buildListedModel({ input: "0.02" }, 8_192, null),
    "text-embedding-3-large": buildListedModel({ input: "0.13" }, 8_192, null),
    "text-embedding-ada-002": buildListedModel({ input: "0.10" }, 8_192, null),
    "gpt-image-1": buildListedModel(
      {
        ...tokens("5", "1.25", "40"),
        image_input: "10",
        // Used if no tokens are reported. A size or quality that the model chose is priced as large and high.
        image: "0.25",
        images: {
          ...buildSizePrices("low", "0.011", "0.016"),
          ...buildSizePrices("medium", "0.042", "0.063"),
          ...buildSizePrices("high", "0.167", "0.25"),
        },
      },
      null,
      null,
    ),
    "gpt-image-1-mini": buildListedModel(
      {
        ...tokens("2", "0.20", "8"),
        image_input: "2.50",
        image: "0.052",
        images: {
          ...buildSizePrices("low", "0.005", "0.006"),
          ...buildSizePrices("medium", "0.011", "0.015"),
          ...buildSizePrices("high", "0.036", "0.052"),
        },
      },
      null,
      null,
    ),
    "dall-e-3": buildListedModel(
      {
        image: "0.12",
        images: {
          "1024x1024": "0.04",
          "1024x1024/hd": "0.08",
          "1024x1792": "0.08",
          "1024x1792/hd": "0.12",
          "1792x1024": "0.08",
          "1792x1024/hd": "0.12",
        },
      },
      null,
      null,
    ),
    "dall-e-2": buildListedModel(
      { image: "0.02", images: { "256x256": "0.016", "512x512": "0.018", "1024x1024": "0.02" } },
      null,
      null,
    ),
  },
};

export type PriceSource = "updated list" | "bundled list";

export interface ListedPrice {
  model: ListedModel;
  source: PriceSource;
  date: string;
}

/** An entry of the operator's list replaces the bundled one of the same name. */
export function findListed(name: string, updated: PriceList | null): ListedPrice | null {
  const lists = [
    { list: updated, source: "updated list" },
    { list: BUNDLED_PRICES, source: "bundled list" },
  ] as const;
  for (const { list, source } of lists) {
    const model = list !== null && Object.hasOwn(list.models, name) ? list.models[name] : undefined;
    if (list !== null && model !== undefined) return { model, source, date: list.date };
  }
  return null;
}

export interface OldPrice {
  /** Null for the whole entry. */
  readonly unit: string | null;
  readonly date: string;
}

/** The parts of an entry whose prices were collected before this date. */
export function findOldPrices({ model, date }: ListedPrice, oldestDate: string): readonly OldPrice[] {
  const { units = [], date: quotedDate = date } = model.quotation ?? {};
  return [
    ...(date < oldestDate ? [{ unit: null, date }] : []),
    ...(quotedDate < oldestDate ? units.map((unit) => ({ unit, date: quotedDate })) : []),
  ];
}
