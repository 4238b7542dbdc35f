/** The options of new-api and one-api that give their quota units a value: per dollar, per model and per group. */

import { decimalText, type Nano } from "../../money/nano.ts";
import type { Price } from "../../records/price.ts";
import type { Imported } from "./imported.ts";
import type { SourceTable } from "./source-table.ts";
import type { TableReader } from "./table-reader.ts";

const OPTIONS: SourceTable = { name: "options", key: "key", required: ["value"] };

/** Units for a dollar, unless the options have another number. */
const UNITS_PER_USD = 500_000;
const NANO_PER_USD = 1_000_000_000n;
const PRICE_DECIMALS = 6;

type Ratios = Readonly<Record<string, number>>;

export interface QuotaOptions {
  /** Rounded down. */
  toNano(units: bigint): { amountNano: Nano; isExact: boolean };
  /** Names of groups with a ratio, and the ratio as multiplier. */
  readonly multipliers: ReadonlyMap<string, string>;
  /** The price that an administrator set for a model; undefined if there is none. */
  findPrice(model: string): Price | undefined;
}

export async function readQuotaOptions(reader: TableReader, imported: Imported): Promise<QuotaOptions> {
  const options = new Map<string, string>();
  await reader.each(OPTIONS, (row) => options.set(row.id, row.text("value") ?? ""));
  const ratios = (name: string): Ratios => readRatios(options.get(name), name, imported);
  const perUsd = Number(options.get("QuotaPerUnit") ?? UNITS_PER_USD);
  const unitsPerUsd = Number.isSafeInteger(perUsd) && perUsd > 0 ? perUsd : UNITS_PER_USD;
  if (unitsPerUsd !== perUsd)
    imported.findings.push({
      subject: "option QuotaPerUnit",
      message: `is not a whole number: ${UNITS_PER_USD} is used.`,
    });
  const models = ratios("ModelRatio");
  const completions = ratios("CompletionRatio");
  const perRequest = ratios("ModelPrice");
  if (Object.keys(ratios("GroupGroupRatio")).length > 0)
    imported.findings.push({
      subject: "option GroupGroupRatio",
      message: "has no counterpart: every user pays the multiplier of the key's group.",
    });
  return {
    toNano(units) {
      const scaled = units * NANO_PER_USD;
      const divisor = BigInt(unitsPerUsd);
      const rest = ((scaled % divisor) + divisor) % divisor;
      return { amountNano: (scaled - rest) / divisor, isExact: rest === 0n };
    },
    multipliers: new Map(Object.entries(ratios("GroupRatio")).map(([name, ratio]) => [name, roundUp(ratio)])),
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

function readRatios(text: string | undefined, name: string, { findings }: Imported): Ratios {
  if (text === undefined || text.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null)
      return Object.fromEntries(
        Object.entries(value).filter((entry): entry is [string, number] => {
          return typeof entry[1] === "number" && Number.isFinite(entry[1]) && entry[1] >= 0;
        }),
      );
  } catch {
    findings.push({ subject: `option ${name}`, message: "is not JSON: ignored." });
  }
  return {};
}

/** At most six decimals. Up, so that nothing becomes cheaper. The tenth digit is noise of floating point. */
function roundUp(value: number): string {
  const scaled = Math.ceil(Number((value * 10 ** PRICE_DECIMALS).toFixed(4)));
  return decimalText(BigInt(scaled), PRICE_DECIMALS);
}
