/** Lengths and texts of time. */

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
export const WEEK_MS = 7 * DAY_MS;

/** For `retry-after` and texts: rounded up, and never 0. */
export function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}

/** `2027-01-31T12:00:05.000Z` */
export function instantText(ms: number): string;
export function instantText(ms: number | null): string | null;
export function instantText(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
