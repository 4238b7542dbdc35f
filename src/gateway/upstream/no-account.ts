/** The error for a request that no account can take: busy, limited, overloaded, failing, or out of order. */

import { noAvailableAccount, retryAfter, upstreamUnavailable } from "../../accounts/failure.ts";
import { ApiError } from "../../errors.ts";
import { decide, type Verdict } from "../../pool/outlook.ts";
import type { Pool } from "../../pool/pool.ts";
import type { UpstreamAttempt } from "./attempt.ts";

/**
 * An account of this request has failed already, and the others only fail as well: the client gets that failure at
 * once. "Not found" is no such answer, as another account may have what the request names.
 */
export function isAnswered(last: ApiError | null, { reason }: Verdict): boolean {
  return last !== null && last.status !== 404 && reason === "failing";
}

/** `last` is what the latest account answered that was tried for this request. */
export function rejectNow(verdict: Verdict, order: UpstreamAttempt, last: ApiError | null): ApiError {
  const isFinal = last !== null && (last.status !== 404 || !mayServeLater(verdict));
  return isFinal ? last : describe(verdict, order, "All of its accounts have reached a rate limit.");
}

/** The wait was in vain, or the queue is full. */
export function rejectAfterWait(
  verdict: Verdict,
  order: UpstreamAttempt,
  last: ApiError | null,
  why: string,
): ApiError {
  return last === null || last.status === 404 ? describe(verdict, order, why) : last;
}

/** Codes of failures that time mends, at a time that the pool may know. */
const TIMED: ReadonlySet<string> = new Set(["upstream_error", "upstream_timeout", "server_is_overloaded"]);

/** Adds `Retry-After` to the failure of the last attempt if every account of the model cools down by now. */
export function withRetryTime(
  error: ApiError,
  pool: Pick<Pool, "outlook">,
  order: UpstreamAttempt,
): ApiError {
  if (!TIMED.has(error.code) || error.headers["retry-after"] !== undefined) return error;
  const outlook = pool.outlook(order.routes);
  if (outlook === null || outlook.freesInMs === null) return error;
  const { reason, freesInMs } = decide(outlook.obstacles, 0);
  if (reason !== "failing" && reason !== "overloaded") return error;
  const { code, message, param, headers } = error;
  return new ApiError(code, message, {
    param,
    headers: { ...headers, "retry-after": retryAfter(freesInMs) },
  });
}

function mayServeLater({ reason }: Verdict): boolean {
  return reason !== "out_of_order" && reason !== "at_capacity";
}

function describe({ reason, freesInMs }: Verdict, order: UpstreamAttempt, why: string): ApiError {
  const { publicModel } = order.request;
  switch (reason) {
    case "busy":
    case "limited": {
      const seconds = retryAfter(freesInMs);
      return new ApiError(
        "rate_limit_exceeded",
        `The model \`${publicModel}\` is busy. ${why} Please try again in ${seconds}s.`,
        { headers: { "retry-after": seconds } },
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
