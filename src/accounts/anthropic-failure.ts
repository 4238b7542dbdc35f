/** Classifies the errors of Anthropic's API, which have a type and no code. */

import type { UpstreamError } from "../protocols/shared/upstream-error.ts";

/** Those of the failure classes that this API can cause. */
type AnthropicFailureClass =
  | "credential"
  | "quota"
  | "rate_limited"
  | "overloaded"
  | "timeout"
  | "server"
  | "model_missing"
  | "not_here";

/** Types that mean the same with any status, also inside a stream, where the status is 200. */
const CLASS_BY_TYPE: ReadonlyMap<string, AnthropicFailureClass> = new Map<string, AnthropicFailureClass>([
  ["authentication_error", "credential"],
  ["permission_error", "credential"],
  ["billing_error", "quota"],
  ["rate_limit_error", "rate_limited"],
  ["overloaded_error", "overloaded"],
  ["timeout_error", "timeout"],
  ["api_error", "server"],
  // Another request changed the same resource: the next account may succeed.
  ["conflict_error", "server"],
]);

/**
 * Texts of an account without money or above its spend limit, which may have the status of an invalid request. They
 * stand at the beginning, where the API never repeats a client's text.
 */
const OUT_OF_MONEY =
  /^(?:your credit balance is too low|you have reached your specified (?:api|workspace) usage limits|this (?:organization|workspace) has (?:reached|exceeded) its|the (?:organization|workspace)'s (?:spend|usage) limit|your organization has (?:reached|exceeded) its (?:spend|usage))/i;
const UNKNOWN_MODEL = /^model: ?\S+$/i;

/** Null for an error of another API, and for one that its status classifies well enough. */
export function classifyAnthropicError(
  status: number,
  { code, type, message }: UpstreamError,
): AnthropicFailureClass | null {
  if (type === null || (code !== null && code !== SPEND_LIMIT && code !== RAMP_LIMIT)) return null;
  if (code === SPEND_LIMIT) return "quota";
  if (type === "not_found_error") return UNKNOWN_MODEL.test(message) ? "model_missing" : "not_here";
  if ((type === "invalid_request_error" || type === "rate_limit_error") && OUT_OF_MONEY.test(message))
    return "quota";
  // Other APIs use the last types of the table for invalid requests, too.
  if (status >= 400 && status < 500 && status !== 409 && SERVER_TYPES.has(type)) return null;
  return CLASS_BY_TYPE.get(type) ?? null;
}

const SERVER_TYPES: ReadonlySet<string> = new Set(["timeout_error", "api_error", "conflict_error"]);
/** The `error_code` in the details of an error. */
const SPEND_LIMIT = "enforced_spend_limit_reached";
const RAMP_LIMIT = "ramp_limit_exceeded";
