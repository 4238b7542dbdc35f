/** The capability profile of an account: by its kind, vendor and address, with what its configuration overrides. */

import type { PolicyAccount } from "../policy/snapshot.ts";
import { GEMINI_PROFILE } from "../protocols/gemini/gemini-profile.ts";
import {
  type AccountProfile,
  ANTHROPIC_PROFILE,
  COMPATIBLE_PROFILE,
  OPENAI_PROFILE,
} from "../protocols/hub/account-profile.ts";
import { VENDORS } from "../vendors.ts";
import { VENDOR_PROFILES } from "./vendor-profiles.ts";

const OPENAI_HOST = /^https:\/\/(?:[\w-]+\.)?api\.openai\.com(?:[:/]|$)/;

/** Accounts are immutable, so their profiles are built once. */
const profiles = new WeakMap<PolicyAccount, AccountProfile>();

export function accountProfile(account: PolicyAccount): AccountProfile {
  let profile = profiles.get(account);
  if (profile === undefined) {
    profile = { ...defaultProfile(account), ...readOverrides(account.profile ?? {}) };
    profiles.set(account, profile);
  }
  return profile;
}

function defaultProfile({ kind, vendor, baseUrl }: PolicyAccount): AccountProfile {
  if (kind === "gemini") return GEMINI_PROFILE;
  if (kind === "anthropic") return ANTHROPIC_PROFILE;
  const preset = VENDORS.find((name) => name === vendor);
  if (preset !== undefined) return VENDOR_PROFILES[preset];
  return kind === "azure" || OPENAI_HOST.test(baseUrl) ? OPENAI_PROFILE : COMPATIBLE_PROFILE;
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
