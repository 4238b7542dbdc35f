/** Reads when an upstream wants a request to be repeated: from its headers, or from the text of an error. */

import type { ResponseHeaders } from "../net/http-client/contract.ts";

/** Reads `retry-after-ms`, or `Retry-After` as seconds or as a date; null when neither is present. */
export function retryAfterMs(headers: ResponseHeaders, nowMs: number): number | null {
  const ms = Number(headers.get("retry-after-ms") ?? Number.NaN);
  if (Number.isFinite(ms) && ms >= 0) return ms;
  const value = headers.get("retry-after");
  if (value === null) return null;
  const seconds = Number(value);
  if (Number.isFinite(seconds) && seconds >= 0) return seconds * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs);
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

/** Parses "Please try again in 1.5s": many upstreams report the time only in text. */
export function parseRetryHint(text: string): number | null {
  const start = text.slice(0, TEXT_CHARS_MAX);
  for (const { 0: lead, index } of start.matchAll(HINT)) {
    const ms = durationMs(start.slice(index + lead.length));
    if (ms !== null && ms > 0) return ms;
  }
  return null;
}
