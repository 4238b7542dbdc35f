/** The error for a request that no account can serve: all are busy, limited, overloaded, failing or disabled. */

import { noAvailableAccount, retryAfter, upstreamUnavailable } from "../../accounts/failure.ts";
import { ApiError } from "../../errors.ts";
import { decide, type SelectionVerdict } from "../../pool/outlook.ts";
import type { Pool } from "../../pool/pool.ts";
import type { DispatchRequest } from "./dispatch-request.ts";

/**
 * One account of this request has failed and the others are failing too, so the client receives that failure at once. A
 * "not found" does not count: another account may have what the request names.
 */
export function hasUpstreamResponse(last: ApiError | null, { reason }: SelectionVerdict): boolean {
  return last !== null && last.status !== 404 && reason === "failing";
}

/** `last` is the error of the latest attempt for this request. */
export function rejectNow(
  verdict: SelectionVerdict,
  dispatchRequest: DispatchRequest,
  last: ApiError | null,
): ApiError {
  const isFinal = last !== null && (last.status !== 404 || !mayServeLater(verdict));
  return isFinal
    ? last
    : describe(verdict, dispatchRequest, {
        detail: "All accounts for this model have reached a rate limit.",
        hasWaited: false,
      });
}

/** For a request that waited in vain, or whose queue is full. */
export function rejectAfterWait(
  verdict: SelectionVerdict,
  dispatchRequest: DispatchRequest,
  last: ApiError | null,
  detail: string,
): ApiError {
  return last === null || last.status === 404
    ? describe(verdict, dispatchRequest, { detail, hasWaited: true })
    : last;
}

/** Codes of temporary failures. The pool may know when they end. */
const TEMPORARY_CODES: ReadonlySet<string> = new Set([
  "upstream_error",
  "upstream_timeout",
  "server_is_overloaded",
]);

/** Adds `Retry-After` to the error of the last attempt if every account of the model is cooling down. */
export function withRetryTime(
  error: ApiError,
  pool: Pick<Pool, "outlook">,
  dispatchRequest: DispatchRequest,
): ApiError {
  if (!TEMPORARY_CODES.has(error.code) || error.headers["retry-after"] !== undefined) return error;
  const outlook = pool.outlook(dispatchRequest.routes);
  if (outlook === null || outlook.freesInMs === null) return error;
  const { reason, freesInMs } = decide(outlook.obstacles, 0);
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

function describe(
  { reason, freesInMs }: SelectionVerdict,
  dispatchRequest: DispatchRequest,
  { detail, hasWaited }: { readonly detail: string; readonly hasWaited: boolean },
): ApiError {
  const { publicModel } = dispatchRequest.request;
  switch (reason) {
    case "busy":
    case "limited": {
      const seconds = retryAfter(freesInMs);
      return new ApiError(
        "rate_limit_exceeded",
        `The model \`${publicModel}\` is busy. ${detail} Please try again in ${seconds}s.`,
        {
          headers: { "retry-after": seconds },
          limit: {
            scope: "account",
            kind: reason === "busy" ? "concurrency" : "rate",
            isQueue: hasWaited,
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
