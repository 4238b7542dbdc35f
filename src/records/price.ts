/** Prices as the configuration file writes them, and the price list. */

/** Parts of a price that apply per million tokens. */
export const TOKEN_UNITS = [
  "input",
  "cached_input",
  "cache_write",
  "cache_write_1h",
  "output",
  "reasoning",
  "image_input",
  "audio_input",
  "audio_output",
] as const;
export type TokenUnit = (typeof TOKEN_UNITS)[number];

export const LONG_CONTEXT_UNITS = [
  "input",
  "cached_input",
  "cache_write",
  "cache_write_1h",
  "output",
  "reasoning",
] as const;
export type LongContextUnit = (typeof LONG_CONTEXT_UNITS)[number];

/** A request with more than `above` input tokens is priced by these as a whole. */
type LongContextPrice = Readonly<Partial<Record<LongContextUnit, string>>> & {
  readonly above: number;
  readonly input: string;
};

/** Tools that the upstream runs and bills by the call. */
export const CALL_UNITS = ["web_search"] as const;
export type CallUnit = (typeof CALL_UNITS)[number];

/** Service tiers that have their own prices. */
export const SERVICE_TIERS = ["flex", "priority", "fast"] as const;
export type ServiceTier = (typeof SERVICE_TIERS)[number];

/**
 * Field names as in the configuration file. Amounts are USD as decimal strings, exactly as the operator wrote them.
 * Omitted units fall back.
 */
export type Price = Readonly<Partial<Record<TokenUnit, string>>> & {
  /** Per image. */
  readonly image?: string;
  /** Per image of this size ("1024x1024") or size and quality ("1024x1024/hd"). */
  readonly images?: Readonly<Record<string, string>>;
  /** Per request. */
  readonly request?: string;
  readonly long_context?: LongContextPrice;
  /** Per call of a tool that the upstream runs. */
  readonly per_call?: Readonly<Partial<Record<CallUnit, string>>>;
  /** Multiplies the token prices of requests that were served in this tier. */
  readonly tier?: Readonly<Partial<Record<ServiceTier, string>>>;
};

/** Public facts of a model: the provider's price and the token limits. */
export interface ListedModel {
  readonly price: Price;
  readonly contextTokens: number | null;
  readonly outputTokensMax: number | null;
  /** Prices that were not read on the provider's own page. */
  readonly quotation?: PriceQuotation;
}

export interface PriceQuotation {
  /** The quoted units: `per_call.web_search`. */
  readonly units: readonly string[];
  /** The vendor whose price page was quoted. */
  readonly source: string;
  /** When they were collected: 2026-11-17. */
  readonly date: string;
}

export interface PriceList {
  /** Date of the prices: 2026-03-21. */
  readonly date: string;
  readonly models: Readonly<Record<string, ListedModel>>;
}
