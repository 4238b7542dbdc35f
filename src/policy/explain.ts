/** Explains from the records, step by step, why a key can or cannot call a model. */

import type { AccountRecord } from "../records/account.ts";
import type { GroupRecord } from "../records/group.ts";
import type { Dialect, Interface } from "../records/interfaces.ts";
import type { KeyRecord } from "../records/key.ts";
import type { PolicyRecords } from "../records/policy.ts";
import { mapModel } from "./model-map.ts";
import { needsPrices, openPricing } from "./pricing.ts";
import { allowsModel, compileRequestPolicy } from "./request-policy.ts";
import { findTranslation, modelInterfaces } from "./translation.ts";

export interface Explanation {
  allowed: boolean;
  /** In the order of a request's checks; the first step that is not ok decides. */
  steps: ExplanationStep[];
  accounts: AccountExplanation[];
}

interface ExplanationStep {
  ok: boolean;
  reason: Reason;
  text: string;
}

/** The result of a step as a code, for translations. */
export const REASONS = [
  "key_active",
  "key_expired",
  "key_revoked",
  "group_found",
  "group_gone",
  "interface_included",
  "interface_not_included",
  "model_published",
  "model_unknown",
  "model_not_published",
  "policy_allows_model",
  "policy_excludes_model",
  "model_serves_interface",
  "model_lacks_interface",
  "price_known",
  "price_unknown",
  "account_serves",
  "no_account_serves",
] as const;
export type Reason = (typeof REASONS)[number];

export interface AccountExplanation {
  name: string;
  upstreamModel: string | null;
  reason: "disabled" | "no_interface" | "no_model" | null;
  /** The dialect that requests are translated into; null if the account has the interface itself, or does not serve. */
  translation: Dialect | null;
  priority: number;
  weight: number;
}

export function explainAccess(
  records: PolicyRecords,
  key: KeyRecord,
  publicModel: string,
  iface: Interface,
  nowMs: number,
): Explanation {
  const group = records.groups.find(({ id }) => id === key.groupId);
  const model = records.models.find(({ id }) => id === publicModel);
  const pool = records.accounts.filter(({ id }) => group?.accounts.includes(id));
  const accounts = pool.map((account) => explainAccount(account, publicModel, iface));
  const serving = accounts.filter(({ reason }) => reason === null).length;
  const expired = key.expiresAtMs !== null && key.expiresAtMs <= nowMs;
  const steps = [
    step(
      key.status === "active" && !expired,
      ["key_active", "the key is active"],
      expired ? ["key_expired", "the key has expired"] : ["key_revoked", "the key is revoked"],
    ),
    step(
      group !== undefined,
      ["group_found", `the key belongs to group ${group?.name}`],
      ["group_gone", "the group of the key no longer exists"],
    ),
    step(
      group?.interfaces.includes(iface) === true,
      ["interface_included", `the group includes ${iface}`],
      ["interface_not_included", `the group does not include ${iface}`],
    ),
    step(
      group?.models.includes(publicModel) === true,
      ["model_published", `the group publishes ${publicModel}`],
      model === undefined
        ? ["model_unknown", `the model ${publicModel} does not exist`]
        : ["model_not_published", `the group does not publish ${publicModel}`],
    ),
    ...explainPolicy(records, group, key, publicModel),
    step(
      model?.interfaces.includes(iface) === true,
      ["model_serves_interface", `the model supports ${iface}`],
      ["model_lacks_interface", `the model does not support ${iface}`],
    ),
    ...(group !== undefined && model !== undefined && needsPrices(group)
      ? [
          step(
            openPricing(records)(group)(model).price !== null,
            ["price_known", "the model has a price"],
            ["price_unknown", `${publicModel} has no price, and the group charges for requests`],
          ),
        ]
      : []),
    step(
      serving > 0,
      ["account_serves", `${serving} of ${accounts.length} accounts of the group can serve the model`],
      ["no_account_serves", "no account of the group maps the model and supports the interface"],
    ),
  ];
  return { allowed: steps.every(({ ok }) => ok), steps, accounts };
}

/** The request policies of the group and of the key, if there are any. */
function explainPolicy(
  { requestPolicies = [] }: PolicyRecords,
  group: GroupRecord | undefined,
  key: KeyRecord,
  publicModel: string,
): ExplanationStep[] {
  const names = [...new Set([group?.requestPolicy ?? null, key.requestPolicy])].filter(
    (name) => name !== null,
  );
  if (names.length === 0) return [];
  const byName = new Map(requestPolicies.map((policy) => [policy.name, policy]));
  const policies = names.map((name) => compileRequestPolicy(byName, name));
  const text =
    names.length === 1 ? `the request policy ${names[0]}` : `the request policies ${names.join(" and ")}`;
  const isAllowed = policies.every((policy) => policy.unusable === null && allowsModel(policy, publicModel));
  return [
    step(
      isAllowed,
      ["policy_allows_model", `${text} of the key allows ${publicModel}, and may change or reject requests`],
      ["policy_excludes_model", `${text} of the key does not allow ${publicModel}`],
    ),
  ];
}

type StepResult = readonly [reason: Reason, text: string];

function step(ok: boolean, good: StepResult, bad: StepResult): ExplanationStep {
  const [reason, text] = ok ? good : bad;
  return { ok, reason, text };
}

export function explainAccount(
  account: AccountRecord,
  publicModel: string,
  iface: Interface,
): AccountExplanation {
  const { name, priority, weight } = account;
  const upstreamModel = mapModel(account.models, publicModel);
  const found = findTranslation(
    upstreamModel === null ? account.interfaces : modelInterfaces(account, upstreamModel),
    iface,
  );
  const reason = !account.enabled
    ? "disabled"
    : found === "none"
      ? "no_interface"
      : upstreamModel === null
        ? "no_model"
        : null;
  const translation = reason !== null || found === "none" ? null : found;
  return { name, upstreamModel, reason, translation, priority, weight };
}
