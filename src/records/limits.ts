/**
 * The kinds of limits, and the limits of callers and accounts as they are stored. The file, the database, the limiter,
 * the API and the console follow these tables.
 */

import { mapKinds } from "../base/map-kinds.ts";

interface UnitFacts {
  /** In errors: "60 requests per minute". */
  readonly name: string;
  /** In the reference of gateway.yaml. */
  readonly means: string;
  /** In gateway.yaml and in the APIs. */
  readonly field: string;
}

/** What limits count. `nano` is money in nano-USD: whole numbers, exact up to $9 million. */
export const UNITS = {
  requests: { name: "requests", means: "requests", field: "requests" },
  tokens: { name: "tokens", means: "input and output tokens", field: "tokens" },
  nano: { name: "USD", means: "cost in USD", field: "usd" },
} as const satisfies Record<string, UnitFacts>;
export type Unit = keyof typeof UNITS;
export const ALL_UNITS = Object.keys(UNITS) as readonly Unit[];
export const COUNT_UNITS = ALL_UNITS.filter((unit) => unit !== "nano");
export const UNIT_FIELDS = ALL_UNITS.map((unit) => UNITS[unit].field);
/** Units that a request reserves by estimate, besides one request. */
export type EstimatedUnit = Exclude<Unit, "requests">;

interface MinuteLimit {
  readonly unit: Unit;
  /** In the headers `x-ratelimit-limit-*`, `x-ratelimit-remaining-*` and `x-ratelimit-reset-*`. */
  readonly header: string;
}

/** Limits in any 60 seconds, by their name in the file. */
export const MINUTE_LIMITS = {
  rpm: { unit: "requests", header: "requests" },
  tpm: { unit: "tokens", header: "tokens" },
} as const satisfies Record<string, MinuteLimit>;
export type MinuteKind = keyof typeof MINUTE_LIMITS;
export const MINUTE_KINDS = Object.keys(MINUTE_LIMITS) as readonly MinuteKind[];

/** Limits that callers and accounts may have. */
export type RateKind = "concurrency" | MinuteKind;
export const RATE_KINDS: readonly RateKind[] = ["concurrency", ...MINUTE_KINDS];

export function describeRate(kind: RateKind): string {
  return kind === "concurrency"
    ? "maximum number of concurrent requests"
    : `maximum number of ${UNITS[MINUTE_LIMITS[kind].unit].means} in any 60 seconds`;
}

/** Null means no limit. */
export type RateLimits = Record<RateKind, number | null>;

/** What windows of hours and days count. */
export const WINDOW_UNITS = ["requests", "tokens", "nano"] as const satisfies readonly Unit[];
export type WindowUnit = (typeof WINDOW_UNITS)[number];
export const WINDOW_COUNTS = WINDOW_UNITS.filter((unit) => unit !== "nano");
export type WindowCount = (typeof WINDOW_COUNTS)[number];

/**
 * Maximum requests, tokens or cost in any span of this length. Money is a number instead of a bigint because it is
 * counted on every request; the configuration allows only values that a number holds exactly.
 */
export type WindowLimit = { perMs: number } & Record<WindowUnit, number | null>;

export interface CallerLimits extends RateLimits {
  windows: WindowLimit[];
}

/** The limits that are set, in the order of the table. */
export function pickSet<Kind extends string>(
  kinds: readonly Kind[],
  limits: Readonly<Partial<Record<Kind, number | null>>>,
): Partial<Record<Kind, number>> {
  const set: Partial<Record<Kind, number>> = {};
  for (const kind of kinds) {
    const limit = limits[kind] ?? null;
    if (limit !== null) set[kind] = limit;
  }
  return set;
}

export const NO_RATE_LIMITS = mapKinds(RATE_KINDS, () => null) satisfies RateLimits;
export const NO_LIMITS = { ...NO_RATE_LIMITS, windows: [] } satisfies CallerLimits;
