/** What an upstream reports about its rate limits. */

/** The tighter one of an upstream's limits for requests and for tokens. */
export interface Headroom {
  /** The remaining part of the limit: 0 to 1. */
  readonly remaining: number;
  /** Time until the limit resets; 0 when enough is left for the time not to matter. */
  readonly resetMs: number;
}

/** One limit of an upstream, as reported by its last response. Null where the response has no value. */
export interface ReportedLimit {
  readonly unit: "requests" | "tokens";
  readonly limit: number | null;
  readonly remaining: number | null;
  /** Time until the limit resets, from the response on. */
  readonly resetMs: number | null;
}
