/** Classifies the errors of upstreams as failures of attempts. */

import { errorStatus, isErrorCode, isUpstreamCode } from "../errors.ts";
import { ACCOUNT_BARRED } from "../protocols/shared/google-error.ts";
import type { UpstreamError } from "../protocols/shared/upstream-error.ts";
import { errorCode, type FailureClass, type UpstreamFailure } from "./failure.ts";
import { KINDS } from "./kinds/table.ts";
import { parseRetryHint } from "./retry-hint.ts";
import { classifyVendorError, type VendorErrors } from "./vendor-errors.ts";

/** Compatible servers pass on the errors of the vendor behind them, so an error is recognized by its form. */
const VENDOR_ERRORS: readonly VendorErrors[] = Object.values(KINDS).flatMap(({ errors }) => errors ?? []);

/**
 * Classifies a failure status, or an error inside a successful response. `Retry-After` takes precedence over the text
 * of the error. The text takes precedence over the counters in other headers, which may give the time when the whole
 * limit is free again.
 */
export function classifyError(
  status: number,
  error: UpstreamError | null,
  retryAfterHeaderMs: number | null,
  counterResetMs: number | null = null,
): UpstreamFailure {
  const failureClass = classify(status, error);
  const textHintMs =
    error === null || !TEMPORARY.has(failureClass)
      ? null
      : (error.resetsInMs ?? parseRetryHint(error.message));
  return {
    class: failureClass,
    status,
    reason: `status ${status}`,
    error,
    retryAfterMs: retryAfterHeaderMs ?? textHintMs ?? counterResetMs,
  };
}

/** Failure classes that end by themselves at a time that the upstream may know. */
const TEMPORARY: ReadonlySet<FailureClass> = new Set(["rate_limited", "quota", "overloaded"]);

function classify(sentStatus: number, error: UpstreamError | null): FailureClass {
  if (error?.isOutOfBounds) return "out_of_bounds";
  const vendorClass = error === null ? null : classifyByVendor(sentStatus, error);
  if (vendorClass !== null) return vendorClass;
  const code = errorCode(error);
  // Inside a stream, some upstreams send the status as the error code.
  const status = sentStatus < 400 && /^[45]\d\d$/.test(code) ? Number(code) : sentStatus;
  if (status === 402 || QUOTA.has(code)) return "quota";
  // A 403 that names the model is no evidence about the other models of the credential.
  if (MODEL_MISSING.has(code) || (status === 404 && namesModel(error))) return "model_missing";
  if (status === 404) return "not_here";
  // Clients do not choose the method, and the API accepts it, so the URL is wrong.
  if (status === 405) return "model_missing";
  // For any status: a policy that rejects a client's content is not a fault of the credential.
  if (isUpstreamCode(code)) return "rejected";
  if (status === 401 || status === 403 || CREDENTIAL.has(code)) return "credential";
  if (status === 429 || RATE_LIMITED.has(code)) return "rate_limited";
  if (status === 408 || status === 504) return "timeout";
  if (status === 503 || status === 529 || OVERLOADED.has(code)) return "overloaded";
  if (status >= 500 || (status < 400 && !isClientFault(error))) return "server";
  return "rejected";
}

function classifyByVendor(status: number, error: UpstreamError): FailureClass | null {
  for (const vendor of VENDOR_ERRORS) {
    const vendorClass = classifyVendorError(vendor, status, error);
    if (vendorClass !== null) return vendorClass;
  }
  return null;
}

/**
 * A 404 without an API error comes from a URL that is not the API. Some servers name the model only in the first
 * words of the message. Elsewhere a message may repeat the client's text, and clients must not be able to put an
 * account into cool-down.
 */
function namesModel(error: UpstreamError | null): boolean {
  if (error === null) return true;
  if (error.param !== null && error.param !== "model") return false;
  return (
    /^the model\b/i.test(error.message) ||
    GEMINI_MODEL_MISSING.test(error.message) ||
    VERTEX_MODEL_MISSING.test(error.message)
  );
}

/** Inside a stream the status is 200, so the error itself must blame the request. */
function isClientFault(error: UpstreamError | null): boolean {
  return [error?.code, error?.type].some(
    (name) =>
      name != null && (name === "invalid_request_error" || (isErrorCode(name) && errorStatus(name) === 400)),
  );
}

/** "models/name is not found for API version v1beta, or is not supported for generateContent." */
const GEMINI_MODEL_MISSING = /^models\/\S{1,256} is not (?:found|supported)\b/;

/** "Publisher Model `projects/…` was not found or your project does not have access to it." */
const VERTEX_MODEL_MISSING = /^publisher model \S{1,512} (?:was not found|is not)\b/i;

/** Google reports an invalid key, and an account that may not use the API at all, with status 400. */
const CREDENTIAL = new Set([
  "API_KEY_INVALID",
  "API_KEY_EXPIRED",
  "API_KEY_SERVICE_BLOCKED",
  "API_KEY_IP_ADDRESS_BLOCKED",
  ACCOUNT_BARRED,
]);
const QUOTA = new Set([
  "insufficient_quota",
  "billing_hard_limit_reached",
  "credit_balance_exhausted",
  "usage_not_included",
]);
const RATE_LIMITED = new Set(["rate_limit_exceeded", "usage_limit_reached"]);
const MODEL_MISSING = new Set(["model_not_found", "DeploymentNotFound"]);
const OVERLOADED = new Set(["server_is_overloaded", "overloaded_error", "slow_down", "engine_overloaded"]);
