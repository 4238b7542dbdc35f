/** The SCIM User: what is read of a body, and PATCH of a stored person. Attributes that are not stored are ignored. */

import { limits } from "../config/limits/product-limits.ts";
import { isEmail } from "../config/schema/basic-values.ts";
import type { ScimProfile } from "../store/identity/scim-users.ts";
import type { FilterCondition } from "./filter.ts";
import type { PatchOperation } from "./patch.ts";
import { ScimError } from "./scim-error.ts";
import {
  type JsonMembers,
  readFlag,
  readList,
  readMembers,
  readOptionalText,
  readRequiredText,
  unwrapValue,
} from "./values.ts";

export interface PushedUser {
  externalId: string | null;
  userName: string;
  /** Null: not sent. */
  isActive: boolean | null;
  profile: ScimProfile;
}

/** Attributes of RFC 7643 that the gateway has no use for. Directories send them by default. */
const IGNORED: ReadonlySet<string> = new Set(
  "schemas id meta groups nickname profileurl title usertype preferredlanguage locale timezone password phonenumbers ims photos addresses entitlements roles x509certificates".split(
    " ",
  ),
);

/** `body` is a whole User, as in POST and PUT. */
export function readUser(body: unknown): PushedUser {
  return readAttributes(readMembers(body, "body"));
}

export function patchUser(user: PushedUser, operations: readonly PatchOperation[]): PushedUser {
  const { displayName, name, emails } = user.profile;
  const attributes: JsonMembers = new Map<string, unknown>([
    ["externalid", user.externalId],
    ["username", user.userName],
    ["active", user.isActive],
    ["displayname", displayName],
    ["name", readMembers(name, "name")],
    ["emails", emails.map((email) => readMembers(email, "emails"))],
  ]);
  for (const operation of operations) applyOperation(attributes, operation);
  return readAttributes(attributes);
}

function readAttributes(attributes: JsonMembers): PushedUser {
  const name = attributes.get("name") ?? {};
  const parts = name instanceof Map ? name : readMembers(name, "name");
  return {
    externalId: readOptionalText(attributes.get("externalid"), "externalId"),
    userName: readRequiredText(attributes.get("username"), "userName"),
    isActive: readFlag(attributes.get("active"), "active"),
    profile: {
      displayName: readOptionalText(attributes.get("displayname"), "displayName"),
      name: {
        formatted: readOptionalText(parts.get("formatted"), "name.formatted"),
        familyName: readOptionalText(parts.get("familyname"), "name.familyName"),
        givenName: readOptionalText(parts.get("givenname"), "name.givenName"),
      },
      emails: readEmails(attributes.get("emails")),
    },
  };
}

function readEmails(value: unknown): ScimProfile["emails"] {
  return readList(value, "emails", limits.scim.emailsMax).flatMap((one) => {
    const email = one instanceof Map ? one : readMembers(one, "emails");
    const address = readOptionalText(email.get("value"), "emails.value");
    if (address === null) return [];
    if (!isEmail(address))
      throw new ScimError("invalidValue", `emails.value: ${address} is no e-mail address.`);
    const type = readOptionalText(email.get("type"), "emails.type");
    return [{ value: address, type, primary: readFlag(email.get("primary"), "emails.primary") ?? false }];
  });
}

/** The address of the user here, in lower case: the primary one, that for work, or the first. Null: none. */
export function chooseAddress({ userName, profile: { emails } }: Pick<PushedUser, "userName" | "profile">) {
  const chosen =
    emails.find(({ primary }) => primary) ??
    emails.find(({ type }) => type?.toLowerCase() === "work") ??
    emails[0];
  const address = chosen?.value ?? (isEmail(userName) ? userName : null);
  return address?.toLowerCase() ?? null;
}

const SIMPLE: ReadonlySet<string> = new Set(["externalid", "username", "active", "displayname"]);

function applyOperation(attributes: JsonMembers, operation: PatchOperation): void {
  const { op, path, value } = operation;
  const { attribute, conditions, sub } = path;
  if (attribute === null || IGNORED.has(attribute)) return;
  if (attribute === "emails") {
    attributes.set("emails", patchEmails(attributes.get("emails") as JsonMembers[], operation));
    return;
  }
  if (conditions !== null) throw new ScimError("invalidPath", `${attribute}: has one value, not a list.`);
  if (attribute === "name") {
    const name = attributes.get("name") as JsonMembers;
    if (sub !== null) name.set(sub, op === "remove" ? null : unwrapValue(value));
    else if (op === "remove") name.clear();
    else for (const [part, text] of readMembers(value ?? {}, "name")) name.set(part, text);
  } else if (SIMPLE.has(attribute) && sub === null)
    attributes.set(attribute, op === "remove" ? null : unwrapValue(value));
  else
    throw new ScimError(
      "invalidPath",
      `${attribute}${sub === null ? "" : `.${sub}`}: is no attribute of a User.`,
    );
}

const EMAIL_PARTS: ReadonlySet<string> = new Set(["value", "type", "primary", "display"]);

function patchEmails(emails: JsonMembers[], operation: PatchOperation): JsonMembers[] {
  const patched = patchSelected(emails, operation);
  // After each operation, so that each is linear in a bounded list.
  readList(patched, "emails", limits.scim.emailsMax);
  return patched;
}

function patchSelected(
  emails: JsonMembers[],
  { op, path: { conditions, sub }, value }: PatchOperation,
): JsonMembers[] {
  if (sub !== null && !EMAIL_PARTS.has(sub))
    throw new ScimError("invalidPath", `emails.${sub}: is no attribute of an address.`);
  if (conditions === null && sub === null) return replaceEmails(emails, op, value);
  const selected = emails.filter((email) => matches(email, conditions ?? []));
  if (op === "remove" && (sub === null || sub === "value"))
    return emails.filter((email) => !selected.includes(email));
  // Entra replaces `emails[type eq "work"].value` of a person who has no such address yet.
  const isNew = selected.length === 0 && op !== "remove";
  const created: JsonMembers[] = isNew
    ? [new Map((conditions ?? []).map((one) => [one.attribute, one.value]))]
    : [];
  const all = [...emails, ...created];
  for (const email of [...selected, ...created]) {
    if (sub !== null) email.set(sub, op === "remove" ? null : unwrapValue(value));
    else for (const [part, one] of readMembers(value, "emails")) email.set(part, one);
    if (sub === "primary" || sub === null) keepOnePrimary(all, email);
  }
  return all;
}

function replaceEmails(emails: JsonMembers[], op: PatchOperation["op"], value: unknown): JsonMembers[] {
  const sent = readList(value, "emails", limits.scim.emailsMax).map((one) => readMembers(one, "emails"));
  if (op === "replace") return sent;
  const addresses = new Set(sent.map((one) => foldAddress(one)));
  const others = emails.filter((one) => !addresses.has(foldAddress(one)));
  if (op === "remove") return value === undefined || value === null ? [] : others;
  const all = [...others, ...sent];
  for (const email of sent) keepOnePrimary(all, email);
  return all;
}

function foldAddress(email: JsonMembers): string {
  return String(email.get("value")).toLowerCase();
}

function keepOnePrimary(emails: readonly JsonMembers[], newest: JsonMembers): void {
  if (readFlag(newest.get("primary"), "emails.primary") !== true) return;
  for (const email of emails) if (email !== newest) email.set("primary", false);
}

function matches(email: JsonMembers, conditions: readonly FilterCondition[]): boolean {
  return conditions.every(({ attribute, value }) => isEqual(email.get(attribute) ?? null, value));
}

/** Texts have no case here, as in RFC 7643 for these attributes. */
export function isEqual(stored: unknown, wanted: FilterCondition["value"]): boolean {
  if (typeof stored === "string" && typeof wanted === "string")
    return stored.toLowerCase() === wanted.toLowerCase();
  if (typeof stored === "boolean" && typeof wanted === "string")
    return String(stored) === wanted.toLowerCase();
  return stored === wanted;
}
