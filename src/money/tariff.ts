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
  return roundedUp(picoOf(tariff.prices, used) * tariff.multiplierTrillionths);
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
  return roundedUp(picoOf(tariff.prices, used) * ONE);
}

/** The same calculation line by line. Each line shows by how much it raised the rounded sum. */
export function costLines(tariff: Tariff, used: Metered): CostLine[] {
  const { parts, longContext } = partsOf(tariff.prices, used);
  let exact = 0n;
  let charged = 0n;
  return parts.map(({ unit, count, picoEach }) => {
    exact += BigInt(count) * picoEach * tariff.multiplierTrillionths;
    const sum = roundedUp(exact);
    const nano = sum - charged;
    charged = sum;
    return { unit, count, picoEach, longContext, nano };
  });
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
  const left = nano * ONE * PICO_PER_NANO - first;
  if (left < 0n) return 0;
  if (each === 0n) return Number.MAX_SAFE_INTEGER;
  const more = left / each;
  return more >= BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(more) + 1;
}

/** Pico-dollars times trillionths → nano-dollars. */
function roundedUp(exact: bigint): Nano {
  const unit = ONE * PICO_PER_NANO;
  return (exact + unit - 1n) / unit;
}

interface Part {
  unit: CostUnit;
  count: number;
  picoEach: bigint;
}

function picoOf(prices: Prices, used: Metered): bigint {
  let sum = 0n;
  for (const { count, picoEach } of partsOf(prices, used).parts) sum += BigInt(count) * picoEach;
  return sum;
}

/**
 * Every token once: details are taken out of their total one after the other, and one that says more than is left
 * gets what is left. Pictures are paid by the output tokens reported for them where these have a price, and
 * otherwise each by its own.
 */
function partsOf(prices: Prices, used: Metered): { parts: Part[]; longContext: boolean } {
  const rates = ratesFor(prices, used);
  let input = whole(used.inputTokens);
  const fromInput = (said: number) => {
    const count = Math.min(input, whole(said));
    input -= count;
    return count;
  };
  const cached = fromInput(used.cachedTokens);
  const written = fromInput(used.cacheWriteTokens);
  const imageInput = fromInput(used.imageInputTokens);
  const audioInput = fromInput(used.audioInputTokens);
  let output = whole(used.outputTokens);
  const reasoning = Math.min(output, whole(used.reasoningTokens));
  output -= reasoning;
  const audioOutput = Math.min(output, whole(used.audioOutputTokens));
  output -= audioOutput;
  const parts: Part[] = [];
  const add = (unit: CostUnit, count: number, picoEach: bigint) => {
    if (count > 0) parts.push({ unit, count, picoEach });
  };
  add("input", input, rates.input);
  add("cached_input", cached, rates.cached_input);
  add("cache_write", written, rates.cache_write);
  add("image_input", imageInput, rates.image_input);
  add("audio_input", audioInput, rates.audio_input);
  add("output", output, rates.output);
  add("reasoning", reasoning, rates.reasoning);
  add("audio_output", audioOutput, rates.audio_output);
  const paidByTokens = prices.hasOutput && whole(used.outputTokens) > 0;
  if (!paidByTokens) add("image", whole(used.images), imagePrice(prices, used.imageKind));
  if (prices.request > 0n) add("request", 1, prices.request);
  return { parts, longContext: rates !== prices.tokens };
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
