/** How people sign in: with passwords, and at OpenID Connect providers. One setting of the whole installation. */

import { z } from "zod";
import type { Db } from "../engine/db.ts";
import { deleteSetting, readJsonSetting, writeSetting } from "./settings.ts";

/** Who may sign in with a password: everyone, administrators, or no one. */
export const PASSWORD_SIGN_IN = ["allowed", "admins", "off"] as const;
/** `verified`: the provider must confirm the address. `trusted`: for providers that do not send `email_verified`. */
export const ADDRESS_TRUST = ["verified", "trusted"] as const;
/**
 * Who gets a user: at the first sign-in everyone whom the provider's settings admit, or invited people; `scim`: people
 * whom the directory pushes.
 */
export const USER_CREATION = ["on_sign_in", "invited", "scim"] as const;

const provider = z.object({
  name: z.string(),
  issuer: z.string(),
  clientId: z.string(),
  /** Null for a public client. */
  sealedSecret: z.string().nullable(),
  privateNetwork: z.boolean(),
  subjectClaim: z.string(),
  /** A dotted path. */
  groupsClaim: z.string(),
  address: z.enum(ADDRESS_TRUST),
  createUsers: z.enum(USER_CREATION),
  /** Domains of addresses, in lower case; empty: all. */
  domains: z.array(z.string()),
  /** Values of the groups claim, one of which a person needs; empty: none. */
  requireGroup: z.array(z.string()),
  /** Values of the groups claim that grant a role. */
  roles: z.object({ admin: z.array(z.string()), auditor: z.array(z.string()) }),
  /** By the name of a group here: values of the groups claim that grant it. */
  groups: z.record(z.string(), z.array(z.string())),
  /** Keys are suspended if the person has not signed in for this long; null: never. */
  signInEveryMs: z.number().nullable(),
});
export type ProviderRecord = z.output<typeof provider>;

const signIn = z.object({ password: z.enum(PASSWORD_SIGN_IN), providers: z.array(provider) });
export type SignInRecord = z.output<typeof signIn>;

/** Nodes of the version before reject `scim`: for them such a provider admits invited people. */
const storedProvider = provider.extend({ createsByScim: z.boolean().default(false) });
const storedSignIn = signIn
  .extend({ providers: z.array(storedProvider) })
  .transform(({ providers, ...rest }) => ({ ...rest, providers: providers.map(fromStored) }));

function fromStored({ createsByScim, ...rest }: z.output<typeof storedProvider>): ProviderRecord {
  return createsByScim ? { ...rest, createUsers: "scim" } : rest;
}

function toStored(record: ProviderRecord): z.input<typeof storedProvider> {
  return record.createUsers === "scim" ? { ...record, createUsers: "invited", createsByScim: true } : record;
}

export const DEFAULT_SIGN_IN: SignInRecord = { password: "allowed", providers: [] };

const SETTING = "sign_in";

export async function readSignIn(db: Db): Promise<SignInRecord> {
  return (await readJsonSetting(db, SETTING, storedSignIn)) ?? DEFAULT_SIGN_IN;
}

export async function writeSignIn(db: Db, record: SignInRecord): Promise<void> {
  if (record.password === DEFAULT_SIGN_IN.password && record.providers.length === 0)
    await deleteSetting(db, SETTING);
  else
    await writeSetting(db, SETTING, JSON.stringify({ ...record, providers: record.providers.map(toStored) }));
}
