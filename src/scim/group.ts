/** The SCIM Group: what is read of a body, and PATCH of a stored group. Members are sets, so that a PATCH is linear. */

import { limits } from "../config/limits/product-limits.ts";
import type { FilterCondition } from "./filter.ts";
import type { PatchOperation } from "./patch.ts";
import { ScimError } from "./scim-error.ts";
import { readList, readMembers, readOptionalText, readRequiredText, unwrapValue } from "./values.ts";

export interface PushedGroup {
  externalId: string | null;
  displayName: string;
  /** Ids of people. */
  members: ReadonlySet<string>;
}

const IGNORED: ReadonlySet<string> = new Set(["schemas", "id", "meta"]);

/** `body` is a whole Group, as in POST and PUT. */
export function readGroup(body: unknown): PushedGroup {
  const attributes = readMembers(body, "body");
  return {
    externalId: readOptionalText(attributes.get("externalid"), "externalId"),
    displayName: readRequiredText(attributes.get("displayname"), "displayName"),
    members: new Set(readMemberIds(attributes.get("members"))),
  };
}

export function patchGroup(group: PushedGroup, operations: readonly PatchOperation[]): PushedGroup {
  const patched = { ...group, members: new Set(group.members) };
  for (const operation of operations) applyOperation(patched, operation);
  if (patched.members.size > limits.scim.membersMax) throw tooManyMembers();
  return patched;
}

function applyOperation(
  group: PushedGroup & { members: Set<string> },
  { op, path, value }: PatchOperation,
): void {
  const { attribute, conditions, sub } = path;
  if (attribute === null || IGNORED.has(attribute)) return;
  if (attribute === "members" && (sub === null || sub === "value")) {
    patchMembers(group.members, op, { conditions, value });
    return;
  }
  if (conditions === null && sub === null && attribute === "displayname")
    group.displayName = readRequiredText(op === "remove" ? null : unwrapValue(value), "displayName");
  else if (conditions === null && sub === null && attribute === "externalid")
    group.externalId = op === "remove" ? null : readOptionalText(unwrapValue(value), "externalId");
  else
    throw new ScimError(
      "invalidPath",
      `${attribute}${sub === null ? "" : `.${sub}`}: is no attribute of a Group that can be changed.`,
    );
}

function patchMembers(
  members: Set<string>,
  op: PatchOperation["op"],
  { conditions, value }: { conditions: readonly FilterCondition[] | null; value: unknown },
): void {
  if (conditions !== null) {
    if (op !== "remove")
      throw new ScimError(
        "mutability",
        "members: are added and removed, not changed. Remove one and add another.",
      );
    members.delete(readMemberCondition(conditions));
    return;
  }
  const ids = readMemberIds(value);
  if (op === "replace" || (op === "remove" && (value === undefined || value === null))) members.clear();
  for (const id of ids) {
    if (op === "remove") members.delete(id);
    else members.add(id);
  }
}

/** `members[value eq "…"]` */
function readMemberCondition(conditions: readonly FilterCondition[]): string {
  const [condition, ...more] = conditions;
  if (condition?.attribute !== "value" || typeof condition.value !== "string" || more.length > 0)
    throw new ScimError("invalidPath", 'members: are selected by members[value eq "…"] with an id.');
  return condition.value;
}

function readMemberIds(value: unknown): string[] {
  return readList(value, "members", limits.scim.membersMax).map((one) => {
    const member = readMembers(one, "members");
    const type = readOptionalText(member.get("type"), "members.type");
    if (type !== null && type.toLowerCase() !== "user")
      throw new ScimError("invalidValue", "members: must be users. Groups in groups are not supported.");
    return readRequiredText(member.get("value"), "members.value");
  });
}

function tooManyMembers(): ScimError {
  return new ScimError("tooMany", `members: are more than ${limits.scim.membersMax}.`);
}
