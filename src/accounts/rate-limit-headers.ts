/** The headers in which a vendor reports its rate limits, as the kinds of accounts declare them. */

import type { ResponseHeaders } from "../net/http-client/contract.ts";

export interface RateLimitHeaders {
  readonly limits: readonly RateLimitNames[];
  /** Null if the value is no time. */
  readResetMs(reset: string, headers: ResponseHeaders): number | null;
}

export interface RateLimitNames {
  /** Null for a limit that administrators do not see: it is part of another. */
  readonly unit: "requests" | "tokens" | null;
  readonly remaining: string;
  readonly limit: string;
  readonly reset: string;
}

/** Used if an upstream reports an exhausted limit without a time. */
export const RESET_MS_DEFAULT = 1_000;
