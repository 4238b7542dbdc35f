/** Reads a person from verified claims, by the rules of a provider. Pure. */

import { limits } from "../config/limits/product-limits.ts";
import { isEmail } from "../config/schema/basic-values.ts";
import type { ProviderRecord } from "../records/sign-in.ts";
import type { Role } from "../records/user.ts";

export type Claims = Readonly<Record<string, unknown>>;

/** A person whose claims were verified and who may sign in. */
export interface Person {
  /** As in the ID token. */
  issuer: string;
  subject: string;
  /** In lower case. */
  email: string;
  /** The role that claims grant; null: none. */
  role: Role | null;
  /** Names of groups that claims grant. */
  groups: readonly string[];
}

/** Why a person may not sign in. */
export interface PersonRejection {
  code: "identity_rejected" | "address_not_verified" | "not_assigned";
  /** For the person and for administrators. */
  message: string;
  issuer: string;
  /** Null if the claims contain no valid subject. */
  subject: string | null;
  email: string | null;
  /** Whether access that the person had ends: a required group was lost. */
  endsAccess: boolean;
}

export type ReadPerson = { ok: true; person: Person } | { ok: false; rejection: PersonRejection };

type Rules = Pick<
  ProviderRecord,
  "subjectClaim" | "groupsClaim" | "address" | "domains" | "requireGroup" | "roles" | "groups"
>;

interface OtherSources {
  /** The claims of the same person at the userinfo endpoint. */
  readonly userinfo?: Claims;
  /** Names of groups that the directory has pushed for the person. They replace the groups claim; null: it counts. */
  readonly pushedGroups?: readonly string[] | null;
}

/** `claims` are those of the ID token. */
export function readPerson(
  rules: Rules,
  claims: Claims & { readonly iss: string },
  { userinfo = {}, pushedGroups = null }: OtherSources = {},
): ReadPerson {
  const issuer = claims.iss;
  const { subjectCharsMax } = limits.companySignIn;
  const subject = readSubject(rules, claims);
  const { email, isVerified } = readAddress(claims.email === undefined ? userinfo : claims);
  const reject = (code: PersonRejection["code"], message: string, endsAccess = false): ReadPerson => ({
    ok: false,
    rejection: { code, message, issuer, subject, email, endsAccess },
  });
  if (subject === null || subject.length > subjectCharsMax)
    return reject("identity_rejected", `The provider sent no valid claim \`${rules.subjectClaim}\`.`);
  if (email === null) return reject("address_not_verified", "The provider sent no e-mail address.");
  if (isVerified === false || (isVerified === null && rules.address === "verified"))
    return reject("address_not_verified", `The provider has not verified the address ${email}.`);
  if (rules.domains.length > 0 && !rules.domains.includes(email.slice(email.lastIndexOf("@") + 1)))
    return reject("not_assigned", `Addresses like ${email} may not sign in here. Ask an administrator.`);
  const person = { issuer, subject, email };
  if (pushedGroups === null) return readGroups(rules, claims, userinfo, person, reject);
  const granted = computeGrants(rules, pushedGroups);
  if (granted !== null) return { ok: true, person: { ...person, ...granted } };
  return reject("not_assigned", REQUIRED_GROUP_NOT_PUSHED, true);
}

export const REQUIRED_GROUP_NOT_PUSHED =
  "Your account at the provider is not assigned to this gateway: the directory has pushed no group that is required. Ask an administrator.";

/** Null if the claims contain no such text. */
export function readSubject({ subjectClaim }: Pick<Rules, "subjectClaim">, claims: Claims): string | null {
  return readText(claims, subjectClaim);
}

function readGroups(
  rules: Rules,
  claims: Claims,
  userinfo: Claims,
  person: Pick<Person, "issuer" | "subject" | "email">,
  reject: (code: PersonRejection["code"], message: string, endsAccess?: boolean) => ReadPerson,
): ReadPerson {
  const { groupsClaim } = rules;
  const present = readClaim(claims, groupsClaim) ?? readClaim(userinfo, groupsClaim);
  if (present === undefined && usesGroups(rules) && isOverage(groupsClaim, claims, userinfo))
    return reject(
      "not_assigned",
      `The provider left out the claim \`${groupsClaim}\`, because you have too many groups. An administrator can use app roles instead.`,
    );
  const values = typeof present === "string" ? [present] : Array.isArray(present) ? present : [];
  if (values.length > limits.companySignIn.groupsMax)
    return reject("identity_rejected", `The claim \`${groupsClaim}\` has too many values.`);
  const granted = computeGrants(
    rules,
    values.filter((value): value is string => typeof value === "string"),
  );
  if (granted === null)
    return reject(
      "not_assigned",
      `Your account at the provider is not assigned to this gateway: the claim \`${groupsClaim}\` has no group that is required. Ask an administrator.`,
      true,
    );
  return { ok: true, person: { ...person, ...granted } };
}

/** What the values of a claim, or the names of pushed groups, grant. Null if a required one is missing. */
export function computeGrants(
  { requireGroup, roles, groups }: Pick<Rules, "requireGroup" | "roles" | "groups">,
  values: readonly string[],
): Pick<Person, "role" | "groups"> | null {
  const held = new Set(values);
  const holds = (list: readonly string[]) => list.some((value) => held.has(value));
  if (requireGroup.length > 0 && !holds(requireGroup)) return null;
  const role = holds(roles.admin) ? "admin" : holds(roles.auditor) ? "auditor" : null;
  return { role, groups: Object.keys(groups).filter((name) => holds(groups[name] ?? [])) };
}

/** Whether the userinfo endpoint may have a claim that the ID token lacks. */
export function needsUserinfo(rules: Rules, claims: Claims): boolean {
  return (
    claims.email === undefined || (usesGroups(rules) && readClaim(claims, rules.groupsClaim) === undefined)
  );
}

function usesGroups({ requireGroup, roles, groups }: Rules): boolean {
  return (
    requireGroup.length > 0 ||
    roles.admin.length > 0 ||
    roles.auditor.length > 0 ||
    Object.keys(groups).length > 0
  );
}

/** Entra sends a reference instead of the groups of a person who has more than 200. */
function isOverage(groupsClaim: string, ...sources: readonly Claims[]): boolean {
  return sources.some((claims) => {
    const names = claims._claim_names;
    return typeof names === "object" && names !== null && Object.hasOwn(names, groupsClaim);
  });
}

/** An address and its confirmation come from the same source. Null: the provider does not say. */
function readAddress(claims: Claims): { email: string | null; isVerified: boolean | null } {
  const { email, email_verified: verified } = claims;
  const isValid = typeof email === "string" && isEmail(email);
  return {
    email: isValid ? email.toLowerCase() : null,
    isVerified: verified === undefined || verified === null ? null : verified === true || verified === "true",
  };
}

function readText(claims: Claims, name: string): string | null {
  const value = readClaim(claims, name);
  return typeof value === "string" && value !== "" ? value : null;
}

/** A claim with this very name, otherwise the value at the dotted path. */
function readClaim(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  let value: unknown = claims;
  for (const part of name.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<string, unknown>)[part];
  }
  return value;
}
