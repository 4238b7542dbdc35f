/** How people sign in, as it is stored: with passwords, and at OpenID Connect providers. */

import type { Field, RecordOf } from "./fields.ts";
import * as field from "./fields.ts";

/** Who may sign in with a password: everyone, administrators, or no one. */
export const PASSWORD_SIGN_IN = ["allowed", "admins", "off"] as const;
/** `verified`: the provider must confirm the address. `trusted`: for providers that do not send `email_verified`. */
export const ADDRESS_TRUST = ["verified", "trusted"] as const;
/**
 * Who gets a user: at the first sign-in everyone whom the provider's settings admit, or invited people; `scim`: people
 * whom the directory pushes.
 */
export const USER_CREATION = ["on_sign_in", "invited", "scim"] as const;

const claimRoles: Field<{ admin: string[]; auditor: string[] }, "claimRoles"> = { kind: "claimRoles" };
const claimGroups: Field<Record<string, string[]>, "claimGroups"> = { kind: "claimGroups" };

/** An OpenID Connect provider. In the order of the file. */
export const PROVIDER_FIELDS = {
  name: field.identity,
  issuer: field.text,
  clientId: field.text,
  /** Null for a public client. */
  sealedSecret: field.internal(field.optionalText),
  privateNetwork: field.booleanOr(false),
  subjectClaim: field.text,
  /** A dotted path. */
  groupsClaim: field.text,
  address: field.choice(ADDRESS_TRUST),
  createUsers: field.choice(USER_CREATION),
  /** Domains of addresses, in lower case; empty: all. */
  domains: field.textList,
  /** Values of the groups claim, one of which a person needs; empty: none. */
  requireGroup: field.textList,
  /** Values of the groups claim that grant a role. */
  roles: claimRoles,
  /** By the name of a group here: values of the groups claim that grant it. */
  groups: claimGroups,
  /** Keys are suspended if the person has not signed in for this long; null: never. */
  signInEveryMs: field.named("sign_in_every", field.durationOrOff),
};
export interface ProviderRecord extends RecordOf<typeof PROVIDER_FIELDS> {}

export interface SignInRecord {
  password: (typeof PASSWORD_SIGN_IN)[number];
  providers: ProviderRecord[];
}
export const DEFAULT_SIGN_IN: SignInRecord = { password: "allowed", providers: [] };
