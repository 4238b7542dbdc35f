/** Accounts of kind `openai`: any upstream with an OpenAI-compatible API. */

import { COMPATIBLE_PROFILE, OPENAI_PROFILE } from "../profiles.ts";
import { durationMs } from "../retry-hint.ts";
import { VENDOR_PRESETS, VENDORS } from "../vendors.ts";
import { checkApiKey, KIND_DEFAULTS } from "./kind-defaults.ts";
import type { FieldFault, FileFields, KindDefinition } from "./kind-definition.ts";

const OPENAI_HOST = /^https:\/\/(?:[\w-]+\.)?api\.openai\.com(?:[:/]|$)/;

export const openai: KindDefinition = {
  ...KIND_DEFAULTS,
  interfaces: ["chat", "responses", "embeddings", "images"],
  address: { from: "configuration", suggested: VENDOR_PRESETS.openai.baseUrl },
  fields: ["vendor"],
  check: (account) => [...requireBaseUrl(account), ...checkApiKey(account)],
  profile({ vendor, baseUrl }) {
    const preset = VENDORS.find((name) => name === vendor);
    if (preset !== undefined) return VENDOR_PRESETS[preset].profile;
    return OPENAI_HOST.test(baseUrl) ? OPENAI_PROFILE : COMPATIBLE_PROFILE;
  },
  rateLimits: {
    limits: (["requests", "tokens"] as const).map((unit) => ({
      unit,
      remaining: `x-ratelimit-remaining-${unit}`,
      limit: `x-ratelimit-limit-${unit}`,
      reset: `x-ratelimit-reset-${unit}`,
    })),
    readResetMs: (reset) => durationMs(reset),
  },
};

function requireBaseUrl(account: FileFields): readonly FieldFault[] {
  if (Object.hasOwn(account, "base_url") || Object.hasOwn(account, "vendor")) return [];
  const message = "is missing. Set the base URL of the upstream, like https://api.openai.com/v1.";
  return [{ field: "base_url", message }];
}
