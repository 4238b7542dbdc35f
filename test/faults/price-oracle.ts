/**
 * The cost of a request by the configured prices: a second calculation, which shares no code with the gateway's. It reads
 * the configuration and the counts of a row, never the tariff that the gateway has stored.
 */

import type { Db } from "../../src/store/engine/db.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import { type ListPrice, PRICE, type Setup } from "./setup.ts";

type Counts = Pick<UsageRow, "inputTokens" | "cachedTokens" | "outputTokens" | "webSearches">;

const DECIMALS = 6;
/** The number of tokens that a price of tokens is for. */
const TOKENS_PRICED = 1_000_000n;
/** Nodes look for changes twice a second; the rest is for a busy machine and its clock. */
const KNOWN_WITHIN_MS = 3_000;

/** Rounded up once, to a nano-dollar. */
export function computeCost(price: ListPrice, multiplier: string, counts: Counts): bigint {
  const { inputTokens, cachedTokens, outputTokens, webSearches } = counts;
  const perSearch = toMillionths(price.per_call?.web_search ?? "0");
  // USD per million tokens with six decimals are pico-dollars per token.
  const pico =
    BigInt(inputTokens - cachedTokens) * toMillionths(price.input) +
    BigInt(cachedTokens) * toMillionths(price.cached_input) +
    BigInt(outputTokens) * toMillionths(price.output) +
    BigInt(webSearches) * perSearch * TOKENS_PRICED;
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

export interface Prices {
  /** By the name of the group. */
  readonly multipliers: ReadonlyMap<string, string>;
  /** Of all models without a price of their own. */
  readonly price?: ListPrice | undefined;
  readonly ownPrices?: Readonly<Record<string, ListPrice>> | undefined;
}

/** The price of each model over time, and the multiplier of each group. A row is priced by the step that served it. */
export class PriceOracle {
  readonly #multipliers: ReadonlyMap<string, string>;
  readonly #ownPrices: Readonly<Record<string, ListPrice>>;
  readonly #versions: PriceVersion[];

  constructor({ multipliers, price = PRICE, ownPrices = {} }: Prices) {
    this.#multipliers = multipliers;
    this.#ownPrices = ownPrices;
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
    const ownPrice = this.#ownPrices[row.publicModel];
    if (ownPrice !== undefined) return [computeCost(ownPrice, multiplier, row)];
    const startedMs = readAdmissionTime(row.requestId) - KNOWN_WITHIN_MS;
    return this.#versions
      .filter(({ fromMs, untilMs }) => fromMs <= row.atMs && untilMs >= startedMs)
      .map(({ price }) => computeCost(price, multiplier, row));
  }
}

/** From the id: a row that has replaced an estimate has the time of the estimate. */
function readAdmissionTime(requestId: string): number {
  const timestamp = requestId
    .replace(/^[a-z]+_/, "")
    .replaceAll("-", "")
    .slice(0, 12);
  return Number.parseInt(timestamp, 16);
}

export function buildOracle({ groups, price, ownPrices }: Setup): PriceOracle {
  const multipliers = new Map(groups.map(({ name, billing }) => [name, billing?.multiplier ?? "1"]));
  return new PriceOracle({ multipliers, price, ownPrices });
}

/** The name of each group by its id. */
export async function readGroupNames({ db }: { db: Db }): Promise<Map<string, string>> {
  const rows = await db.sql`SELECT id, name FROM key_group`;
  return new Map(rows.map((row) => [String(row.id), String(row.name)]));
}
