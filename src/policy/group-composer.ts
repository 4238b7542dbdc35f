/**
 * Applies to compiled groups what depends on other records: their request policies, and the fallback steps of groups
 * and models. Each group is composed once, and once more for every request policy that keys of it have.
 */

import { parseDecimal } from "../money/nano.ts";
import { FALLBACK_STEPS_MAX, type FallbackStep } from "../records/fallback.ts";
import { defaultOnDisconnect, type GroupRecord } from "../records/group.ts";
import type { ModelRecord } from "../records/model.ts";
import type { PolicyGroup, PublishedFallbackStep, PublishedModel } from "./published.ts";
import { allowsModel, intersectPolicies, type RequestPolicy } from "./request-policy.ts";

/** A group without request policy and without fallback steps. */
export type UnrestrictedGroup = Omit<PolicyGroup, "requestPolicy" | "tightenedBy">;

export type FindPolicy = (name: string) => RequestPolicy;

interface Base {
  readonly record: GroupRecord;
  readonly group: UnrestrictedGroup;
  readonly policy: RequestPolicy | null;
}

export class GroupComposer {
  readonly #models: ReadonlyMap<string, ModelRecord>;
  readonly #findPolicy: FindPolicy;
  readonly #bases = new Map<string, Base>();

  constructor(models: ReadonlyMap<string, ModelRecord>, findPolicy: FindPolicy) {
    this.#models = models;
    this.#findPolicy = findPolicy;
  }

  add(record: GroupRecord, group: UnrestrictedGroup): void {
    const policy = record.requestPolicy === null ? null : this.#findPolicy(record.requestPolicy);
    this.#bases.set(record.id, { record, group, policy });
  }

  composeAll(): Map<string, PolicyGroup> {
    return new Map([...this.#bases].map(([id, base]) => [id, this.#composeVariants(base)]));
  }

  /** Each pair of a group and the policy of a key is composed once, when the first key needs it. */
  #composeVariants(base: Base): PolicyGroup {
    const variants = new Map<string, PolicyGroup>();
    const tightenedBy = (keyPolicy: string): PolicyGroup => {
      const known = variants.get(keyPolicy);
      if (known !== undefined) return known;
      const policy = intersectPolicies(base.policy, this.#findPolicy(keyPolicy));
      const variant = this.#compose(base, policy, tightenedBy);
      variants.set(keyPolicy, variant);
      return variant;
    };
    return this.#compose(base, base.policy, tightenedBy);
  }

  #compose(
    { record, group }: Base,
    requestPolicy: RequestPolicy | null,
    tightenedBy: PolicyGroup["tightenedBy"],
  ): PolicyGroup {
    const models = filterModels(group.models, requestPolicy);
    const first: PolicyGroup = { ...group, models, requestPolicy, tightenedBy };
    const hasSteps = (id: string) => (this.#models.get(id)?.fallback.length ?? 0) > 0;
    if (record.fallback.length === 0 && ![...models.keys()].some(hasSteps)) return first;
    const groupSteps = record.fallback.map((step) => ({ step, group: this.#composeStep(first, step) }));
    const withSteps = [...models.values()].map((model): [string, PublishedModel] => {
      const modelSteps = (this.#models.get(model.id)?.fallback ?? []).map((step) => ({
        step,
        group: this.#composeStep(first, { ...step, group: record.id }),
      }));
      const fallback = [...groupSteps, ...modelSteps]
        .slice(0, FALLBACK_STEPS_MAX)
        .flatMap((one, at) => publishStep(one, model, at + 1) ?? []);
      return [model.id, { ...model, fallback }];
    });
    return { ...first, models: new Map(withSteps) };
  }

  /** Null if the target does not exist. */
  #composeStep(first: PolicyGroup, { group: targetId, pay }: FallbackStep): PolicyGroup | null {
    const target = targetId === null ? undefined : this.#bases.get(targetId);
    if (target === undefined) return null;
    const { interfaces, websocket, capture, costHeaders, queue, tightenedBy } = first;
    const charge = pay ?? target.group.billing.charge;
    const requestPolicy = intersectPolicies(first.requestPolicy, target.policy);
    return {
      ...target.group,
      models: filterModels(target.group.models, requestPolicy),
      requestPolicy,
      billing: { charge, plans: target.group.billing.plans },
      onDisconnect: target.record.onDisconnect ?? defaultOnDisconnect(charge),
      interfaces,
      websocket,
      capture,
      costHeaders,
      queue,
      tightenedBy,
    };
  }
}

/** Null if the step cannot serve the model: not published, excluded by a request policy, or charged without a price. */
function publishStep(
  { step, group }: { readonly step: FallbackStep; readonly group: PolicyGroup | null },
  requested: PublishedModel,
  number: number,
): PublishedFallbackStep | null {
  if (group === null || (group.requestPolicy?.unusable ?? null) !== null) return null;
  const model = group.models.get(step.model ?? requested.id);
  if (model === undefined || (model.tariff === null && group.billing.charge !== "none")) return null;
  return {
    number,
    group,
    model,
    when: new Set(step.when),
    maxPriceMillionths: step.maxPrice === null ? null : parseDecimal(step.maxPrice, 6),
    leaveAfterMs: step.leaveAfterMs,
    stayMs: step.stayMs,
  };
}

function filterModels(
  models: ReadonlyMap<string, PublishedModel>,
  policy: RequestPolicy | null,
): ReadonlyMap<string, PublishedModel> {
  if (policy === null || policy.models.length === 0) return models;
  return new Map([...models].filter(([id]) => allowsModel(policy, id)));
}
