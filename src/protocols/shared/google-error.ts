/** Reads the details of Google's errors, which are more exact than the status: a reason, a quota, a field, a delay. */

import { isObject } from "../../json/parse.ts";

/** The fields of an `UpstreamError` that Google's errors have. */
interface GoogleUpstreamError {
  readonly code: string;
  readonly type: string;
  readonly param: string | null;
  readonly message: string;
  readonly resetsInMs?: number;
}

/** Google's errors have a number as their code and a name as their status. */
export function isGoogleError(
  error: Record<string, unknown>,
): error is Record<string, unknown> & { code: number; status: string } {
  return typeof error.code === "number" && typeof error.status === "string";
}

export function readGoogleError(
  error: Record<string, unknown> & { code: number; status: string },
): GoogleUpstreamError {
  const details = Array.isArray(error.details) ? error.details.filter(isObject) : [];
  const delayMs = readRetryDelay(details);
  const message = typeof error.message === "string" ? error.message : "";
  return {
    code:
      readReason(details) ?? (isAccountBarred(error.status, message) ? ACCOUNT_BARRED : String(error.code)),
    type: error.status,
    param: readField(details),
    message,
    ...(delayMs === null ? {} : { resetsInMs: delayMs }),
  };
}

/** The code of an account that may not use the API at all: because of its region, or without billing. */
export const ACCOUNT_BARRED = "FAILED_PRECONDITION";

/**
 * The status alone is not enough: a file that is still being processed has it too. The beginning of the message cannot
 * be influenced by a client.
 */
function isAccountBarred(status: string, message: string): boolean {
  return (
    status === "FAILED_PRECONDITION" &&
    /^(?:User location is not supported|Gemini API free tier is not available)/.test(message)
  );
}

/** A reason that changes the meaning of the status: an invalid key has the status of an invalid request. */
function readReason(details: readonly Record<string, unknown>[]): string | null {
  for (const { reason, violations } of details) {
    if (typeof reason === "string" && reason.startsWith("API_KEY_")) return reason;
    // A quota of a day, unlike one of a minute, is not free again in a moment.
    if (Array.isArray(violations) && violations.some(isDailyQuota)) return "insufficient_quota";
  }
  return null;
}

function isDailyQuota(violation: unknown): boolean {
  return isObject(violation) && typeof violation.quotaId === "string" && violation.quotaId.includes("PerDay");
}

const DELAY = /^(\d{1,6})(?:\.(\d{1,9}))?s$/;

/** `RetryInfo` has a duration in seconds: `2s`, `0.250s`. */
function readRetryDelay(details: readonly Record<string, unknown>[]): number | null {
  for (const { retryDelay } of details) {
    if (typeof retryDelay !== "string" || !DELAY.test(retryDelay)) continue;
    return Math.ceil(Number(retryDelay.slice(0, -1)) * 1_000);
  }
  return null;
}

/** `BadRequest` lists the invalid fields; the first one is used. */
function readField(details: readonly Record<string, unknown>[]): string | null {
  for (const { fieldViolations } of details) {
    const first: unknown = Array.isArray(fieldViolations) ? fieldViolations[0] : null;
    if (isObject(first) && typeof first.field === "string" && first.field !== "") return first.field;
  }
  return null;
}
