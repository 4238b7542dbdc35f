/** The capability profile of an account: by its kind, vendor and address, with what its configuration overrides. */

import { GEMINI_PROFILE, VERTEX_GEMINI_PROFILE } from "../protocols/gemini/gemini-profile.ts";
import {
  type AccountProfile,
  ANTHROPIC_PROFILE,
  COMPATIBLE_PROFILE,
  HOSTED_CLAUDE_PROFILE,
  OPENAI_PROFILE,
} from "../protocols/hub/account-profile.ts";
import type { HostedForm } from "../protocols/shared/request.ts";
import type { Dialect, Interface } from "../records/interfaces.ts";
import { VENDORS } from "../vendors.ts";
import type { PolicyAccount } from "./account.ts";
import { VENDOR_PROFILES } from "./vendor-profiles.ts";

const OPENAI_HOST = /^https:\/\/(?:[\w-]+\.)?api\.openai\.com(?:[:/]|$)/;

/** Accounts are immutable, so their profiles are built once. */
const profiles = new WeakMap<PolicyAccount, Map<Dialect, AccountProfile>>();

/** `dialect` is the one that the request is written in: Vertex AI has two. */
export function accountProfile(account: PolicyAccount, dialect: Dialect): AccountProfile {
  const byDialect = profiles.get(account) ?? new Map<Dialect, AccountProfile>();
  profiles.set(account, byDialect);
  let profile = byDialect.get(dialect);
  if (profile === undefined) {
    profile = { ...defaultProfile(account, dialect), ...readOverrides(account.profile ?? {}) };
    byDialect.set(dialect, profile);
  }
  return profile;
}

function defaultProfile({ kind, vendor, baseUrl }: PolicyAccount, dialect: Dialect): AccountProfile {
  switch (kind) {
    case "gemini":
      return GEMINI_PROFILE;
    case "anthropic":
      return ANTHROPIC_PROFILE;
    case "bedrock":
      return HOSTED_CLAUDE_PROFILE;
    case "vertex":
      return dialect === "gemini" ? VERTEX_GEMINI_PROFILE : HOSTED_CLAUDE_PROFILE;
  }
  const preset = VENDORS.find((name) => name === vendor);
  if (preset !== undefined) return VENDOR_PROFILES[preset];
  return kind === "azure" || OPENAI_HOST.test(baseUrl) ? OPENAI_PROFILE : COMPATIBLE_PROFILE;
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
