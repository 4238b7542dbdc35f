/** Compares two states of one entry and lists the fields that differ, in a form for operators. */

import { flatPrice } from "../../money/prices.ts";
import type { AccountRecord } from "../../records/account.ts";
import { defaultOnDisconnect, type GroupBilling, type GroupRecord } from "../../records/group.ts";
import { INTERFACES, type Interface } from "../../records/interfaces.ts";
import type { KeyRecord } from "../../records/key.ts";
import type { ModelRecord } from "../../records/model.ts";
import type { FieldChange } from "../../records/policy.ts";
import type { UserRecord } from "../../records/user.ts";
import { durationText, formatLimits } from "../schema/usage-limits.ts";

export type { FieldChange };

/** The fields of an entry with the names of the file. Never contains secrets. */
export type FormattedFields = Readonly<Record<string, string | null>>;

const HIDDEN = "(changed)";

/** Reports that a secret changed, without any part of its value. */
export function secretChange(field: string): FieldChange {
  return { field, from: HIDDEN, to: HIDDEN };
}

export function secretSet(field: string): FieldChange {
  return { field, from: null, to: "(set, not shown)" };
}

export function changedFields(before: FormattedFields, after: FormattedFields): FieldChange[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].flatMap((field) => {
    const from = before[field] ?? null;
    const to = after[field] ?? null;
    return from === to ? [] : [{ field, from, to }];
  });
}

export function createdFields(after: FormattedFields): FieldChange[] {
  return changedFields({}, after);
}

export function formatModel(model: ModelRecord): FormattedFields {
  return { interfaces: sortInterfaces(model.interfaces), ...formatListedModel(model) };
}

export function formatListedModel({
  price,
  contextTokens,
  outputTokensMax,
}: Pick<ModelRecord, "price" | "contextTokens" | "outputTokensMax">): FormattedFields {
  return {
    price: price === null ? null : map(flatPrice(price)),
    context_tokens: contextTokens === null ? null : String(contextTokens),
    max_output_tokens: outputTokensMax === null ? null : String(outputTokensMax),
  };
}

export function formatAccount(account: AccountRecord): FormattedFields {
  return {
    kind: account.kind,
    vendor: account.vendor ?? null,
    profile: account.profile == null ? null : formatProfile(account.profile),
    base_url: account.baseUrl === "" ? null : account.baseUrl,
    interfaces: sortInterfaces(account.interfaces),
    websocket: String(account.websocket),
    api_version: account.apiVersion,
    region: account.region ?? null,
    project: account.project ?? null,
    propagate_trace: String(account.propagateTrace),
    private_network: String(account.privateNetwork),
    priority: String(account.priority),
    weight: String(account.weight),
    models: map(account.models),
    ...formatLimits("limits", account.limits),
    enabled: String(account.enabled),
  };
}

function formatProfile(profile: NonNullable<AccountRecord["profile"]>): string {
  return map(Object.fromEntries(Object.entries(profile).map(([name, value]) => [name, String(value)])));
}

/** `nameOf` maps the id of an account to its name, because ids mean nothing to a reader. */
export function formatGroup(
  group: GroupRecord,
  getAccountName: (accountId: string) => string,
): FormattedFields {
  return {
    interfaces: sortInterfaces(group.interfaces),
    models: list(group.models),
    accounts: list(group.accounts.map(getAccountName)),
    access: group.access,
    ...formatBilling(group.billing),
    on_disconnect: group.onDisconnect ?? `${defaultOnDisconnect(group.billing.charge)} (default)`,
    websocket: String(group.websocket),
    cost_headers: String(group.costHeaders),
    capture: group.capture,
    ...formatLimits("limits", group.limits),
    ...formatLimits("group_limits", group.groupLimits),
    "queue.max_waiting": String(group.queue.maxWaiting),
    "queue.timeout": durationText(group.queue.timeoutMs),
  };
}

function formatBilling({
  charge,
  plans,
  multiplier,
  modelMultipliers,
  modelPrices,
}: GroupBilling): FormattedFields {
  const prices = Object.entries(modelPrices).map(([model, price]) => [
    `billing.model_prices.${model}`,
    map(flatPrice(price)),
  ]);
  return {
    "billing.charge": charge,
    "billing.plans": plans === null ? null : list(plans),
    "billing.multiplier": multiplier,
    "billing.model_multipliers": map(modelMultipliers),
    ...Object.fromEntries(prices),
  };
}

/** `nameOf` maps the id of a group to its name. */
export function formatUser(user: UserRecord, getGroupName: (groupId: string) => string): FormattedFields {
  return {
    role: user.role,
    status: user.status,
    ...formatLimits("limits", user.limits),
    groups: user.groups.length === 0 ? null : list(user.groups.map(getGroupName)),
  };
}

/** `group` is the name of the key's group. */
export function formatKey(key: Pick<KeyRecord, "expiresAtMs" | "limits">, group: string): FormattedFields {
  return { group, expires: formatInstant(key.expiresAtMs), ...formatLimits("limits", key.limits) };
}

export function formatInstant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

/** Interfaces are a set, so they need a fixed order. */
function sortInterfaces(interfaces: readonly Interface[]): string {
  return list(INTERFACES.filter((name) => interfaces.includes(name)));
}

function list(entries: readonly string[]): string {
  return `[${entries.join(", ")}]`;
}

/** Sorted, because the order of a map must not count as a difference. */
function map(entries: Readonly<Record<string, string>>): string {
  const sorted = Object.entries(entries).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${sorted.map(([name, value]) => `${name}: ${value}`).join(", ")}}`;
}
