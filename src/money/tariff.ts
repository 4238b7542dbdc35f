/**
 * What a publication costs: prices and multipliers that stand still once a request was admitted. Counts are
 * multiplied exactly and rounded up once, at the end, to a whole nano-dollar.
 */

import { createHash } from "node:crypto";
import type { Price, TokenUnit } from "../records.ts";
import { decimalText, type Nano, parseDecimal } from "./nano.ts";
import { canonicalPrice, type Prices, pricesOf, type TokenRates } from "./prices.ts";

export interface Tariff {
  /** A digest of `terms`. */
  readonly id: string;
  /** Canonical JSON of all that it is made from: `tariffOf(terms)` gives it back. */
  readonly terms: string;
  readonly prices: Prices;
  /** The group's multiplier times the model's, each with six decimals: exact in twelve. */
  readonly multiplierTrillionths: bigint;
}

/** What was used. Cached, written, image and audio tokens are inside `inputTokens`; reasoning and audio inside `outputTokens`. */
export interface Metered {
  inputTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  imageInputTokens: number;
  audioInputTokens: number;
  audioOutputTokens: number;
  images: number;
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
  /** For one of them, by the list: pico-dollars. */
  picoEach: bigint;
  /** By the prices of a long context. */
  longContext: boolean;
  /** With multipliers. */
  nano: Nano;
}

const MULTIPLIER_DECIMALS = 12;
const ONE = 10n ** BigInt(MULTIPLIER_DECIMALS);
const PICO_PER_NANO = 1_000n;
/** Of pico-dollars times trillionths. */
const EXACT_PER_NANO = ONE * PICO_PER_NANO;

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
  return {
    id: createHash("sha256").update(terms).digest("hex").slice(0, 32),
    terms,
    prices: pricesOf(price),
    multiplierTrillionths,
  };
}

/** The shortest decimal of it. */
export function multiplierText({ multiplierTrillionths }: Pick<Tariff, "multiplierTrillionths">): string {
  return decimalText(multiplierTrillionths, MULTIPLIER_DECIMALS);
}

/** With multipliers: what is charged. */
export function costOf(tariff: Tariff, used: Metered): Nano {
  return costsOf(tariff, used).costNano;
}

/** With multipliers and without, for hardly more than one of the two. */
export function costsOf(
  { prices, multiplierTrillionths }: Tariff,
  used: Metered,
): { costNano: Nano; listNano: Nano } {
  const pico = picoOf(prices, used);
  const listNano = roundedUp(pico, PICO_PER_NANO);
  const costNano =
    multiplierTrillionths === ONE ? listNano : roundedUp(pico * multiplierTrillionths, EXACT_PER_NANO);
  return { costNano, listNano };
}

/** What it costs at most: all of the output may turn out to be reasoning or sound, which may be dearer. */
export function costAtMost(tariff: Tariff, used: Metered): Nano {
  const unit = dearest(ratesFor(tariff.prices, used), OUTPUT_UNITS);
  return costOf(tariff, {
    ...used,
    reasoningTokens: unit === "reasoning" ? used.outputTokens : 0,
    audioOutputTokens: unit === "audio_output" ? used.outputTokens : 0,
  });
}

/** Input may be written to a cache, and be a picture or a sound where it `hasMedia`: each may be dearer than text. */
export function dearestInput(tariff: Tariff, used: Metered, hasMedia: boolean): Metered {
  const unit = dearest(ratesFor(tariff.prices, used), hasMedia ? INPUT_UNITS : TEXT_UNITS);
  return {
    ...used,
    cacheWriteTokens: unit === "cache_write" ? used.inputTokens : 0,
    imageInputTokens: unit === "image_input" ? used.inputTokens : 0,
    audioInputTokens: unit === "audio_input" ? used.inputTokens : 0,
  };
}

const TEXT_UNITS = ["input", "cache_write"] as const;
const INPUT_UNITS = [...TEXT_UNITS, "image_input", "audio_input"] as const;
const OUTPUT_UNITS = ["output", "reasoning", "audio_output"] as const;

/** The first of several that cost the same. */
function dearest(rates: TokenRates, units: readonly TokenUnit[]): TokenUnit {
  return units.reduce((most, unit) => (rates[unit] > rates[most] ? unit : most));
}

/** Without multipliers: what the upstream account will ask. */
export function listCostOf(tariff: Tariff, used: Metered): Nano {
  return costsOf(tariff, used).listNano;
}

/** The same calculation line by line. Each line shows by how much it raised the rounded sum. */
export function costLines(tariff: Tariff, used: Metered): CostLine[] {
  const { prices, multiplierTrillionths } = tariff;
  const longContext = ratesFor(prices, used) !== prices.tokens;
  const counts = countsOf(prices, used);
  const lines: CostLine[] = [];
  let exact = 0n;
  let charged = 0n;
  for (const unit of COST_UNITS) {
    const count = counts[unit];
    if (count === 0) continue;
    const picoEach = priceOf(unit, prices, used);
    exact += BigInt(count) * picoEach * multiplierTrillionths;
    const sum = roundedUp(exact, EXACT_PER_NANO);
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
  const rates = ratesFor(tariff.prices, used);
  const unit = dearest(rates, OUTPUT_UNITS);
  const each = rates[unit] * tariff.multiplierTrillionths;
  // With a first token a picture is paid by its tokens, so what it costs without any is no guide.
  const begun = {
    ...used,
    outputTokens: 1,
    reasoningTokens: unit === "reasoning" ? 1 : 0,
    audioOutputTokens: unit === "audio_output" ? 1 : 0,
  };
  const first = picoOf(tariff.prices, begun) * tariff.multiplierTrillionths;
  const left = nano * EXACT_PER_NANO - first;
  if (left < 0n) return 0;
  if (each === 0n) return Number.MAX_SAFE_INTEGER;
  const more = left / each;
  return more >= BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(more) + 1;
}

function roundedUp(amount: bigint, perNano: bigint): Nano {
  return (amount + perNano - 1n) / perNano;
}

function picoOf(prices: Prices, used: Metered): bigint {
  const counts = countsOf(prices, used);
  let sum = 0;
  for (const unit of COST_UNITS) {
    const count = counts[unit];
    if (count > 0) sum += count * Number(priceOf(unit, prices, used));
  }
  // Nothing here is negative: if the sum is safe, so was every step to it. It is, below nine thousand dollars.
  if (sum <= Number.MAX_SAFE_INTEGER) return BigInt(sum);
  return COST_UNITS.reduce((exact, unit) => exact + BigInt(counts[unit]) * priceOf(unit, prices, used), 0n);
}

/**
 * Every token once: details are taken out of their total one after the other, and one that says more than is left
 * gets what is left. Pictures are paid by the output tokens reported for them where these have a price, and
 * otherwise each by its own.
 */
function countsOf(prices: Prices, used: Metered): Record<CostUnit, number> {
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

/** For one of them, by the list: pico-dollars. */
function priceOf(unit: CostUnit, prices: Prices, used: Metered): bigint {
  if (unit === "request") return prices.request;
  return unit === "image" ? imagePrice(prices, used.imageKind) : ratesFor(prices, used)[unit];
}

function ratesFor({ tokens, longContext }: Prices, { inputTokens }: Metered): TokenRates {
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
