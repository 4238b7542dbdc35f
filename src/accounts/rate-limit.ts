/** Reads how much of its rate limits an upstream has left. */

import type { ResponseHeaders } from "../net/http-client/contract.ts";
import { KINDS } from "./kinds/table.ts";
import { type RateLimitHeaders, type RateLimitNames, RESET_MS_DEFAULT } from "./rate-limit-headers.ts";

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

/** Compatible servers pass on the headers of the vendor behind them, so each response may have any of these. */
const VENDOR_HEADERS: readonly RateLimitHeaders[] = [
  ...new Set(Object.values(KINDS).flatMap(({ rateLimits }) => rateLimits ?? [])),
];

const AMPLE_SHARE = 0.5;

/** Returns the time until an exhausted limit resets; null when no limit is exhausted. */
export function readExhaustedReset(headers: ResponseHeaders): number | null {
  const headroom = readHeadroom(headers);
  return headroom !== null && headroom.remaining <= 0 ? headroom.resetMs : null;
}

/** Null when the upstream reports no limits. Called after every response, so it reads as little as possible. */
export function readHeadroom(headers: ResponseHeaders): Headroom | null {
  for (const vendor of VENDOR_HEADERS) {
    const headroom = readVendorHeadroom(vendor, headers);
    if (headroom !== null) return headroom;
  }
  return null;
}

function readVendorHeadroom(vendor: RateLimitHeaders, headers: ResponseHeaders): Headroom | null {
  let remaining: number | null = null;
  let resetMs = 0;
  for (const names of vendor.limits) {
    const share = readShare(names, headers);
    if (share === null || (remaining !== null && share > remaining)) continue;
    const shareResetMs = share >= AMPLE_SHARE ? 0 : (readResetMs(vendor, names, headers) ?? 0);
    // Of two limits that are equally tight, the later reset counts.
    resetMs = share === remaining ? Math.max(resetMs, shareResetMs) : shareResetMs;
    remaining = share;
  }
  if (remaining === null) return null;
  return { remaining, resetMs: remaining >= AMPLE_SHARE ? 0 : resetMs || RESET_MS_DEFAULT };
}

export function readReportedLimits(headers: ResponseHeaders): ReportedLimit[] {
  for (const vendor of VENDOR_HEADERS) {
    const limits = vendor.limits.flatMap((names): ReportedLimit[] => {
      const limit = readCount(headers, names.limit);
      const remaining = readCount(headers, names.remaining);
      if (names.unit === null || (limit === null && remaining === null)) return [];
      return [{ unit: names.unit, limit, remaining, resetMs: readResetMs(vendor, names, headers) }];
    });
    if (limits.length > 0) return limits;
  }
  return [];
}

function readResetMs(
  vendor: RateLimitHeaders,
  names: RateLimitNames,
  headers: ResponseHeaders,
): number | null {
  const reset = headers.get(names.reset);
  return reset === null ? null : vendor.readResetMs(reset, headers);
}

function readShare(names: RateLimitNames, headers: ResponseHeaders): number | null {
  const remaining = readNumber(headers, names.remaining);
  if (remaining === null) return null;
  if (remaining <= 0) return 0;
  const limit = readNumber(headers, names.limit) ?? 0;
  // Without the limit, the share is unknown. Only that something remains is known.
  return limit > 0 ? Math.min(1, remaining / limit) : 1;
}

function readCount(headers: ResponseHeaders, name: string): number | null {
  const count = readNumber(headers, name);
  return count !== null && count >= 0 ? count : null;
}

function readNumber(headers: ResponseHeaders, name: string): number | null {
  const text = headers.get(name);
  const value = text === null || text === "" ? Number.NaN : Number(text);
  return Number.isFinite(value) ? value : null;
}
