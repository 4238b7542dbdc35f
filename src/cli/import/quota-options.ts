/** The options of new-api and one-api that give their quota units a value: per dollar, per model and per group. */

import { decimalText, type Nano } from "../../money/nano.ts";
import type { Price } from "../../records/price.ts";
import { pickNumbers, type SourceOptions } from "./source-options.ts";

/** Units for a dollar, unless the options have another number. */
const UNITS_PER_USD = 500_000;
const NANO_PER_USD = 1_000_000_000n;
const PRICE_DECIMALS = 6;

export interface QuotaOptions {
  /** Rounded down. */
  toNano(units: bigint): { amountNano: Nano; isExact: boolean };
  /** Names of groups with a ratio, and the ratio as multiplier. */
  readonly multipliers: ReadonlyMap<string, string>;
  /** The price that an administrator set for a model; undefined if there is none. */
  findPrice(model: string): Price | undefined;
}

export function readQuotaOptions(options: SourceOptions): QuotaOptions {
  const perUsd = Number(options.text("QuotaPerUnit") ?? UNITS_PER_USD);
  const unitsPerUsd = Number.isSafeInteger(perUsd) && perUsd > 0 ? perUsd : UNITS_PER_USD;
  if (unitsPerUsd !== perUsd)
    options.report("QuotaPerUnit", `is not a whole number: ${UNITS_PER_USD} is used.`);
  const models = pickNumbers(options.object("ModelRatio"));
  const completions = pickNumbers(options.object("CompletionRatio"));
  const perRequest = pickNumbers(options.object("ModelPrice"));
  if (Object.keys(options.object("GroupGroupRatio") ?? {}).length > 0)
    options.report(
      "GroupGroupRatio",
      "has no counterpart: every user pays the multiplier of the key's group. Keys that paid more are not created.",
    );
  return {
    toNano(units) {
      const scaled = units * NANO_PER_USD;
      const divisor = BigInt(unitsPerUsd);
      const rest = ((scaled % divisor) + divisor) % divisor;
      return { amountNano: (scaled - rest) / divisor, isExact: rest === 0n };
    },
    multipliers: new Map(
      Object.entries(pickNumbers(options.object("GroupRatio"))).map(([name, ratio]) => [
        name,
        roundUp(ratio),
      ]),
    ),
    findPrice(model) {
      const request = perRequest[model];
      if (request !== undefined) return { request: roundUp(request) };
      const ratio = models[model];
      const completion = completions[model];
      // Without the second one, the ratio of the output is in the program, which may be of any version.
      if (ratio === undefined || completion === undefined) return undefined;
      const input = (ratio * 1_000_000) / unitsPerUsd;
      return { input: roundUp(input), output: roundUp(input * completion) };
    },
  };
}

/** At most six decimals. Up, so that nothing becomes cheaper. The tenth digit is noise of floating point. */
function roundUp(value: number): string {
  const scaled = Math.ceil(Number((value * 10 ** PRICE_DECIMALS).toFixed(4)));
  return decimalText(BigInt(scaled), PRICE_DECIMALS);
}
