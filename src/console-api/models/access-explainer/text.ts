/** The texts of the steps of `models.why`: the finding, and what to do about it. */

import { spanText } from "../../../money/amount-text.ts";
import { UNITS } from "../../../records/limits.ts";
import type { Facts, WhyReason } from "./facts.ts";

export function describeStep(reason: WhyReason, facts: Facts): string {
  return TEXTS[reason](facts);
}

const TEXTS: Readonly<Record<WhyReason, (facts: Facts) => string>> = {
  owner_disabled: () => "The key's owner is disabled. An administrator can enable the user again.",
  key_active: () => "The key is active.",
  key_expired: () => "The key has expired. Set a later expiry, or create a new key.",
  key_revoked: () => "The key is revoked. Create a new key.",
  group_found: ({ group }) => `The key belongs to group ${group}.`,
  group_gone: () => "The group of the key no longer exists. Create a key in another group.",
  interface_included: ({ interface: iface }) => `The group includes ${iface}.`,
  interface_not_included: ({ group, interface: iface, interfaces }) =>
    `Group ${group} does not include ${iface}. It includes ${joinNames(interfaces)}. Ask an administrator for access.`,
  model_published: ({ model }) => `The group publishes ${model}.`,
  model_unknown: (facts) => `Model ${facts.model} does not exist. ${suggestAlternative(facts)}`,
  model_not_published: (facts) =>
    `Group ${facts.group} does not publish ${facts.model}. ${suggestAlternative(facts)}`,
  policy_allows_model: ({ model }) =>
    `The request policy of the key allows ${model}. It may change or reject requests.`,
  policy_excludes_model: ({ model }) =>
    `The request policy of the key does not allow ${model}. Ask an administrator.`,
  model_serves_interface: ({ model, interface: iface }) => `${model} supports ${iface}.`,
  model_lacks_interface: ({ model, interface: iface, interfaces }) =>
    `${model} does not support ${iface}. Use ${joinNames(interfaces)}.`,
  price_known: () => "The model has a price.",
  price_unknown: ({ model, group }) =>
    `Group ${group} charges for requests, but ${model} has no price. Ask an administrator to set a price.`,
  account_serves: () => "At least one account serves the model.",
  no_account_serves: ({ model, interface: iface }) =>
    `No account serves ${model} through ${iface}. Ask an administrator.`,
  within_limits: () => "All limits have remaining capacity.",
  limit_in_use: (facts) =>
    `The concurrency limit of ${SCOPE_TEXTS[facts.scope ?? "key"]} is reached: ${limitText(facts)}. Requests are queued.`,
  limit_used_up: (facts) =>
    `The limit of ${SCOPE_TEXTS[facts.scope ?? "key"]} is exhausted: ${limitText(facts)}. ${describeEnd(facts, "Capacity becomes available when a request finishes.")}`,
  free_group: () => "Requests in this group are free.",
  balance_available: ({ available }) => `Requests are charged to the balance. Available: $${available}.`,
  balance_empty: () =>
    "The available balance is zero: it is spent or held for requests in flight. Redeem a code, or ask an administrator to top up the balance.",
  balance_in_debt: ({ debt }) =>
    `The balance is $${debt} in debt, because a request cost more than its hold. Top up at least that much, or redeem a code.`,
  subscription_available: ({ available, plans }) =>
    `Requests are charged to a subscription (${joinNames(plans)}). Remaining: $${available}.`,
  subscription_missing: ({ plans = [] }) =>
    plans.length === 0
      ? "This group requires a subscription, and none is active. Ask an administrator."
      : `This group requires a subscription to ${plans.join(" or ")}, and none is active. Ask an administrator.`,
  subscription_used_up: (facts) =>
    `The subscription quota is exhausted (${joinNames(facts.plans)}). ${describeEnd(facts, "")}`.trim(),
  available: () => "An account is available.",
  busy: () => "All accounts for this model are busy. Requests are queued.",
  failing: (facts) =>
    `All accounts for this model are failing, so requests are not sent at the moment. ${describeEnd(facts, "Ask an administrator.")}`,
  unavailable: (facts) =>
    `All accounts for this model are cooling down or disabled. ${describeEnd(facts, "Ask an administrator.")}`,
};

const SCOPE_TEXTS = { key: "this key", user: "all your keys", group: "all keys of the group" };

function suggestAlternative({ other_groups: others = [], nearest, group }: Facts): string {
  if (others.length > 0) return `A key in ${joinNames(others)} can call this model.`;
  if (nearest !== undefined) return `Did you mean ${nearest}?`;
  return `Ask an administrator to publish it in ${group}.`;
}

function limitText({ unit = "requests", limit, per_ms: perMs = 0 }: Facts): string {
  switch (unit) {
    case "at_once":
      return `${limit} concurrent requests`;
    case "usd":
      return `$${limit} per ${spanText(perMs)}`;
    default:
      return `${limit} ${UNITS[unit].name} per ${spanText(perMs)}`;
  }
}

function describeEnd({ frees_at: freesAt }: Facts, fallback: string): string {
  if (freesAt === undefined) return fallback;
  return `Try again at ${new Date(Math.ceil(freesAt / 1000) * 1000).toISOString().replace(".000Z", "Z")}.`;
}

function joinNames(names: readonly string[] = []): string {
  return names.length === 0 ? "nothing" : names.join(", ");
}
