/**
 * What a publication costs: prices and multipliers that stand still once a request was admitted. Counts are
 * multiplied exactly and rounded up once, at the end, to a whole nano-dollar.
 */

import { createHash } from "node:crypto";
import type { Price, TokenUnit } from "../records.ts";
import { decimalText, type Nano, parseDecimal } from "./nano.ts";
import {
  canonicalPrice,
  type Prices,
  pricesOf,
  type TokenRates,
  withDearest,
  withDearestPictures,
} from "./prices.ts";

export interface Tariff {
  /** A digest of `terms`. */
  readonly id: string;
  /** Canonical JSON of all that it is made from: `tariffOf(terms)` gives it back. */
  readonly terms: string;
  readonly prices: Prices;
  /** The group's multiplier times the model's, each with six decimals: exact in twelve. */
  readonly multiplierTrillionths: bigint;
  /** The prices with which a cost comes out at the most that it may be. */
  readonly atMost: Readonly<Record<ForeseenInput, Prices>>;
  readonly charged: NanoPerPico;
}

/**
 * What input may turn out to be: no more than input; also read from a cache, or written to one; or even a picture or a
 * sound. Beyond `plain`, what a request leaves open of the pictures it asks for may be the dearest too, and there may be
 * less input: then a long context is none, which is dearer where the operator sells long ones for less.
 */
export type ForeseenInput = "plain" | "text" | "media";

/**
 * Times `over`, by `under`. In lowest terms, so that numbers reach as far as they can; where `over` is not safe, no
 * product with it is.
 */
interface NanoPerPico {
  readonly over: number;
  readonly under: number;
}

/** What was used. Cached, written, image and audio tokens are inside `inputTokens`; reasoning and audio inside `outputTokens`. */
export interface CountedUnits {
  inputTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  imageInputTokens: number;
  audioInputTokens: number;
  audioOutputTokens: number;
  images: number;
}

export interface Metered extends CountedUnits {
  /** Size and quality: "1024x1024/high". */
  imageKind: string | null;
}

export const NOTHING_USED: Metered = {
  inputTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  imageInputTokens: 0,
  audioInputTokens: 0,
  audioOutputTokens: 0,
  images: 0,
  imageKind: null,
};

export type CostUnit = TokenUnit | "image" | "request";

/** In the order of the lines. */
const COST_UNITS = [
  "input",
  "cached_input",
  "cache_write",
  "image_input",
  "audio_input",
  "output",
  "reasoning",
  "audio_output",
  "image",
  "request",
] as const satisfies readonly CostUnit[];

/** One line of the calculation. The lines of a request add up to its cost, each within a nano of its own. */
export interface CostLine {
  unit: CostUnit;
  count: number;
  /** The list price of one unit, in pico-dollars. */
  picoEach: bigint;
  /** Priced as a long context. */
  longContext: boolean;
  /** With multipliers. */
  nano: Nano;
}

const MULTIPLIER_DECIMALS = 12;
const ONE = 10n ** BigInt(MULTIPLIER_DECIMALS);
/** The scale of exact sums, which are pico-dollars times trillionths. */
const EXACT_PER_NANO = ONE * 1_000n;
const LISTED: NanoPerPico = { over: 1, under: 1_000 };

const TEXT_UNITS = ["input", "cached_input", "cache_write"] as const;
const INPUT_UNITS = [...TEXT_UNITS, "image_input", "audio_input"] as const;
const OUTPUT_UNITS = ["output", "reasoning", "audio_output"] as const;

export interface Multipliers {
  /** Decimal strings with up to six decimals. */
  group: string;
  model?: string | undefined;
}

export function makeTariff(price: Price, multipliers: Multipliers = { group: "1" }): Tariff {
  const combined = parseDecimal(multipliers.group, 6) * parseDecimal(multipliers.model ?? "1", 6);
  return build(canonicalPrice(price), combined);
}

/** Throws on what no tariff's `terms` can be. */
export function tariffOf(terms: string): Tariff {
  const { price, multiplier }: { price: Price; multiplier: string } = JSON.parse(terms);
  return build(canonicalPrice(price), parseDecimal(multiplier, MULTIPLIER_DECIMALS));
}

function build(price: Price, multiplierTrillionths: bigint): Tariff {
  const terms = JSON.stringify({
    price,
    multiplier: multiplierText({ multiplierTrillionths }),
  });
  const prices = pricesOf(price);
  const most = withDearestPictures(prices);
  return {
    id: createHash("sha256").update(terms).digest("hex").slice(0, 32),
    terms,
    prices,
    multiplierTrillionths,
    atMost: {
      plain: withDearest(prices, OUTPUT_UNITS),
      text: withDearest(most, OUTPUT_UNITS, TEXT_UNITS),
      media: withDearest(most, OUTPUT_UNITS, INPUT_UNITS),
    },
    charged: nanoPerPico(multiplierTrillionths),
  };
}

function nanoPerPico(multiplierTrillionths: bigint): NanoPerPico {
  let [divisor, rest] = [EXACT_PER_NANO, multiplierTrillionths];
  while (rest > 0n) [divisor, rest] = [rest, divisor % rest];
  return { over: Number(multiplierTrillionths / divisor), under: Number(EXACT_PER_NANO / divisor) };
}

/** The shortest decimal of it. */
export function multiplierText({ multiplierTrillionths }: Pick<Tariff, "multiplierTrillionths">): string {
  return decimalText(multiplierTrillionths, MULTIPLIER_DECIMALS);
}

/** With multipliers: what is charged. */
export function costOf(tariff: Tariff, used: Metered): Nano {
  return chargedFor(tariff, picoOf(tariff.prices, used, used.imageKind));
}

/** With multipliers and without. */
export interface Costs {
  readonly costNano: Nano;
  readonly listNano: Nano;
}

export const NO_COSTS: Costs = { costNano: 0n, listNano: 0n };

/** Both, for hardly more than one of the two. */
export function costsOf(tariff: Tariff, used: CountedUnits, imageKind: string | null): Costs {
  const pico = picoOf(tariff.prices, used, imageKind);
  const listNano = listedFor(pico);
  const isListed = tariff.charged.over === LISTED.over && tariff.charged.under === LISTED.under;
  return { costNano: isListed ? listNano : chargedFor(tariff, pico), listNano };
}

/** What it costs at most: all of the output may turn out to be reasoning or sound, which may be dearer. */
export function costAtMost(tariff: Tariff, used: Metered, foreseen: ForeseenInput = "plain"): Nano {
  const prices = tariff.atMost[foreseen];
  const asLong = picoOf(prices, used, used.imageKind);
  const above = foreseen === "plain" ? undefined : prices.longContext?.above;
  const mayBeShort = above !== undefined && used.inputTokens > above;
  if (!mayBeShort) return chargedFor(tariff, asLong);
  const asShort = picoOf(prices, { ...used, inputTokens: above }, used.imageKind);
  return chargedFor(tariff, asLong > asShort ? asLong : asShort);
}

/** Without multipliers: what the upstream account will ask. */
export function listCostOf(tariff: Tariff, used: Metered): Nano {
  return listedFor(picoOf(tariff.prices, used, used.imageKind));
}

/** A picture of this kind whose tokens nobody told is paid by the piece; else they have to be judged. */
export function isPaidByPiece({ prices }: Tariff, imageKind: string | null): boolean {
  return !prices.hasOutput || imagePrice(prices, imageKind) > 0n;
}

/** The same calculation line by line. Each line shows by how much it raised the rounded sum. */
export function costLines(tariff: Tariff, used: Metered): CostLine[] {
  const { prices, multiplierTrillionths } = tariff;
  const rates = ratesFor(prices, used);
  const longContext = rates !== prices.tokens;
  const counts = countsOf(prices, used);
  const lines: CostLine[] = [];
  let exact = 0n;
  let charged = 0n;
  for (const unit of COST_UNITS) {
    const count = counts[unit];
    if (count === 0) continue;
    const picoEach = priceOf(unit, prices, rates, used.imageKind);
    exact += BigInt(count) * picoEach * multiplierTrillionths;
    const sum = roundedUp(exact);
    lines.push({ unit, count, picoEach, longContext, nano: sum - charged });
    charged = sum;
  }
  return lines;
}

/**
 * The most output tokens that `nano` pays for beside what was `used`; Number.MAX_SAFE_INTEGER where they are free,
 * and 0 where not even the rest is paid.
 */
export function affordableOutput(tariff: Tariff, used: Metered, nano: Nano): number {
  // How much of an answer will be reasoning or sound is not known before: the dearest counts.
  const prices = tariff.atMost.plain;
  const each = ratesFor(prices, used).output;
  // With a first token a picture is paid by its tokens, so what it costs without any is no guide.
  const first = picoOf(prices, { ...used, outputTokens: 1 }, used.imageKind);
  const { over, under } = tariff.charged;
  const budget = Number(nano) * under;
  const begun = Number(first) * over;
  if (budget <= Number.MAX_SAFE_INTEGER && begun <= Number.MAX_SAFE_INTEGER) {
    if (budget < begun) return 0;
    return each * over === 0 ? Number.MAX_SAFE_INTEGER : Math.floor((budget - begun) / (each * over)) + 1;
  }
  return exactlyAffordable(tariff, BigInt(each), BigInt(first), nano);
}

function exactlyAffordable(
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
 * Sums and products are taken as numbers where these are exact, which is many times faster, and as bigints elsewhere.
 * Nothing here is negative, so whatever comes out safe was safe at every step; and safe integers divided are rounded
 * by less than lies between them and the next whole number. Below nine thousand dollars this is a number.
 */
type Pico = number | bigint;

function listedFor(pico: Pico): Nano {
  return typeof pico === "number" ? BigInt(Math.ceil(pico / LISTED.under)) : roundedUp(pico * ONE);
}

function chargedFor({ charged, multiplierTrillionths }: Tariff, pico: Pico): Nano {
  const product = Number(pico) * charged.over;
  return product <= Number.MAX_SAFE_INTEGER
    ? BigInt(Math.ceil(product / charged.under))
    : roundedUp(BigInt(pico) * multiplierTrillionths);
}

function roundedUp(exact: bigint): Nano {
  return (exact + EXACT_PER_NANO - 1n) / EXACT_PER_NANO;
}

function picoOf(prices: Prices, used: CountedUnits, imageKind: string | null): Pico {
  const counts = countsOf(prices, used);
  const rates = ratesFor(prices, used);
  const sum =
    counts.input * rates.input +
    counts.cached_input * rates.cached_input +
    counts.cache_write * rates.cache_write +
    counts.image_input * rates.image_input +
    counts.audio_input * rates.audio_input +
    counts.output * rates.output +
    counts.reasoning * rates.reasoning +
    counts.audio_output * rates.audio_output +
    (counts.image === 0 ? 0 : counts.image * Number(imagePrice(prices, imageKind))) +
    (counts.request === 0 ? 0 : Number(prices.request));
  if (sum <= Number.MAX_SAFE_INTEGER) return sum;
  return COST_UNITS.reduce(
    (exact, unit) => exact + BigInt(counts[unit]) * priceOf(unit, prices, rates, imageKind),
    0n,
  );
}

/**
 * Every token once: details are taken out of their total one after the other, and one that says more than is left
 * gets what is left. Pictures are paid by the output tokens reported for them where these have a price, and
 * otherwise each by its own.
 */
function countsOf(prices: Prices, used: CountedUnits): Record<CostUnit, number> {
  let input = whole(used.inputTokens);
  const cached = Math.min(input, whole(used.cachedTokens));
  input -= cached;
  const written = Math.min(input, whole(used.cacheWriteTokens));
  input -= written;
  const imageInput = Math.min(input, whole(used.imageInputTokens));
  input -= imageInput;
  const audioInput = Math.min(input, whole(used.audioInputTokens));
  input -= audioInput;
  let output = whole(used.outputTokens);
  const paidByTokens = prices.hasOutput && output > 0;
  const reasoning = Math.min(output, whole(used.reasoningTokens));
  output -= reasoning;
  const audioOutput = Math.min(output, whole(used.audioOutputTokens));
  output -= audioOutput;
  return {
    input,
    cached_input: cached,
    cache_write: written,
    image_input: imageInput,
    audio_input: audioInput,
    output,
    reasoning,
    audio_output: audioOutput,
    image: paidByTokens ? 0 : whole(used.images),
    request: prices.request > 0n ? 1 : 0,
  };
}

/** The list price of one unit, in pico-dollars. */
function priceOf(unit: CostUnit, prices: Prices, rates: TokenRates, imageKind: string | null): bigint {
  if (unit === "request") return prices.request;
  return unit === "image" ? imagePrice(prices, imageKind) : BigInt(rates[unit]);
}

function ratesFor({ tokens, longContext }: Prices, { inputTokens }: CountedUnits): TokenRates {
  return longContext !== null && whole(inputTokens) > longContext.above ? longContext.tokens : tokens;
}

/** "1024x1024/hd", else "1024x1024", else any image. */
function imagePrice({ image, images }: Prices, kind: string | null): bigint {
  if (kind === null) return image;
  const [size = ""] = kind.split("/");
  return images.get(kind) ?? images.get(size) ?? image;
}

/** What is no count costs nothing: nobody may be credited by one. */
function whole(count: number): number {
  return Number.isSafeInteger(count) && count > 0 ? count : 0;
}
