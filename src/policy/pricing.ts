/** Resolves the price of a model in a group, and its source. */

import { findListed, type ListedPrice, type PriceSource } from "../money/price-list.ts";
import { makeTariff, type Tariff } from "../money/tariff.ts";
import type { AccountRecord } from "../records/account.ts";
import type { GroupRecord } from "../records/group.ts";
import type { Interface } from "../records/interfaces.ts";
import type { ModelRecord } from "../records/model.ts";
import type { PolicyRecords } from "../records/policy.ts";
import type { Price } from "../records/price.ts";
import { mapModel } from "./model-map.ts";
import { canServe } from "./translation.ts";

interface PricingTerms {
  /** Null if no price is configured or listed. */
  price: ResolvedPrice | null;
  /** Equal terms share one tariff, across all groups. */
  tariff: Tariff | null;
  contextTokens: number | null;
  outputTokensMax: number | null;
}

export interface ResolvedPrice {
  price: Price;
  source: "group" | "model" | PriceSource;
  /** The price list that the price comes from, and its name there. */
  listed: { name: string; date: string } | null;
}

export type LookUpTerms = (model: ModelRecord) => PricingTerms;

/**
 * The price of the group for the model, then that of the model, then that of the lists: by the public name, or by the
 * upstream name if every account that can serve the model, enabled or not, maps it to the same one.
 */
export function openPricing(
  records: Pick<PolicyRecords, "accounts" | "priceList">,
): (group: GroupRecord) => LookUpTerms {
  const updated = records.priceList ?? null;
  const accounts = new Map(records.accounts.map((account) => [account.id, account]));
  const listedFor = openListed(accounts, (name) => findListed(name, updated));
  const lookUpTariff = openTariffs();
  return (group) => {
    const { modelPrices } = group.billing;
    const lookUpListed = listedFor(group);
    return (model) => {
      const listed = lookUpListed(model);
      const groupPrice = Object.hasOwn(modelPrices, model.id) ? modelPrices[model.id] : undefined;
      const priced = resolvePrice(groupPrice, model, listed);
      const usable = sharedInterfaces(group, model);
      const price = priced !== null && coversAny(priced.price, usable) ? priced : null;
      return {
        price,
        tariff: price === null ? null : lookUpTariff(price.price, group, model.id),
        contextTokens: model.contextTokens ?? listed?.model.contextTokens ?? null,
        outputTokensMax: model.outputTokensMax ?? listed?.model.outputTokensMax ?? null,
      };
    };
  };
}

function resolvePrice(
  configured: Price | undefined,
  model: ModelRecord,
  listed: NamedPrice | null,
): ResolvedPrice | null {
  if (configured !== undefined) return { price: configured, source: "group", listed: null };
  if (model.price !== null) return { price: model.price, source: "model", listed: null };
  if (listed === null) return null;
  const { name, date, source } = listed;
  return { price: listed.model.price, source, listed: { name, date } };
}

/** A price that covers no interface of the model would make all of them free. */
function coversAny(price: Price, interfaces: readonly Interface[]): boolean {
  const { input, output, request, image, images = {} } = price;
  if (output !== undefined || request !== undefined || interfaces.length === 0) return true;
  const coversImages = image !== undefined || Object.keys(images).length > 0;
  return interfaces.some((name) => (name === "images" ? coversImages : input !== undefined));
}

function sharedInterfaces(group: GroupRecord, model: ModelRecord): Interface[] {
  return model.interfaces.filter((name) => group.interfaces.includes(name));
}

/** A group that charges, or that limits money, needs a price for each publication. */
export function needsPrices({ billing, limits, groupLimits }: GroupRecord): boolean {
  return (
    billing.charge !== "none" ||
    [...limits.windows, ...groupLimits.windows].some(({ nano }) => (nano ?? null) !== null)
  );
}

type NamedPrice = ListedPrice & { name: string };

/** Groups share pools, so each name is looked up once per pool. */
function openListed(
  accounts: ReadonlyMap<string, AccountRecord>,
  find: (name: string) => ListedPrice | null,
): (group: GroupRecord) => (model: ModelRecord) => NamedPrice | null {
  const pools = new Map<string, Map<string, NamedPrice | null>>();
  const findNamed = (name: string): NamedPrice | null => {
    const listed = find(name);
    return listed === null ? null : { ...listed, name };
  };
  return (group) => {
    const key = `${group.interfaces.join(" ")}|${group.accounts.join(" ")}`;
    const cache = pools.get(key) ?? new Map<string, NamedPrice | null>();
    pools.set(key, cache);
    const pool = group.accounts.flatMap((id) => accounts.get(id) ?? []);
    return (model) => {
      const cached = cache.get(model.id);
      if (cached !== undefined) return cached;
      const upstream = findCommonUpstreamName(pool, group, model);
      const listed = findNamed(model.id) ?? (upstream === null ? null : findNamed(upstream));
      cache.set(model.id, listed);
      return listed;
    };
  };
}

function findCommonUpstreamName(
  pool: readonly AccountRecord[],
  group: GroupRecord,
  model: ModelRecord,
): string | null {
  const usable = sharedInterfaces(group, model);
  const names = new Set(
    pool
      .filter(({ interfaces }) => usable.some((name) => canServe(interfaces, name)))
      .flatMap(({ models }) => mapModel(models, model.id) ?? []),
  );
  const [only] = names;
  return names.size === 1 && only !== undefined ? only : null;
}

function openTariffs(): (price: Price, group: GroupRecord, model: string) => Tariff {
  const byPrice = new Map<Price, Map<string, Tariff>>();
  return (price, { billing }, model) => {
    const modelMultiplier = Object.hasOwn(billing.modelMultipliers, model)
      ? billing.modelMultipliers[model]
      : undefined;
    const key = `${billing.multiplier} ${modelMultiplier ?? "1"}`;
    const tariffs = byPrice.get(price) ?? new Map<string, Tariff>();
    const cached = tariffs.get(key);
    if (cached !== undefined) return cached;
    const tariff = makeTariff(price, { group: billing.multiplier, model: modelMultiplier });
    tariffs.set(key, tariff);
    byPrice.set(price, tariffs);
    return tariff;
  };
}
