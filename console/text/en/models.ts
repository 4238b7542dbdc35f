/** English texts: the page of models. */

import { plural } from "../plural.ts";

export const models = {
  title: "Models",
  about: "The models that your keys can call, with prices and current availability.",
  search: "Search models",
  columns: {
    model: "Model",
    group: "Group",
    input: "Input",
    output: "Output",
    status: "Status",
    keys: "Your keys",
    tools: "Actions",
  },
  perMillion: "Prices in USD per 1M tokens, as charged to you.",
  cached: (price: string) => `cached ${price}`,
  perImage: (price: string) => `${price} per image`,
  perRequest: (price: string) => `${price} per request`,
  longContext: (tokens: string, price: string) => `${price} above ${tokens} tokens`,
  noPrice: "no price",
  free: "free",
  status: { available: "Available", busy: "Busy", unavailable: "Unavailable" },
  statusHelp: {
    available: "Requests are served immediately.",
    busy: "All accounts are busy. Requests are queued.",
    unavailable: "All accounts for this model are cooling down or disabled.",
  },
  keys: (count: number) => plural(count, "1 key", "# keys"),
  makeKey: "Create key",
  none: {
    title: "No models yet",
    text: "Models are available through groups. When an administrator gives you access to a group, its models are listed here.",
  },
  noneFound: { title: "No models found", text: "Model names must match exactly." },
  interfaces: {
    chat: "Chat",
    responses: "Responses",
    messages: "Messages",
    gemini: "Gemini",
    embeddings: "Embeddings",
    images: "Images",
  },
  why: {
    action: "Check model access",
    about: (model: string) => `Check access to ${model}`,
    title: "Check model access",
    key: "Key",
    noKeys: "You have no keys yet. Create a key first.",
    findKey: "Search your keys",
    model: "Model",
    modelHint: "Exactly as your client sends it.",
    interface: "Interface",
    submit: "Check",
    allowed: "Requests are accepted.",
    refused: "Requests are rejected.",
    passed: "Passed",
    failed: "Failed",
    accounts: "Accounts (administrators only)",
    account: "Account",
    sentAs: "Upstream model",
    translation: "Interface",
    native: "native",
    translatedTo: (iface: string) => `translated to ${iface}`,
    reason: "Reason",
    frees: "Available",
    eligible: "eligible",
  },
  spans: {
    minute: "minute",
    hours: (count: number) => plural(count, "hour", "# hours"),
    days: (count: number) => plural(count, "day", "# days"),
  },
  scope: {
    key: "this key",
    user: "all your keys",
    group: "all keys of the group",
  },
  steps: {
    owner_disabled: "The owner of the key is disabled. An administrator can enable the user again.",
    key_active: "The key is active.",
    key_expired: "The key has expired. Set a later expiry, or create a new key.",
    key_revoked: "The key is revoked. Create a new key.",
    group_found: (group: string) => `The key belongs to group ${group}.`,
    group_gone: "The group of the key no longer exists. Create a key in another group.",
    interface_included: (iface: string) => `The group includes ${iface}.`,
    interface_not_included: (group: string, iface: string, allowed: string) =>
      `Group ${group} does not include ${iface}. It includes ${allowed}. Ask an administrator for access.`,
    model_published: (model: string) => `The group publishes ${model}.`,
    model_unknown: (model: string) => `Model ${model} does not exist.`,
    model_not_published: (group: string, model: string) => `Group ${group} does not publish ${model}.`,
    policy_allows_model: (model: string) =>
      `The request policy of the key allows ${model}. It may change or reject requests.`,
    policy_excludes_model: (model: string) =>
      `The request policy of the key does not allow ${model}. Ask an administrator.`,
    model_serves_interface: (model: string, iface: string) => `${model} supports ${iface}.`,
    model_lacks_interface: (model: string, iface: string, serves: string) =>
      `${model} does not support ${iface}. Use ${serves}.`,
    price_known: "The model has a price.",
    price_unknown: (group: string, model: string) =>
      `Group ${group} charges for requests, but ${model} has no price. Ask an administrator to set a price.`,
    account_serves: "At least one account serves the model.",
    no_account_serves: (model: string, iface: string) =>
      `No account serves ${model} through ${iface}. Ask an administrator.`,
    within_limits: "All limits have remaining capacity.",
    limit_in_use: (whose: string, limit: string) =>
      `The concurrency limit of ${whose} is reached: ${limit}. Requests are queued.`,
    limit_used_up: (whose: string, limit: string) => `The limit of ${whose} is exhausted: ${limit}.`,
    free_group: "Requests in this group are free.",
    balance_available: (amount: string) => `Requests are charged to your balance. Available: ${amount}.`,
    balance_empty:
      "Your available balance is zero: it is spent or held for requests in flight. Redeem a code, or ask an administrator to top up your balance.",
    balance_in_debt: (amount: string) =>
      `Your balance is ${amount} in debt, because a request cost more than its hold. Redeem a code, or ask an administrator to top up your balance.`,
    subscription_available: (plans: string, amount: string) =>
      `Requests are charged to a subscription (${plans}). Remaining: ${amount}.`,
    subscription_missing: (plans: string) =>
      plans === ""
        ? "This group requires a subscription, and you have no active one. Ask an administrator."
        : `This group requires a subscription to ${plans}, and you have no active one. Ask an administrator.`,
    subscription_used_up: (plans: string) => `The subscription quota is exhausted (${plans}).`,
    available: "An account is available.",
    busy: "All accounts for this model are busy. Requests are queued.",
    failing: "All accounts for this model are failing, so requests are not sent at the moment.",
    unavailable: "All accounts for this model are cooling down or disabled.",
    elsewhere: (groups: string) => `A key in ${groups} can call this model.`,
    nearest: (model: string) => `Did you mean ${model}?`,
    publish: (group: string) => `Ask an administrator to publish it in ${group}.`,
    frees: (when: string) => `Available ${when}.`,
    freesWithOne: "Capacity becomes available when a request finishes.",
    askAdministrator: "Ask an administrator.",
  },
};
