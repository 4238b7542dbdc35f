/** The error for a request that no account can serve: all are busy, limited, overloaded, failing or disabled. */

import { noAvailableAccount, retryAfter, upstreamUnavailable } from "../../accounts/failure.ts";
import { ApiError } from "../../errors.ts";
import type { Unavailability } from "../../pool/eligibility.ts";
import { decideWait, type SelectionVerdict } from "../../pool/wait-decision.ts";

/** Why no account slot could be taken. */
export interface NoSlot {
  readonly verdict: SelectionVerdict;
  /** For the client: how the request waited without success; null if it is rejected at once. */
  readonly waited: string | null;
}

/** Dispatch tries no further account. */
export const NONE_LEFT: NoSlot = {
  verdict: { waitMs: 0, reason: "out_of_order", freesInMs: null },
  waited: null,
};

/** What is known when dispatch ends without a response. */
export interface NoAccount {
  readonly publicModel: string;
  readonly noSlot: NoSlot;
  /** The most useful error of the attempts; null if there was none. */
  readonly last: ApiError | null;
  /** The error if only accounts were left that must not be used; null if there are none. */
  readonly unable: ApiError | null;
  /** Of all accounts of the model; null if one of them is free, or if nothing was tried. */
  readonly unavailability: Unavailability | null;
}

/** A "not found" of one account is not final while another account may have what the request names. */
export function describeNoAccount({
  publicModel,
  noSlot,
  last,
  unable,
  unavailability,
}: NoAccount): ApiError {
  if (last === null && unable !== null && !mayServeLater(noSlot.verdict)) return unable;
  if (last === null || (last.status === 404 && mayServeLater(noSlot.verdict)))
    return describe(publicModel, noSlot);
  return withRetryTime(last, unavailability);
}

/** Codes of temporary failures. The pool may know when they end. */
const TEMPORARY_CODES: ReadonlySet<string> = new Set([
  "upstream_error",
  "upstream_timeout",
  "server_is_overloaded",
]);

/** Adds `Retry-After` to the error of the last attempt if every account of the model is cooling down. */
function withRetryTime(error: ApiError, unavailability: Unavailability | null): ApiError {
  if (!TEMPORARY_CODES.has(error.code) || error.headers["retry-after"] !== undefined) return error;
  if (unavailability === null || unavailability.freesInMs === null) return error;
  const { reason, freesInMs } = decideWait(unavailability.obstacles, 0);
  if (reason !== "failing" && reason !== "overloaded") return error;
  const { code, message, param, headers } = error;
  return new ApiError(code, message, {
    param,
    headers: { ...headers, "retry-after": retryAfter(freesInMs) },
  });
}

function mayServeLater({ reason }: SelectionVerdict): boolean {
  return reason !== "out_of_order" && reason !== "at_capacity";
}

function describe(publicModel: string, { verdict: { reason, freesInMs }, waited }: NoSlot): ApiError {
  switch (reason) {
    case "busy":
    case "limited": {
      const seconds = retryAfter(freesInMs);
      const detail = waited ?? "All accounts for this model have reached a rate limit.";
      return new ApiError(
        "rate_limit_exceeded",
        `The model \`${publicModel}\` is busy. ${detail} Please try again in ${seconds}s.`,
        {
          headers: { "retry-after": seconds },
          limit: {
            scope: "account",
            kind: reason === "busy" ? "concurrency" : "rate",
            isQueue: waited !== null,
          },
        },
      );
    }
    case "overloaded": {
      const seconds = retryAfter(freesInMs);
      return new ApiError(
        "server_is_overloaded",
        `Selected model is at capacity. Please try again in ${seconds}s, or choose another model.`,
        { headers: { "retry-after": seconds } },
      );
    }
    case "failing":
      return upstreamUnavailable(publicModel, freesInMs);
    case "at_capacity": {
      const when = freesInMs === null ? "later" : `in ${Math.ceil(freesInMs / 60_000)} min`;
      return new ApiError(
        "server_is_overloaded",
        `Selected model is at capacity. Choose another model, or try again ${when}.`,
      );
    }
    case "out_of_order":
      return noAvailableAccount(publicModel);
  }
}
