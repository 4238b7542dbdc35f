/**
 * Converts records to the shape of the file. `export` prints it, and a change of one field starts from it.
 * Contains no secrets.
 */

import type { AccountRecord } from "../../records/account.ts";
import type { GroupBilling, GroupRecord } from "../../records/group.ts";
import type { KeyRecord } from "../../records/key.ts";
import type { ModelRecord } from "../../records/model.ts";
import { type Price, TOKEN_UNITS } from "../../records/price.ts";
import type { UserRecord } from "../../records/user.ts";
import { isRegional, regionalBaseUrl } from "../../vendors.ts";
import { limitsToFile, queueToFile } from "../schema/usage-limits.ts";
import { formatInstant } from "./difference.ts";

export function modelToFile({ id, interfaces, price, contextTokens, outputTokensMax }: ModelRecord) {
  return {
    id,
    interfaces,
    ...(price === null ? {} : { price: sortPriceUnits(price) }),
    ...(contextTokens === null ? {} : { context_tokens: contextTokens }),
    ...(outputTokensMax === null ? {} : { max_output_tokens: outputTokensMax }),
  };
}

export function accountToFile(account: AccountRecord) {
  return {
    name: account.name,
    kind: account.kind,
    ...(account.vendor == null ? {} : { vendor: account.vendor }),
    ...(account.profile == null ? {} : { profile: account.profile }),
    ...(hasOwnAddress(account) ? { base_url: account.baseUrl } : {}),
    interfaces: account.interfaces,
    ...(account.websocket ? { websocket: true } : {}),
    ...(account.apiVersion === null ? {} : { api_version: account.apiVersion }),
    ...(account.region == null ? {} : { region: account.region }),
    ...(account.project == null ? {} : { project: account.project }),
    ...(account.propagateTrace ? { propagate_trace: true } : {}),
    ...(account.privateNetwork ? { private_network: true } : {}),
    priority: account.priority,
    weight: account.weight,
    ...omitUndefined("limits", limitsToFile(account.limits)),
    models: account.models,
    ...(account.enabled ? {} : { enabled: false }),
  };
}

/** The address of a region is left out, so that a changed region changes the address. */
function hasOwnAddress({ kind, region, baseUrl }: AccountRecord): boolean {
  if (kind === "simulator") return false;
  return !isRegional(kind) || region == null || baseUrl !== regionalBaseUrl(kind, region);
}

export function groupToFile(group: GroupRecord, accountNames: ReadonlyMap<string, string>) {
  return {
    name: group.name,
    interfaces: group.interfaces,
    models: group.models,
    accounts: group.accounts.map((id) => accountNames.get(id) ?? id),
    access: group.access,
    billing: billingToFile(group.billing),
    ...omitUndefined("limits", limitsToFile(group.limits)),
    ...omitUndefined("group_limits", limitsToFile(group.groupLimits)),
    queue: queueToFile(group.queue),
    ...(group.onDisconnect === null ? {} : { on_disconnect: group.onDisconnect }),
    ...(group.websocket ? {} : { websocket: false }),
    ...(group.costHeaders ? { cost_headers: true } : {}),
    ...(group.capture === "off" ? {} : { capture: group.capture }),
  };
}

/** Omits the balance: it is in the ledger, and a value in the file would be outdated after the next request. */
export function userToFile(
  { email, role, status, limits, groups }: UserRecord,
  groupNames: ReadonlyMap<string, string>,
  subscriptions: object[] | undefined,
) {
  return {
    email,
    role,
    ...(status === "active" ? {} : { status }),
    ...omitUndefined("limits", limitsToFile(limits)),
    ...omitUndefined(
      "groups",
      groups.length === 0 ? undefined : groups.map((id) => groupNames.get(id) ?? id),
    ),
    ...omitUndefined("subscriptions", subscriptions),
  };
}

export function keyToFile(
  key: KeyRecord,
  groupNames: ReadonlyMap<string, string>,
  emails: ReadonlyMap<string, string>,
) {
  return {
    name: key.name,
    ...(key.userId === null ? {} : { user: emails.get(key.userId) ?? key.userId }),
    group: groupNames.get(key.groupId) ?? key.groupId,
    ...(key.expiresAtMs === null ? {} : { expires: formatInstant(key.expiresAtMs) }),
    ...omitUndefined("limits", limitsToFile(key.limits)),
  };
}

function omitUndefined<Field extends string, Value>(
  field: Field,
  value: Value | undefined,
): { [field in Field]?: Value } {
  const fields: { [field in Field]?: Value } = {};
  if (value !== undefined) fields[field] = value;
  return fields;
}

function billingToFile({ charge, plans, multiplier, modelMultipliers, modelPrices }: GroupBilling) {
  const prices = Object.entries(modelPrices).map(([model, price]) => [model, sortPriceUnits(price)]);
  return {
    charge,
    ...(plans === null ? {} : { plans }),
    multiplier,
    ...(Object.keys(modelMultipliers).length === 0 ? {} : { model_multipliers: modelMultipliers }),
    ...(prices.length === 0 ? {} : { model_prices: Object.fromEntries(prices) as Record<string, Price> }),
  };
}

const PRICE_ORDER: readonly string[] = [
  ...TOKEN_UNITS,
  "image",
  "images",
  "request",
  "long_context",
] satisfies (keyof Price)[];

function sortPriceUnits(price: Price): Price {
  const order = (unit: string) => PRICE_ORDER.indexOf(unit);
  return Object.fromEntries(Object.entries(price).sort(([a], [b]) => order(a) - order(b)));
}
