/** The capability profile of an account: that of its kind, with what its configuration overrides. */

import type { AccountProfile } from "../protocols/hub/account-profile.ts";
import type { HostedForm } from "../protocols/shared/request.ts";
import type { Dialect, Interface } from "../records/interfaces.ts";
import type { PolicyAccount } from "./account.ts";
import { KINDS } from "./kinds/table.ts";

/** Accounts are immutable, so their profiles are built once. */
const profiles = new WeakMap<PolicyAccount, Map<Dialect, AccountProfile>>();

/** `dialect` is the one that the request is written in: Vertex AI has two. */
export function accountProfile(account: PolicyAccount, dialect: Dialect): AccountProfile {
  const byDialect = profiles.get(account) ?? new Map<Dialect, AccountProfile>();
  profiles.set(account, byDialect);
  let profile = byDialect.get(dialect);
  if (profile === undefined) {
    profile = { ...KINDS[account.kind].profile(account, dialect), ...readOverrides(account.profile ?? {}) };
    byDialect.set(dialect, profile);
  }
  return profile;
}

/** The form of a body that passes through to a vendor with OpenAI's interfaces; null if it is OpenAI's own. */
export function vendorForm(account: PolicyAccount, iface: Interface): HostedForm | null {
  if (account.vendor == null || iface !== "chat") return null;
  return accountProfile(account, "chat").shortCallIds === true ? { api: "chat" } : null;
}

/** The configuration has the same fields in snake case, and its schema has checked their values. */
function readOverrides(overrides: Readonly<Record<string, string | boolean>>): Partial<AccountProfile> {
  return Object.fromEntries(
    Object.entries(overrides).map(([name, value]) => [
      name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      value,
    ]),
  );
}
