/** Public models as administrators see them: publishing groups, serving accounts, and prices by group. */

import { z } from "zod";
import { modelToFile } from "../../config/state/to-file-shape.ts";
import { usdText } from "../../money/nano.ts";
import { findListed } from "../../money/price-list.ts";
import { multiplierText } from "../../money/tariff.ts";
import { mapModel } from "../../policy/model-map.ts";
import { type LookUpTerms, openPricing, type ResolvedPrice } from "../../policy/pricing.ts";
import { canServe } from "../../policy/translation.ts";
import type { GroupRecord } from "../../records/group.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import type { ModelRecord } from "../../records/model.ts";
import type { PolicyRecords } from "../../records/policy.ts";
import type { PriceList } from "../../records/price.ts";
import type { ModelUse } from "../../store/policy/model-usage.ts";
import { modelForm, priceForm } from "../forms/policy-forms.ts";
import { priceSourceResponse } from "./group-preview.ts";

const modelPrice = z.object({
  /** The groups that pay this price; empty for an unpublished model. */
  groups: z.array(z.string()),
  /** The configured price without multipliers; null if none is configured. */
  price: priceForm.nullable(),
  from: priceSourceResponse.nullable(),
  /** The multiplier of the group times that of the model. */
  multiplier: z.string().nullable(),
});

const interfaceList = z.array(z.enum(INTERFACES));

export const modelResponse = z.object({
  document: modelForm,
  groups: z.array(z.string()),
  /** Accounts that map the model, enabled or not. */
  accounts: z.array(z.object({ name: z.string(), upstream_model: z.string(), enabled: z.boolean() })),
  /** The interfaces that an enabled account has itself, and those that requests are translated for. */
  interfaces: z.object({ native: interfaceList, translated: interfaceList }),
  /** One entry for each different price. Usually all groups have the same one. */
  prices: z.array(modelPrice),
  requests_last_day: z.number(),
  failed_last_day: z.number(),
  /** USD. */
  charged_last_day: z.string(),
  created_at: z.number(),
});

type ModelResponse = z.input<typeof modelResponse>;

/** Computes the data that all models share once. */
export function openModelView(
  records: PolicyRecords,
  usageByModel: ReadonlyMap<string, ModelUse>,
): (model: ModelRecord) => ModelResponse {
  const openGroupPricing = openPricing(records);
  const termsByGroup = new Map<GroupRecord, LookUpTerms>(
    records.groups.map((group) => [group, openGroupPricing(group)]),
  );
  return (model) => {
    const usage = usageByModel.get(model.id);
    const groups = records.groups.filter(({ models }) => models.includes(model.id));
    return {
      document: modelToFile(model),
      groups: groups.map(({ name }) => name),
      accounts: records.accounts.flatMap(({ name, models, enabled }) => {
        const upstream = mapModel(models, model.id);
        return upstream === null ? [] : { name, upstream_model: upstream, enabled };
      }),
      interfaces: listInterfaces(model, records),
      prices: buildPrices(model, groups, termsByGroup, records),
      requests_last_day: usage?.requests ?? 0,
      failed_last_day: usage?.failed ?? 0,
      charged_last_day: usdText(usage?.chargedNano ?? 0n),
      created_at: model.createdAtMs,
    };
  };
}

function listInterfaces(model: ModelRecord, { accounts }: PolicyRecords): ModelResponse["interfaces"] {
  const serving = accounts.filter(({ enabled, models }) => enabled && mapModel(models, model.id) !== null);
  const native = model.interfaces.filter((name) =>
    serving.some(({ interfaces }) => interfaces.includes(name)),
  );
  const translated = model.interfaces.filter(
    (name) => !native.includes(name) && serving.some(({ interfaces }) => canServe(interfaces, name)),
  );
  return { native, translated };
}

function buildPrices(
  model: ModelRecord,
  groups: readonly GroupRecord[],
  termsByGroup: ReadonlyMap<GroupRecord, LookUpTerms>,
  { priceList }: PolicyRecords,
): ModelResponse["prices"] {
  const rows = new Map<string, ModelResponse["prices"][number]>();
  for (const group of groups) {
    const terms = termsByGroup.get(group)?.(model);
    if (terms === undefined) continue;
    const multiplier = terms.tariff === null ? null : multiplierText(terms.tariff);
    const key = JSON.stringify([terms.price, multiplier]);
    const groups = [...(rows.get(key)?.groups ?? []), group.name];
    rows.set(key, { groups, ...describePrice(terms.price), multiplier });
  }
  if (rows.size > 0) return [...rows.values()];
  return [{ groups: [], ...describePrice(findUnpublishedPrice(model, priceList ?? null)), multiplier: null }];
}

function describePrice(price: ResolvedPrice | null) {
  return {
    price: price?.price ?? null,
    from: price === null ? null : { source: price.source, listed: price.listed },
  };
}

/** The price of an unpublished model under its public name. */
function findUnpublishedPrice(model: ModelRecord, updated: PriceList | null): ResolvedPrice | null {
  if (model.price !== null) return { price: model.price, source: "model", listed: null };
  const listed = findListed(model.id, updated);
  if (listed === null) return null;
  const { source, date } = listed;
  return { price: listed.model.price, source, listed: { name: model.id, date } };
}
