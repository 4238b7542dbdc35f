/**
 * The cost of a request by the configured prices: a second calculation, which shares no code with the gateway's. It reads
 * the configuration and the counts of a row, never the tariff that the gateway has stored.
 */

import type { Db } from "../../src/store/engine/db.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import { PRICE, type Setup } from "./setup.ts";

/** USD per million tokens. */
export interface ListPrice {
  readonly input: string;
  readonly cached_input: string;
  readonly output: string;
}

type Counts = Pick<UsageRow, "inputTokens" | "cachedTokens" | "outputTokens">;

const DECIMALS = 6;
/** Nodes look for changes twice a second; the rest is for a busy machine and its clock. */
const KNOWN_WITHIN_MS = 3_000;

/** Rounded up once, to a nano-dollar. */
export function computeCost(price: ListPrice, multiplier: string, counts: Counts): bigint {
  const { inputTokens, cachedTokens, outputTokens } = counts;
  // USD per million tokens with six decimals are pico-dollars per token.
  const pico =
    BigInt(inputTokens - cachedTokens) * toMillionths(price.input) +
    BigInt(cachedTokens) * toMillionths(price.cached_input) +
    BigInt(outputTokens) * toMillionths(price.output);
  const exact = pico * toMillionths(multiplier);
  const perNano = 1_000n * 10n ** BigInt(DECIMALS);
  return (exact + perNano - 1n) / perNano;
}

function toMillionths(decimal: string): bigint {
  const [whole = "0", fraction = ""] = decimal.split(".");
  return BigInt(whole + fraction.padEnd(DECIMALS, "0"));
}

interface PriceVersion {
  readonly price: ListPrice;
  readonly fromMs: number;
  untilMs: number;
}

/** The prices of all models, one after the other, and the multiplier of each group. */
export class PriceOracle {
  readonly #multipliers: ReadonlyMap<string, string>;
  readonly #versions: PriceVersion[];

  /** `multipliers`: by the name of the group. */
  constructor(multipliers: ReadonlyMap<string, string>, price: ListPrice = PRICE) {
    this.#multipliers = multipliers;
    this.#versions = [{ price, fromMs: 0, untilMs: Number.POSITIVE_INFINITY }];
  }

  /** Call before a change is written. Until it is confirmed, both prices are right. */
  beginChange(price: ListPrice, nowMs: number): void {
    this.#versions.push({ price, fromMs: nowMs, untilMs: Number.POSITIVE_INFINITY });
  }

  /** The nodes know the new price a moment later. */
  confirmChange(nowMs: number): void {
    for (const former of this.#versions.slice(0, -1))
      former.untilMs = Math.min(former.untilMs, nowMs + KNOWN_WITHIN_MS);
  }

  /** What may be charged: one cost for each price that was in force while the request was admitted. */
  costs(row: UsageRow, groupNames: ReadonlyMap<string, string>): bigint[] {
    const multiplier = this.#multipliers.get(groupNames.get(row.groupId) ?? "");
    if (multiplier === undefined) return [];
    const startedMs = row.atMs - row.durationMs - KNOWN_WITHIN_MS;
    return this.#versions
      .filter(({ fromMs, untilMs }) => fromMs <= row.atMs && untilMs >= startedMs)
      .map(({ price }) => computeCost(price, multiplier, row));
  }
}

export function buildOracle({ groups }: Pick<Setup, "groups">): PriceOracle {
  const named = groups as readonly { name: string; billing?: { multiplier?: string } }[];
  return new PriceOracle(new Map(named.map(({ name, billing }) => [name, billing?.multiplier ?? "1"])));
}

/** The name of each group by its id. */
export async function readGroupNames({ db }: { db: Db }): Promise<Map<string, string>> {
  const rows = await db.sql`SELECT id, name FROM key_group`;
  return new Map(rows.map((row) => [String(row.id), String(row.name)]));
}
