/** Explains from the records which fallback steps requests of a key for a model may take. */

import { FALLBACK_STEPS_MAX, type FallbackStep } from "../records/fallback.ts";
import type { Charge, GroupRecord } from "../records/group.ts";
import { DIALECTS, type Interface } from "../records/interfaces.ts";
import type { KeyRecord } from "../records/key.ts";
import type { PolicyRecords } from "../records/policy.ts";
import { explainAccount } from "./explain.ts";
import { openPricing } from "./pricing.ts";
import { allowsModel, compileRequestPolicy } from "./request-policy.ts";

/** Why requests of the key never take a step. */
export const FALLBACK_OBSTACLES = [
  "denied_by_key",
  "target_gone",
  "model_not_published",
  "policy_excludes_model",
  "price_unknown",
  "window_unknown",
  "no_account_serves",
  "too_many_steps",
] as const;
type FallbackObstacle = (typeof FALLBACK_OBSTACLES)[number];

export interface FallbackExplanation
  extends Pick<FallbackStep, "when" | "maxPrice" | "leaveAfterMs" | "stayMs"> {
  number: number;
  /** The name of the group that serves the step. */
  group: string;
  model: string;
  charge: Charge;
  /** Null if requests may take the step. */
  obstacle: FallbackObstacle | null;
}

/** In the order in which requests try them. */
export function explainFallback(
  records: PolicyRecords,
  key: KeyRecord,
  publicModel: string,
  iface: Interface,
): FallbackExplanation[] {
  const own = records.groups.find(({ id }) => id === key.groupId);
  const model = records.models.find(({ id }) => id === publicModel);
  if (own === undefined || model === undefined) return [];
  const termsFor = openPricing(records);
  const steps = [...own.fallback, ...model.fallback.map((step) => ({ ...step, group: own.id }))];
  return steps.map((step, at) => {
    const group = records.groups.find(({ id }) => id === step.group);
    const target = records.models.find(({ id }) => id === (step.model ?? publicModel));
    const charge = step.pay ?? group?.billing.charge ?? "none";
    const findObstacle = (): FallbackObstacle | null => {
      if (key.fallback === "deny") return "denied_by_key";
      if (at >= FALLBACK_STEPS_MAX) return "too_many_steps";
      if (group === undefined || target === undefined) return "target_gone";
      if (!group.models.includes(target.id) || !target.interfaces.includes(iface))
        return "model_not_published";
      if (!isAllowed(records, [own.requestPolicy, key.requestPolicy, group.requestPolicy], target.id))
        return "policy_excludes_model";
      const { price, contextTokens } = termsFor(group)(target);
      if (charge !== "none" && price === null) return "price_unknown";
      // Whether the input fits another model must be known.
      const isText = DIALECTS.some((dialect) => dialect === iface);
      if (target !== model && isText && contextTokens === null) return "window_unknown";
      return isServed(records, group, target.id, iface) ? null : "no_account_serves";
    };
    const { when, maxPrice, leaveAfterMs, stayMs } = step;
    return {
      number: at + 1,
      group: group?.name ?? step.group ?? "",
      model: step.model ?? publicModel,
      charge,
      when,
      maxPrice,
      leaveAfterMs,
      stayMs,
      obstacle: findObstacle(),
    };
  });
}

function isAllowed(
  { requestPolicies = [] }: PolicyRecords,
  names: readonly (string | null)[],
  model: string,
): boolean {
  const byName = new Map(requestPolicies.map((policy) => [policy.name, policy]));
  return names.every((name) => {
    if (name === null) return true;
    const policy = compileRequestPolicy(byName, name);
    return policy.unusable === null && allowsModel(policy, model);
  });
}

function isServed({ accounts }: PolicyRecords, group: GroupRecord, model: string, iface: Interface): boolean {
  return accounts.some(
    (account) => group.accounts.includes(account.id) && explainAccount(account, model, iface).reason === null,
  );
}
