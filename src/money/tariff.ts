/**
 * The price of a publication: prices and multipliers that are fixed once a request is admitted. Counts are multiplied
 * exactly and rounded up once, at the end, to a whole nano-USD.
 */

import { createHash } from "node:crypto";
import {
  type CallUnit,
  type Price,
  type ServiceTier,
  TOKEN_UNITS,
  type TokenUnit,
} from "../records/price.ts";
import { decimalText, type Nano, parseDecimal } from "./nano.ts";
import {
  canonicalPrice,
  type Prices,
  parsePrices,
  type TokenRates,
  withHighestImagePrices,
  withHighestRates,
} from "./prices.ts";
import { NO_TOKENS, type ReportedTier, type RequestedTier, type TokenCounts } from "./token-counts.ts";

export interface Tariff {
  /** A hash of `terms`. */
  readonly id: string;
  /** Canonical JSON of all inputs: `buildTariff` restores the tariff. */
  readonly terms: string;
  readonly prices: Prices;
  /** The multiplier of the group times that of the model, each with six decimals: exact in twelve. */
  readonly multiplierTrillionths: bigint;
  /** The prices that give the highest possible cost. */
  readonly atMost: Readonly<Record<ForeseenInput, Prices>>;
  readonly charged: NanoPerPico;
}

/**
 * What the input may turn out to be: only input (`plain`); also read from or written to a cache (`text`); or also
 * image or audio (`media`). Beyond `plain`, unspecified images count at the highest price, and the input may be
 * shorter: then the long-context price does not apply, which costs more if the operator sells long contexts for less.
 */
export type ForeseenInput = "plain" | "text" | "media";

/**
 * A factor: times `over`, divided by `under`. In lowest terms, to keep products within the safe range; if `over` is
 * not safe, no product with it is.
 */
interface NanoPerPico {
  readonly over: number;
  readonly under: number;
}

/** What a price depends on in addition to the counts. */
export type UsageTerms = Pick<PricedUsage, "imageKind" | "tier">;

/** Measured or expected use, with all that its price depends on. */
export interface PricedUsage extends TokenCounts {
  /** Size and quality: "1024x1024/high". */
  imageKind: string | null;
  /** The tier that served the request; null or absent if it is not known, which is priced as the standard one. */
  tier?: ReportedTier | null;
}

export const NOTHING_USED: PricedUsage = { ...NO_TOKENS, imageKind: null };

export type CostUnit = TokenUnit | CallUnit | "image" | "request";

/** In the order of the lines. */
export const COST_UNITS = [
  "input",
  "cached_input",
  "cache_write",
  "cache_write_1h",
  "image_input",
  "audio_input",
  "output",
  "reasoning",
  "audio_output",
  "image",
  "web_search",
  "request",
] as const satisfies readonly CostUnit[];

/** A line of the calculation, within one nano of its exact amount. The lines add up to the cost. */
export interface CostLine {
  unit: CostUnit;
  count: number;
  /** The list price of one unit, in pico-USD. */
  picoEach: bigint;
  longContext: boolean;
  /** With multipliers. */
  nano: Nano;
}

const MULTIPLIER_DECIMALS = 12;
const ONE = 10n ** BigInt(MULTIPLIER_DECIMALS);
/** The scale of exact sums, which are pico-USD times trillionths. */
const EXACT_PER_NANO = ONE * 1_000n;
const LIST_PRICE: NanoPerPico = { over: 1, under: 1_000 };

const TEXT_UNITS = ["input", "cached_input", "cache_write", "cache_write_1h"] as const;
const INPUT_UNITS = [...TEXT_UNITS, "image_input", "audio_input"] as const;
const OUTPUT_UNITS = ["output", "reasoning", "audio_output"] as const;

interface Multipliers {
  /** Decimal strings with up to six decimals. */
  group: string;
  model?: string | undefined;
}

export function makeTariff(price: Price, multipliers: Multipliers = { group: "1" }): Tariff {
  const combined = parseDecimal(multipliers.group, 6) * parseDecimal(multipliers.model ?? "1", 6);
  return build(canonicalPrice(price), combined);
}

/** Throws if `terms` is not the terms of a tariff. */
export function buildTariff(terms: string): Tariff {
  const { price, multiplier }: { price: Price; multiplier: string } = JSON.parse(terms);
  return build(canonicalPrice(price), parseDecimal(multiplier, MULTIPLIER_DECIMALS));
}

function build(price: Price, multiplierTrillionths: bigint): Tariff {
  const terms = JSON.stringify({
    price,
    multiplier: multiplierText({ multiplierTrillionths }),
  });
  const prices = parsePrices(price);
  const most = withHighestImagePrices(prices);
  return {
    id: createHash("sha256").update(terms).digest("hex").slice(0, 32),
    terms,
    prices,
    multiplierTrillionths,
    atMost: {
      plain: withHighestRates(prices, OUTPUT_UNITS),
      text: withHighestRates(most, OUTPUT_UNITS, TEXT_UNITS),
      media: withHighestRates(most, OUTPUT_UNITS, INPUT_UNITS),
    },
    charged: nanoPerPico(multiplierTrillionths),
  };
}

function nanoPerPico(multiplierTrillionths: bigint): NanoPerPico {
  let [divisor, rest] = [EXACT_PER_NANO, multiplierTrillionths];
  while (rest > 0n) [divisor, rest] = [rest, divisor % rest];
  return { over: Number(multiplierTrillionths / divisor), under: Number(EXACT_PER_NANO / divisor) };
}

/** The shortest decimal text. */
export function multiplierText({ multiplierTrillionths }: Pick<Tariff, "multiplierTrillionths">): string {
  return decimalText(multiplierTrillionths, MULTIPLIER_DECIMALS);
}

/** The charge: with multipliers. */
export function computeTariffCost(tariff: Tariff, used: PricedUsage): Nano {
  return toCharge(tariff, sumPico(tariff.prices, used, used));
}

/** The cost with and without multipliers. */
export interface Costs {
  readonly costNano: Nano;
  readonly listNano: Nano;
}

export const NO_COSTS: Costs = { costNano: 0n, listNano: 0n };

/** Computes both for little more than the cost of one. */
export function computeTariffCosts(tariff: Tariff, used: TokenCounts, terms: UsageTerms): Costs {
  const pico = sumPico(tariff.prices, used, terms);
  const listNano = toListCost(pico);
  const isListed = tariff.charged.over === LIST_PRICE.over && tariff.charged.under === LIST_PRICE.under;
  return { costNano: isListed ? listNano : toCharge(tariff, pico), listNano };
}

/** A part of the use that has its own tariff or its own context. */
interface TariffPart {
  readonly tariff: Tariff;
  readonly used: TokenCounts;
}

/** The cost of a request in several parts. The fee of a request applies once. */
export function computePartsCosts(parts: readonly TariffPart[], terms: UsageTerms): Costs {
  let [costNano, listNano] = [0n, 0n];
  parts.forEach(({ tariff, used }, at) => {
    const pico = sumPico(at === 0 ? tariff.prices : { ...tariff.prices, request: 0n }, used, terms);
    costNano += toCharge(tariff, pico);
    listNano += toListCost(pico);
  });
  return { costNano, listNano };
}

/** The maximum cost: all of the output may turn out to be reasoning or audio, which may cost more. */
export function costAtMost(tariff: Tariff, used: PricedUsage, foreseen: ForeseenInput = "plain"): Nano {
  const prices = tariff.atMost[foreseen];
  const asLong = sumPico(prices, used, used);
  const above = foreseen === "plain" ? undefined : prices.longContext?.above;
  const mayBeShort = above !== undefined && used.inputTokens > above;
  if (!mayBeShort) return toCharge(tariff, asLong);
  const asShort = sumPico(prices, { ...used, inputTokens: above }, used);
  return toCharge(tariff, asLong > asShort ? asLong : asShort);
}

/**
 * The tier if its prices are higher than the standard ones; null otherwise, for a tier that may not be granted. An
 * unknown tier counts as the dearest one.
 */
export function dearerTier({ prices }: Tariff, tier: RequestedTier | null): ServiceTier | null {
  let dearest: ServiceTier | null = null;
  let tokens = prices.tokens;
  for (const [name, rates] of prices.tiers) {
    if (name !== tier && tier !== "unknown") continue;
    if (!TOKEN_UNITS.some((unit) => rates.tokens[unit] > tokens[unit])) continue;
    dearest = name;
    tokens = rates.tokens;
  }
  return dearest;
}

/** The upstream cost: without multipliers. */
export function computeListCost(tariff: Tariff, used: PricedUsage): Nano {
  return toListCost(sumPico(tariff.prices, used, used));
}

/** Whether an image of this kind without reported tokens is charged per image. If not, its tokens must be estimated. */
export function isPaidByPiece({ prices }: Tariff, imageKind: string | null): boolean {
  return !prices.hasOutput || imagePrice(prices, imageKind) > 0n;
}

/** The same calculation line by line. Each line has the amount by which it raised the rounded sum. */
export function costLines(tariff: Tariff, used: PricedUsage): CostLine[] {
  const { prices, multiplierTrillionths } = tariff;
  const rates = ratesFor(prices, used, used.tier);
  const longContext = isLongContext(prices, used);
  const counts = countUnits(prices, used);
  const lines: CostLine[] = [];
  let exact = 0n;
  let charged = 0n;
  for (const unit of COST_UNITS) {
    const count = counts[unit];
    if (count === 0) continue;
    const picoEach = unitPrice(unit, prices, rates, used.imageKind);
    exact += BigInt(count) * picoEach * multiplierTrillionths;
    const sum = roundUp(exact);
    lines.push({ unit, count, picoEach, longContext, nano: sum - charged });
    charged = sum;
  }
  return lines;
}

/**
 * The most output tokens that `nano` pays for in addition to `used`; Number.MAX_SAFE_INTEGER if they are free, 0 if
 * `nano` does not even cover `used`.
 */
export function affordableOutput(tariff: Tariff, used: PricedUsage, nano: Nano): number {
  // The share of reasoning and audio is not known in advance, so the highest price counts.
  const prices = tariff.atMost.plain;
  const each = ratesFor(prices, used, used.tier).output;
  // From the first output token on, an image is charged by its tokens, so the cost without any token is no baseline.
  const first = sumPico(prices, { ...used, outputTokens: 1 }, used);
  const { over, under } = tariff.charged;
  const budget = Number(nano) * under;
  const firstCost = Number(first) * over;
  if (budget <= Number.MAX_SAFE_INTEGER && firstCost <= Number.MAX_SAFE_INTEGER) {
    if (budget < firstCost) return 0;
    return each * over === 0 ? Number.MAX_SAFE_INTEGER : Math.floor((budget - firstCost) / (each * over)) + 1;
  }
  return affordableExactly(tariff, BigInt(each), BigInt(first), nano);
}

function affordableExactly(
  { multiplierTrillionths }: Tariff,
  each: bigint,
  first: bigint,
  nano: Nano,
): number {
  const left = nano * EXACT_PER_NANO - first * multiplierTrillionths;
  if (left < 0n) return 0;
  if (each * multiplierTrillionths === 0n) return Number.MAX_SAFE_INTEGER;
  const more = left / (each * multiplierTrillionths);
  return more >= BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(more) + 1;
}

/**
 * Sums and products use numbers where these are exact, which is many times faster, and bigints elsewhere. No value is
 * negative, so a safe result was safe at every step; and the rounding error of dividing safe integers is smaller than
 * their distance to the next whole number. Below nine thousand dollars this is a number.
 */
type Pico = number | bigint;

function toListCost(pico: Pico): Nano {
  return typeof pico === "number" ? BigInt(Math.ceil(pico / LIST_PRICE.under)) : roundUp(pico * ONE);
}

function toCharge({ charged, multiplierTrillionths }: Tariff, pico: Pico): Nano {
  const product = Number(pico) * charged.over;
  return product <= Number.MAX_SAFE_INTEGER
    ? BigInt(Math.ceil(product / charged.under))
    : roundUp(BigInt(pico) * multiplierTrillionths);
}

function roundUp(exact: bigint): Nano {
  return (exact + EXACT_PER_NANO - 1n) / EXACT_PER_NANO;
}

function sumPico(prices: Prices, used: TokenCounts, { imageKind, tier }: UsageTerms): Pico {
  const counts = countUnits(prices, used);
  const rates = ratesFor(prices, used, tier);
  const sum =
    counts.input * rates.input +
    counts.cached_input * rates.cached_input +
    counts.cache_write * rates.cache_write +
    counts.cache_write_1h * rates.cache_write_1h +
    counts.image_input * rates.image_input +
    counts.audio_input * rates.audio_input +
    counts.output * rates.output +
    counts.reasoning * rates.reasoning +
    counts.audio_output * rates.audio_output +
    (counts.web_search === 0 ? 0 : counts.web_search * Number(prices.webSearch)) +
    (counts.image === 0 ? 0 : counts.image * Number(imagePrice(prices, imageKind))) +
    (counts.request === 0 ? 0 : Number(prices.request));
  if (sum <= Number.MAX_SAFE_INTEGER) return sum;
  return COST_UNITS.reduce(
    (exact, unit) => exact + BigInt(counts[unit]) * unitPrice(unit, prices, rates, imageKind),
    0n,
  );
}

/**
 * Counts every token once: details are subtracted from their total one after the other, and a detail that exceeds the
 * rest gets the rest. Images are charged by their reported output tokens if these have a price, otherwise per image.
 */
function countUnits(prices: Prices, used: TokenCounts): Record<CostUnit, number> {
  let input = validCount(used.inputTokens);
  const cached = Math.min(input, validCount(used.cachedTokens));
  input -= cached;
  const written = Math.min(input, validCount(used.cacheWriteTokens));
  input -= written;
  const writtenForHour = Math.min(written, validCount(used.cacheWrite1hTokens));
  const imageInput = Math.min(input, validCount(used.imageInputTokens));
  input -= imageInput;
  const audioInput = Math.min(input, validCount(used.audioInputTokens));
  input -= audioInput;
  let output = validCount(used.outputTokens);
  const paidByTokens = prices.hasOutput && output > 0;
  const reasoning = Math.min(output, validCount(used.reasoningTokens));
  output -= reasoning;
  const audioOutput = Math.min(output, validCount(used.audioOutputTokens));
  output -= audioOutput;
  return {
    input,
    cached_input: cached,
    cache_write: written - writtenForHour,
    cache_write_1h: writtenForHour,
    image_input: imageInput,
    audio_input: audioInput,
    output,
    reasoning,
    audio_output: audioOutput,
    image: paidByTokens ? 0 : validCount(used.images),
    web_search: validCount(used.webSearches),
    request: prices.request > 0n ? 1 : 0,
  };
}

/** The list price of one unit, in pico-USD. */
function unitPrice(unit: CostUnit, prices: Prices, rates: TokenRates, imageKind: string | null): bigint {
  if (unit === "request") return prices.request;
  if (unit === "web_search") return prices.webSearch;
  return unit === "image" ? imagePrice(prices, imageKind) : BigInt(rates[unit]);
}

function ratesFor(prices: Prices, used: TokenCounts, tier: ReportedTier | null | undefined): TokenRates {
  // Nearly all prices have no tiers.
  const { tokens, longContext } = tier && tier !== "standard" ? (prices.tiers.get(tier) ?? prices) : prices;
  return longContext !== null && isLongContext(prices, used) ? longContext.tokens : tokens;
}

function isLongContext({ longContext }: Prices, { inputTokens }: TokenCounts): boolean {
  return longContext !== null && validCount(inputTokens) > longContext.above;
}

/** "1024x1024/hd", else "1024x1024", else any image. */
function imagePrice({ image, images }: Prices, kind: string | null): bigint {
  if (kind === null) return image;
  const [size = ""] = kind.split("/");
  return images.get(kind) ?? images.get(size) ?? image;
}

/** An invalid count costs nothing, so that it can never become a credit. */
function validCount(count: number): number {
  return Number.isSafeInteger(count) && count > 0 ? count : 0;
}
