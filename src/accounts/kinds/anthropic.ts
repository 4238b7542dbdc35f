/** Accounts of kind `anthropic`: any upstream with Anthropic's Messages API. */

import type { ResponseHeaders } from "../../net/http-client/contract.ts";
import { ANTHROPIC_VERSION } from "../headers.ts";
import { ANTHROPIC_PROFILE } from "../profiles.ts";
import { RESET_MS_DEFAULT } from "../rate-limit-headers.ts";
import type { VendorErrors } from "../vendor-errors.ts";
import { GEMINI_PATH, KIND_DEFAULTS, pathBelowBase } from "./kind-defaults.ts";
import type { KindDefinition } from "./kind-definition.ts";

/** Error types have no code, except for the `error_code` in the details of some. */
const ERRORS: VendorErrors = {
  codes: new Map([
    ["enforced_spend_limit_reached", "quota"],
    ["ramp_limit_exceeded", "rate_limited"],
  ]),
  types: new Map([
    ["authentication_error", "credential"],
    ["permission_error", "credential"],
    ["billing_error", "quota"],
    ["rate_limit_error", "rate_limited"],
    ["overloaded_error", "overloaded"],
    ["not_found_error", "not_here"],
    ["timeout_error", "timeout"],
    ["api_error", "server"],
    // Another request changed the same resource: the next account may succeed.
    ["conflict_error", "server"],
  ]),
  ambiguousTypes: ["timeout_error", "api_error", "conflict_error"],
  texts: [
    { types: ["not_found_error"], begins: /^model: ?\S+$/i, class: "model_missing" },
    {
      // An account without money or above its spend limit may have the status of an invalid request.
      types: ["invalid_request_error", "rate_limit_error"],
      begins:
        /^(?:your credit balance is too low|you have reached your specified (?:api|workspace) usage limits|this (?:organization|workspace) has (?:reached|exceeded) its|the (?:organization|workspace)'s (?:spend|usage) limit|your organization has (?:reached|exceeded) its (?:spend|usage))/i,
      class: "quota",
    },
  ],
};

export const anthropic: KindDefinition = {
  ...KIND_DEFAULTS,
  interfaces: ["messages"],
  address: { from: "kind", baseUrl: "https://api.anthropic.com" },
  setup: { label: "Anthropic", variable: "ANTHROPIC_API_KEY" },
  holdsThreads: true,
  profile: () => ANTHROPIC_PROFILE,
  provider: "anthropic",
  path: ({ basePath }, target) =>
    target.path.startsWith(GEMINI_PATH)
      ? pathBelowBase(basePath, target)
      : `${versionedBase(basePath)}${target.path}`,
  credentialHeader: (credential) => ["x-api-key", credential],
  errors: ERRORS,
  rateLimits: {
    // `tokens` is the tightest of the token limits at Anthropic. Other upstreams may send only the two halves.
    limits: (["requests", "tokens", "input-tokens", "output-tokens"] as const).map((name) => ({
      unit: name === "requests" || name === "tokens" ? name : null,
      remaining: `anthropic-ratelimit-${name}-remaining`,
      limit: `anthropic-ratelimit-${name}-limit`,
      reset: `anthropic-ratelimit-${name}-reset`,
    })),
    readResetMs,
  },
  modelLists: ({ baseUrl, basePath }) => ({
    baseUrl,
    // Without a limit the list has only 20 entries.
    paths: [`${versionedBase(basePath)}/models?limit=1000`],
  }),
  listHeaders: [`anthropic-version: ${ANTHROPIC_VERSION}`],
};

/** Anthropic's own SDKs take a base URL without `/v1`, other clients one with it. */
function versionedBase(basePath: string): string {
  return `${basePath.replace(/\/v1$/, "")}/v1`;
}

/** The reset is a point in time (RFC 3339) by the upstream's clock, which `date` reports. */
function readResetMs(reset: string, headers: ResponseHeaders): number {
  const resetMs = Date.parse(reset) - Date.parse(headers.get("date") ?? "");
  return Number.isNaN(resetMs) ? RESET_MS_DEFAULT : Math.max(RESET_MS_DEFAULT, resetMs);
}
