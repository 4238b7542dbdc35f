/** Finds the models that groups publish at a list price which was collected long ago. */

import { DAY_MS } from "../base/time.ts";
import { findListed, findOldPrices, type OldPrice } from "../money/price-list.ts";
import type { PolicyRecords } from "../records/policy.ts";
import { openPricing } from "./pricing.ts";

export interface OldListPrice extends OldPrice {
  readonly model: string;
}

/** Each price once, in the order of the models. `oldestDate` is the first day that is not old. */
export function listOldPrices(records: PolicyRecords, oldestDate: string): OldListPrice[] {
  const termsFor = openPricing(records);
  const found = new Map<string, OldListPrice>();
  for (const model of records.models) {
    for (const group of records.groups) {
      if (!group.models.includes(model.id)) continue;
      const listed = termsFor(group)(model).price?.listed ?? null;
      const entry = listed === null ? null : findListed(listed.name, records.priceList ?? null);
      for (const old of entry === null ? [] : findOldPrices(entry, oldestDate))
        found.set(`${model.id} ${old.unit}`, { model: model.id, ...old });
    }
  }
  return [...found.values()];
}

/** The day that is this many days before the time, as price lists write it. */
export function computeOldestDate(nowMs: number, days: number): string {
  return new Date(nowMs - days * DAY_MS).toISOString().slice(0, 10);
}
