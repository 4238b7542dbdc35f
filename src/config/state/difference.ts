/** Compares two states of one entry and lists the fields that differ, in a form for operators. */

import { INTERFACES, type Interface } from "../../records/interfaces.ts";
import type { FieldChange } from "../../records/policy.ts";
import type { UserRecord } from "../../records/user.ts";
import { formatLimits } from "../schema/usage-limits.ts";

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

/** Without `present`, all fields of the record are new. */
export function recordChanges<One>(
  present: One | undefined,
  record: One,
  format: (one: One) => FormattedFields,
): FieldChange[] {
  return changedFields(present === undefined ? {} : format(present), format(record));
}

/** `getGroupName` maps the id of a group to its name, because ids mean nothing to a reader. */
export function formatUser(user: UserRecord, getGroupName: (groupId: string) => string): FormattedFields {
  return {
    role: user.role,
    status: user.status,
    ...formatLimits("limits", user.limits),
    groups: user.groups.length === 0 ? null : formatList(user.groups.map(getGroupName)),
  };
}

/** The fields of a section have its path and a dot before their names. */
export function formatBelow(path: string, fields: FormattedFields): FormattedFields {
  return Object.fromEntries(Object.entries(fields).map(([field, value]) => [`${path}.${field}`, value]));
}

/** Interfaces are a set, so they need a fixed order. */
export function formatInterfaces(interfaces: readonly Interface[]): string {
  return formatList(INTERFACES.filter((name) => interfaces.includes(name)));
}

export function formatList(entries: readonly string[]): string {
  return `[${entries.join(", ")}]`;
}

/** Sorted, because the order of a map must not count as a difference. */
export function formatMap(entries: Readonly<Record<string, string>>): string {
  const sorted = Object.entries(entries).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${sorted.map(([name, value]) => `${name}: ${value}`).join(", ")}}`;
}
