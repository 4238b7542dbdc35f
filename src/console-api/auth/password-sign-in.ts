/** Decides who may sign in with a password. */

import { ApiError } from "../../errors.ts";
import type { SignInRecord } from "../../records/sign-in.ts";
import type { Role } from "../../records/user.ts";
import type { Db } from "../../store/engine/db.ts";
import type { Credentials } from "../../store/identity/credentials.ts";
import { readSignIn } from "../../store/settings/sections.ts";

/** People of a provider may not: a leaver could still sign in. An emergency needs a local administrator. */
export function mayUsePassword(
  { password }: Pick<SignInRecord, "password">,
  { role, provider }: Pick<Credentials, "role" | "provider">,
): boolean {
  return provider === null && isOpenTo(password, role);
}

function isOpenTo(password: SignInRecord["password"], role: Role): boolean {
  return password === "allowed" || (password === "admins" && role === "admin");
}

/** For a new account with a password. */
export async function requirePasswordSignIn(db: Db, role: Role): Promise<void> {
  const { password, providers } = await readSignIn(db);
  if (isOpenTo(password, role)) return;
  const names = providers.map(({ name }) => name).join(", ");
  throw new ApiError(
    "forbidden",
    `Accounts with a password are turned off. Sign in at ${names || "a provider"}.`,
  );
}
