/** The texts of the steps of `models.why`: the finding, and what to do about it. */

import type { Facts, WhyReason } from "./facts.ts";

export function describeStep(reason: WhyReason, facts: Facts): string {
  return TEXTS[reason](facts);
}

const TEXTS: Readonly<Record<WhyReason, (facts: Facts) => string>> = {
  owner_disabled: () => "The key's owner is disabled. An administrator can enable the user again.",
  key_active: () => "The key is active.",
  key_expired: () => "The key has expired. Give it a later expiry, or make a new one.",
  key_revoked: () => "The key was revoked, and stays so. Make a new one.",
  group_found: ({ group }) => `Its group is ${group}.`,
  group_gone: () => "Its group no longer exists. Make a key in another group.",
  interface_included: ({ interface: iface }) => `The group includes ${iface}.`,
  interface_not_included: ({ group, interface: iface, interfaces }) =>
    `The group ${group} does not include ${iface}. It allows ${joinNames(interfaces)}; ask an administrator for more.`,
  model_published: ({ model }) => `The group publishes ${model}.`,
  model_unknown: (facts) => `There is no model ${facts.model}. ${suggestAlternative(facts)}`,
  model_not_published: (facts) =>
    `The group ${facts.group} does not publish ${facts.model}. ${suggestAlternative(facts)}`,
  model_serves_interface: ({ model, interface: iface }) => `${model} serves ${iface}.`,
  model_lacks_interface: ({ model, interface: iface, interfaces }) =>
    `${model} does not serve ${iface}. Call it through ${joinNames(interfaces)}.`,
  price_known: () => "It has a price.",
  price_unknown: ({ model, group }) =>
    `Nobody has said what ${model} costs, and the group ${group} charges for it. Ask an administrator for a price.`,
  account_serves: () => "The gateway has an upstream for it.",
  no_account_serves: ({ model, interface: iface }) =>
    `The gateway has no upstream that serves ${model} through ${iface} at present. Ask an administrator.`,
  within_limits: () => "No limit is used up.",
  limit_in_use: (facts) =>
    `The limit of ${SCOPE_TEXTS[facts.scope ?? "key"]} is in use: ${limitText(facts)}. A request waits for its turn.`,
  limit_used_up: (facts) =>
    `The limit of ${SCOPE_TEXTS[facts.scope ?? "key"]} is used up: ${limitText(facts)}. ${describeEnd(facts, "It frees when one of them ends.")}`,
  nobody_pays: () => "Nobody pays for requests of this group.",
  balance_available: ({ available }) => `The balance pays, and $${available} of it is available.`,
  balance_empty: () =>
    "Nothing of the balance is available: it is spent, or held for requests under way. Redeem a code, or ask an administrator to add to it.",
  balance_in_debt: ({ debt }) =>
    `The balance is $${debt} in debt, because a request cost more than was held for it. Top up at least that much, or redeem a code.`,
  subscription_available: ({ available, plans }) =>
    `A subscription pays (${joinNames(plans)}), and $${available} of it is left.`,
  subscription_missing: ({ plans = [] }) =>
    plans.length === 0
      ? "The group is paid by a subscription, and none is running. Ask an administrator for one."
      : `The group is paid by a subscription to ${plans.join(" or ")}, and none is running. Ask an administrator for one.`,
  subscription_used_up: (facts) =>
    `The subscription is used up (${joinNames(facts.plans)}). ${describeEnd(facts, "")}`.trim(),
  available: () => "It can be served now.",
  busy: () => "Everything that serves it is busy. A request waits for its turn.",
  failing: (facts) =>
    `Every upstream that serves it is failing, so no request is sent to it for now. ${describeEnd(facts, "Ask an administrator.")}`,
  unavailable: (facts) =>
    `Everything that serves it is recovering or out of order. ${describeEnd(facts, "Ask an administrator.")}`,
};

const SCOPE_TEXTS = {
  key: "this key",
  user: "all your keys together",
  group: "all keys of its group together",
};

function suggestAlternative({ other_groups: others = [], nearest, group }: Facts): string {
  if (others.length > 0) return `A key in ${joinNames(others)} can call it.`;
  if (nearest !== undefined) return `Did you mean ${nearest}?`;
  return `Ask an administrator to publish it in ${group}.`;
}

function limitText({ unit, limit, per_ms: perMs = 0 }: Facts): string {
  switch (unit) {
    case "at_once":
      return `${limit} requests at the same time`;
    case "usd":
      return `$${limit} in any ${spanText(perMs)}`;
    default:
      return `${limit} ${unit} in any ${spanText(perMs)}`;
  }
}

function spanText(ms: number): string {
  if (ms === 60_000) return "minute";
  const hours = ms / 3_600_000;
  return hours % 24 === 0 ? (hours === 24 ? "day" : `${hours / 24} days`) : `${hours} hours`;
}

function describeEnd({ frees_at: freesAt }: Facts, fallback: string): string {
  if (freesAt === undefined) return fallback;
  return `Try again at ${new Date(Math.ceil(freesAt / 1000) * 1000).toISOString().replace(".000Z", "Z")}.`;
}

function joinNames(names: readonly string[] = []): string {
  return names.length === 0 ? "nothing" : names.join(", ");
}
