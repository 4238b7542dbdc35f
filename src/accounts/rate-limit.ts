/** Reads the rate limits that upstreams report: when to retry, and how much of each limit is left. */

import type { AnswerHeaders } from "../net/http-client/contract.ts";
import { readAnthropicHeadroom, readAnthropicLimits } from "./anthropic-rate-limit.ts";
import type { Headroom, ReportedLimit } from "./headroom.ts";

export type { Headroom, ReportedLimit } from "./headroom.ts";

/** Reads `retry-after-ms`, or `Retry-After` as seconds or as a date; null when neither is present. */
export function retryAfterMs(headers: AnswerHeaders, nowMs: number): number | null {
  const ms = Number(headers.get("retry-after-ms") ?? Number.NaN);
  if (Number.isFinite(ms) && ms >= 0) return ms;
  const value = headers.get("retry-after");
  if (value === null) return null;
  const seconds = Number(value);
  if (Number.isFinite(seconds) && seconds >= 0) return seconds * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs);
}

/** Returns the time until an exhausted limit resets, from `x-ratelimit-reset-*`; null when no limit is exhausted. */
export function readExhaustedReset(headers: AnswerHeaders): number | null {
  const headroom = readHeadroom(headers);
  return headroom !== null && headroom.remaining <= 0 ? headroom.resetMs : null;
}

const AMPLE_SHARE = 0.5;
const RESET_MS_DEFAULT = 1_000;

/**
 * Reads `x-ratelimit-*` or `anthropic-ratelimit-*`; null when the upstream sends none. Called after every response, so it reads as little as
 * possible.
 */
export function readHeadroom(headers: AnswerHeaders): Headroom | null {
  const requestShare = remainingShare(
    headers.get("x-ratelimit-remaining-requests"),
    headers,
    "x-ratelimit-limit-requests",
  );
  const tokenShare = remainingShare(
    headers.get("x-ratelimit-remaining-tokens"),
    headers,
    "x-ratelimit-limit-tokens",
  );
  if (requestShare === null && tokenShare === null) return readAnthropicHeadroom(headers);
  const remaining = Math.min(requestShare ?? 1, tokenShare ?? 1);
  if (remaining >= AMPLE_SHARE) return { remaining, resetMs: 0 };
  const resets = [
    requestShare === remaining ? headers.get("x-ratelimit-reset-requests") : null,
    tokenShare === remaining ? headers.get("x-ratelimit-reset-tokens") : null,
  ].map((value) => (value === null ? 0 : (durationMs(value) ?? 0)));
  return { remaining, resetMs: Math.max(...resets) || RESET_MS_DEFAULT };
}

/** All limits that a response reports, for administrators. */
export function readReportedLimits(headers: AnswerHeaders): ReportedLimit[] {
  const limits = (["requests", "tokens"] as const).flatMap((unit): ReportedLimit[] => {
    const limit = parseCount(headers.get(`x-ratelimit-limit-${unit}`));
    const remaining = parseCount(headers.get(`x-ratelimit-remaining-${unit}`));
    const reset = headers.get(`x-ratelimit-reset-${unit}`);
    if (limit === null && remaining === null) return [];
    return [{ unit, limit, remaining, resetMs: reset === null ? null : durationMs(reset) }];
  });
  return limits.length > 0 ? limits : readAnthropicLimits(headers);
}

function parseCount(text: string | null): number | null {
  const count = text === null || text === "" ? Number.NaN : Number(text);
  return Number.isFinite(count) && count >= 0 ? count : null;
}

function remainingShare(remaining: string | null, headers: AnswerHeaders, limitName: string): number | null {
  const count = remaining === null || remaining === "" ? Number.NaN : Number(remaining);
  if (!Number.isFinite(count)) return null;
  if (count <= 0) return 0;
  const limit = Number(headers.get(limitName) ?? Number.NaN);
  // Without the limit, the share is unknown. Only that something remains is known.
  return limit > 0 ? Math.min(1, count / limit) : 1;
}

const DURATION_CHARS_MAX = 64;
const PART = /(\d+(?:\.\d+)?)\s*([a-zµ]+)?[\s,]*(?:and\s+)?/iy;
const UNIT_MS = new Map<string, number>(
  Object.entries({
    ns: 1e-6,
    us: 1e-3,
    µs: 1e-3,
    ms: 1,
    millisecond: 1,
    s: 1_000,
    sec: 1_000,
    second: 1_000,
    m: 60_000,
    min: 60_000,
    minute: 60_000,
    h: 3_600_000,
    hr: 3_600_000,
    hour: 3_600_000,
    d: 86_400_000,
    day: 86_400_000,
  }),
);

/** Parses `1s`, `6m0s`, `12ms`, `1 hour 5 minutes`; a bare number is seconds. Stops at the first other word. */
export function durationMs(text: string): number | null {
  const start = text.slice(0, DURATION_CHARS_MAX);
  let total: number | null = null;
  PART.lastIndex = 0;
  while (PART.lastIndex < start.length) {
    const part = PART.exec(start);
    if (part === null) break;
    const [, amount = "", word] = part;
    const unitMs = word === undefined ? 1_000 : lookUpUnit(word.toLowerCase());
    // Several parts need units: `20 30` is not a duration.
    if (unitMs === undefined || (word === undefined && total !== null)) break;
    total = (total ?? 0) + Number(amount) * unitMs;
    if (word === undefined) break;
  }
  return total;
}

/** Accepts the plural as well. */
function lookUpUnit(word: string): number | undefined {
  return UNIT_MS.get(word) ?? (word.endsWith("s") ? UNIT_MS.get(word.slice(0, -1)) : undefined);
}

const TEXT_CHARS_MAX = 2_000;
const HINT = /\b(?:try(?:ing)? again|retry(?:ing)?)\s+(?:in|after)\s+(?=\d)/gi;

/**
 * Parses "Please try again in 1.5s" or "retry after 20 seconds", because many upstreams report the time only in text.
 */
export function parseRetryHint(text: string): number | null {
  const start = text.slice(0, TEXT_CHARS_MAX);
  for (const { 0: lead, index } of start.matchAll(HINT)) {
    const ms = durationMs(start.slice(index + lead.length));
    if (ms !== null && ms > 0) return ms;
  }
  return null;
}
