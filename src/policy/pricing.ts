/** Which price counts for a model in a group, and where it comes from. */

import { findListed, type ListedPrice, type PriceSource } from "../money/price-list.ts";
import { makeTariff, type Tariff } from "../money/tariff.ts";
import type { AccountRecord, GroupRecord, Interface, ModelRecord, PolicyRecords, Price } from "../records.ts";
import { mapModel } from "./model-map.ts";

export interface PricingTerms {
  /** Null where nobody has said one. */
  price: ResolvedPrice | null;
  /** The same terms are the same tariff, however many groups have them. */
  tariff: Tariff | null;
  contextTokens: number | null;
  outputTokensMax: number | null;
}

export interface ResolvedPrice {
  price: Price;
  source: "group" | "model" | PriceSource;
  /** The price list that it comes from, and the name it has there. */
  listed: { name: string; date: string } | null;
}

export type LookUpTerms = (model: ModelRecord) => PricingTerms;

/**
 * The group's own price for the model, then the model's, then the lists': by the public name, or else by the
 * upstream's if every account that can serve it, enabled or not, knows it by the same one.
 */
export function openPricing(
  records: Pick<PolicyRecords, "accounts" | "priceList">,
): (group: GroupRecord) => LookUpTerms {
  const updated = records.priceList ?? null;
  const accounts = new Map(records.accounts.map((account) => [account.id, account]));
  const listedFor = openListed(accounts, (name) => findListed(name, updated));
  const tariffOf = openTariffs();
  return (group) => {
    const { modelPrices } = group.billing;
    const listedOf = listedFor(group);
    return (model) => {
      const found = listedOf(model);
      const own = Object.hasOwn(modelPrices, model.id) ? modelPrices[model.id] : undefined;
      const named = priceFrom(own, model, found);
      const offered = offeredBy(group, model);
      const price = named !== null && tellsOfAny(named.price, offered) ? named : null;
      return {
        price,
        tariff: price === null ? null : tariffOf(price.price, group, model.id),
        contextTokens: model.contextTokens ?? found?.model.contextTokens ?? null,
        outputTokensMax: model.outputTokensMax ?? found?.model.outputTokensMax ?? null,
      };
    };
  };
}

function priceFrom(
  ofGroup: Price | undefined,
  model: ModelRecord,
  found: Named | null,
): ResolvedPrice | null {
  if (ofGroup !== undefined) return { price: ofGroup, source: "group", listed: null };
  if (model.price !== null) return { price: model.price, source: "model", listed: null };
  if (found === null) return null;
  const { name, date, source } = found;
  return { price: found.model.price, source, listed: { name, date } };
}

/** A price that says nothing about any way of calling the model would make all of them free. */
function tellsOfAny(price: Price, interfaces: readonly Interface[]): boolean {
  const { input, output, request, image, images = {} } = price;
  if (output !== undefined || request !== undefined || interfaces.length === 0) return true;
  const tellsOfPictures = image !== undefined || Object.keys(images).length > 0;
  return interfaces.some((name) => (name === "images" ? tellsOfPictures : input !== undefined));
}

function offeredBy(group: GroupRecord, model: ModelRecord): Interface[] {
  return model.interfaces.filter((name) => group.interfaces.includes(name));
}

/** A publication that somebody pays for, or that is limited in money, cannot do without a price. */
export function needsPrices({ billing, limits, groupLimits }: GroupRecord): boolean {
  return (
    billing.charge !== "none" ||
    [...limits.windows, ...groupLimits.windows].some(({ nano }) => (nano ?? null) !== null)
  );
}

type Named = ListedPrice & { name: string };

/** Groups share pools: a name is looked up once for each of these. */
function openListed(
  accounts: ReadonlyMap<string, AccountRecord>,
  find: (name: string) => ListedPrice | null,
): (group: GroupRecord) => (model: ModelRecord) => Named | null {
  const pools = new Map<string, Map<string, Named | null>>();
  const named = (name: string): Named | null => {
    const found = find(name);
    return found === null ? null : { ...found, name };
  };
  return (group) => {
    const key = `${group.interfaces.join(" ")}|${group.accounts.join(" ")}`;
    const known = pools.get(key) ?? new Map<string, Named | null>();
    pools.set(key, known);
    const pool = group.accounts.flatMap((id) => accounts.get(id) ?? []);
    return (model) => {
      const before = known.get(model.id);
      if (before !== undefined) return before;
      const upstream = oneUpstreamName(pool, group, model);
      const found = named(model.id) ?? (upstream === null ? null : named(upstream));
      known.set(model.id, found);
      return found;
    };
  };
}

function oneUpstreamName(
  pool: readonly AccountRecord[],
  group: GroupRecord,
  model: ModelRecord,
): string | null {
  const offered = offeredBy(group, model);
  const names = new Set(
    pool
      .filter(({ interfaces }) => offered.some((name) => interfaces.includes(name)))
      .flatMap(({ models }) => mapModel(models, model.id) ?? []),
  );
  const [only] = names;
  return names.size === 1 && only !== undefined ? only : null;
}

function openTariffs(): (price: Price, group: GroupRecord, model: string) => Tariff {
  const byPrice = new Map<Price, Map<string, Tariff>>();
  return (price, { billing }, model) => {
    const ofModel = Object.hasOwn(billing.modelMultipliers, model)
      ? billing.modelMultipliers[model]
      : undefined;
    const key = `${billing.multiplier} ${ofModel ?? "1"}`;
    const tariffs = byPrice.get(price) ?? new Map<string, Tariff>();
    const known = tariffs.get(key);
    if (known !== undefined) return known;
    const tariff = makeTariff(price, { group: billing.multiplier, model: ofModel });
    tariffs.set(key, tariff);
    byPrice.set(price, tariffs);
    return tariff;
  };
}
