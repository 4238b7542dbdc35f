/**
 * Converts records to the shape of the file. `export` prints it, and a change of one field starts from it. Ids are
 * replaced by names. Contains no secrets.
 */

import { KINDS } from "../../accounts/kinds/table.ts";
import type { AccountRecord } from "../../records/account.ts";
import { defaultOnDisconnect, type GroupRecord } from "../../records/group.ts";
import type { KeyRecord } from "../../records/key.ts";
import type { ModelRecord } from "../../records/model.ts";
import { type RequestPolicyRecord, RULES } from "../../records/request-policy.ts";
import type { UserRecord } from "../../records/user.ts";
import { limitsToFile } from "../schema/usage-limits.ts";
import type { FormattedFields } from "./difference.ts";
import { ACCOUNT_SHAPE, GROUP_SHAPE, KEY_SHAPE, MODEL_SHAPE } from "./file-shape.ts";

type Names = ReadonlyMap<string, string>;

/** Names by id, for groups, which refer to accounts and other groups. */
export interface RecordNames {
  readonly accounts: Names;
  readonly groups: Names;
}

export function nameRecords(records: {
  readonly accounts: readonly Pick<AccountRecord, "id" | "name">[];
  readonly groups: readonly Pick<GroupRecord, "id" | "name">[];
}): RecordNames {
  const collect = (all: readonly { id: string; name: string }[]) =>
    new Map(all.map(({ id, name }) => [id, name]));
  return { accounts: collect(records.accounts), groups: collect(records.groups) };
}

export function modelToFile(model: ModelRecord) {
  return MODEL_SHAPE.write(model);
}

export function accountToFile(account: AccountRecord) {
  return ACCOUNT_SHAPE.write(hasOwnAddress(account) ? account : { ...account, baseUrl: "" });
}

/** The address of a region is left out, so that a changed region changes the address. */
function hasOwnAddress({ kind, region, baseUrl }: AccountRecord): boolean {
  const { address } = KINDS[kind];
  if (address.from === "process") return false;
  return address.from !== "region" || region === null || baseUrl !== address.baseUrl(region);
}

/** Rules of a later version cannot be written: the file would remove them when it is applied. */
export function requestPolicyToFile({ name, selfService, rules }: RequestPolicyRecord) {
  if (rules === null)
    throw new Error(
      `The request policy "${name}" has rules that this version does not know. Use the later version.`,
    );
  return { name, ...(selfService ? { self_service: true } : {}), ...rules };
}

/** One line for each rule. */
export function formatRequestPolicy({ selfService, rules }: RequestPolicyRecord): FormattedFields {
  const lines = RULES.map((rule) => {
    const value = rules?.[rule];
    return [rule, value === undefined ? null : JSON.stringify(value)];
  });
  return { self_service: String(selfService), ...Object.fromEntries(lines) };
}

export function groupToFile(group: GroupRecord, names: RecordNames) {
  return GROUP_SHAPE.write(withNames(group, names));
}

export function formatGroup(group: GroupRecord, names: RecordNames): FormattedFields {
  const onDisconnect = group.onDisconnect ?? `${defaultOnDisconnect(group.billing.charge)} (default)`;
  return { ...GROUP_SHAPE.format(withNames(group, names)), on_disconnect: onDisconnect };
}

function withNames(group: GroupRecord, names: RecordNames): GroupRecord {
  return {
    ...group,
    accounts: group.accounts.map((id) => names.accounts.get(id) ?? id),
    fallback: group.fallback.map((step) => ({
      ...step,
      group: step.group === null ? null : (names.groups.get(step.group) ?? step.group),
    })),
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

export function keyToFile(key: KeyRecord, groupNames: Names, emails: Names) {
  return KEY_SHAPE.write({
    ...key,
    userId: key.userId === null ? null : (emails.get(key.userId) ?? key.userId),
    groupId: groupNames.get(key.groupId) ?? key.groupId,
  });
}

/** `group` is the name of the key's group. The user never changes. */
export function formatKey(key: Parameters<typeof KEY_SHAPE.format>[0], group: string): FormattedFields {
  return KEY_SHAPE.format({ ...key, userId: null, groupId: group });
}

function omitUndefined<Field extends string, Value>(
  field: Field,
  value: Value | undefined,
): { [field in Field]?: Value } {
  const fields: { [field in Field]?: Value } = {};
  if (value !== undefined) fields[field] = value;
  return fields;
}
