/** Limits of callers and accounts as they are stored. */

/** Null means no limit. */
export interface RateLimits {
  concurrency: number | null;
  /** Requests in any 60 seconds. */
  rpm: number | null;
  /** Tokens, in and out, in any 60 seconds. */
  tpm: number | null;
}

/** Maximum requests, tokens or cost in any span of this length. */
export interface WindowLimit {
  perMs: number;
  requests: number | null;
  tokens: number | null;
  /**
   * Nano-USD. A number instead of a bigint because it is counted on every request; the configuration allows only
   * values that a number holds exactly.
   */
  nano: number | null;
}

export interface CallerLimits extends RateLimits {
  windows: WindowLimit[];
}

export const NO_RATE_LIMITS: RateLimits = { concurrency: null, rpm: null, tpm: null };

export const NO_LIMITS: CallerLimits = { concurrency: null, rpm: null, tpm: null, windows: [] };
