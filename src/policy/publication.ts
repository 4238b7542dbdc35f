/** Finds out why a model that a group publishes is not, or not completely, available to its keys. */

import type { AccountRecord } from "../records/account.ts";
import type { GroupRecord } from "../records/group.ts";
import type { Interface } from "../records/interfaces.ts";
import type { ModelRecord } from "../records/model.ts";
import type { PolicyRecords } from "../records/policy.ts";
import { mapModel } from "./model-map.ts";
import { needsPrices, openPricing } from "./pricing.ts";
import { canServe } from "./translation.ts";

export type Shortcoming =
  /** The pool is empty, or all of its accounts are disabled. */
  | { kind: "no_account" }
  /** No account of the pool maps the model. */
  | { kind: "unmapped" }
  /** The group allows none of the model's interfaces. */
  | { kind: "no_shared_interface" }
  /** Interfaces that no account that maps the model supports; `all` if these are all that group and model share. */
  | { kind: "unsupported_interface"; interfaces: Interface[]; all: boolean }
  /** The group charges or limits money, and the model has no price. */
  | { kind: "no_price" };

/** Every shortcoming hides the model, unless only some of its interfaces are missing. */
export function isHidden(shortcoming: Shortcoming): boolean {
  return shortcoming.kind !== "unsupported_interface" || shortcoming.all;
}

export interface CheckedPublication {
  model: ModelRecord;
  /** Enabled accounts of the pool that map the model. */
  mapping: AccountRecord[];
  shortcomings: Shortcoming[];
}

/** Computes what all groups share once. The result has one entry for each model of a group, in its order. */
export function openPublicationChecks(records: PolicyRecords): (group: GroupRecord) => CheckedPublication[] {
  const models = new Map(records.models.map((model) => [model.id, model]));
  const accounts = new Map(records.accounts.map((account) => [account.id, account]));
  const termsFor = openPricing(records);
  return (group) => {
    const pool = group.accounts.flatMap((id) => accounts.get(id) ?? []).filter(({ enabled }) => enabled);
    const lookUpTerms = termsFor(group);
    return group.models
      .flatMap((id) => models.get(id) ?? [])
      .map((model) => {
        const mapping = pool.filter((account) => mapModel(account.models, model.id) !== null);
        const shortcomings = findShortcomings(group, model, pool, mapping);
        if (needsPrices(group) && lookUpTerms(model).price === null) shortcomings.push({ kind: "no_price" });
        return { model, mapping, shortcomings };
      });
  };
}

function findShortcomings(
  group: GroupRecord,
  model: ModelRecord,
  pool: readonly AccountRecord[],
  mapping: readonly AccountRecord[],
): Shortcoming[] {
  if (pool.length === 0) return [{ kind: "no_account" }];
  if (mapping.length === 0) return [{ kind: "unmapped" }];
  const shared = model.interfaces.filter((name) => group.interfaces.includes(name));
  if (shared.length === 0) return [{ kind: "no_shared_interface" }];
  const unsupported = shared.filter((name) => !mapping.some(({ interfaces }) => canServe(interfaces, name)));
  if (unsupported.length === 0) return [];
  return [
    { kind: "unsupported_interface", interfaces: unsupported, all: unsupported.length === shared.length },
  ];
}

/** Publications without a price in groups that need one. */
export function unpricedPublications(records: PolicyRecords): { group: string; model: string }[] {
  const termsFor = openPricing(records);
  const models = new Map(records.models.map((model) => [model.id, model]));
  return records.groups.filter(needsPrices).flatMap((group) =>
    group.models
      .flatMap((id) => models.get(id) ?? [])
      .filter((model) => termsFor(group)(model).price === null)
      .map(({ id }) => ({ group: group.name, model: id })),
  );
}
