/** Converts usage limits between the shape of the file, the records, and a text for people. */

import { mapKinds } from "../../base/map-kinds.ts";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { amountText } from "../../money/amount-text.ts";
import { parseUsd, usdText } from "../../money/nano.ts";
import { DEFAULT_QUEUE, type QueueSettings } from "../../records/group.ts";
import {
  type CallerLimits,
  NO_LIMITS,
  NO_RATE_LIMITS,
  pickSet,
  RATE_KINDS,
  type RateKind,
  type RateLimits,
  WINDOW_COUNTS,
  WINDOW_UNITS,
  type WindowCount,
  type WindowLimit,
} from "../../records/limits.ts";

const WINDOWS_MS = {
  "5h": 5 * HOUR_MS,
  "1d": DAY_MS,
  "7d": 7 * DAY_MS,
  "30d": 30 * DAY_MS,
} as const;
type WindowName = keyof typeof WINDOWS_MS;
export const WINDOW_NAMES = Object.keys(WINDOWS_MS) as [WindowName, ...WindowName[]];

const DURATION_UNITS_MS: Record<string, number> = {
  w: 7 * DAY_MS,
  d: DAY_MS,
  h: HOUR_MS,
  m: 60_000,
  s: 1_000,
  ms: 1,
};

export function durationMs(value: string): number | null {
  const match = /^(\d{1,9})(ms|s|m|h|d|w)$/.exec(value);
  const unitMs = DURATION_UNITS_MS[match?.[2] ?? ""];
  const count = Number(match?.[1]);
  return match === null || unitMs === undefined || count === 0 ? null : count * unitMs;
}

/** Uses the largest unit that divides the duration. Prefers days to weeks, as the names of windows do. */
export function durationText(ms: number): string {
  const units = Object.entries(DURATION_UNITS_MS).filter(([unit]) => unit !== "w");
  const [unit, unitMs] = units.find(([, unitMs]) => ms % unitMs === 0) ?? ["ms", 1];
  return `${ms / unitMs}${unit}`;
}

/** The parsed form of the schema: omitted limits are undefined. */
type FileRates = Partial<Record<RateKind, number | undefined>>;

interface FileWindow extends Partial<Record<WindowCount, number | undefined>> {
  per: WindowName;
  usd?: string | undefined;
}

interface FileLimits extends FileRates {
  windows?: FileWindow[] | undefined;
}

export function parseRateLimits(file: FileRates | undefined): RateLimits {
  return file === undefined ? NO_RATE_LIMITS : mapKinds(RATE_KINDS, (kind) => file[kind] ?? null);
}

export function parseCallerLimits(file: FileLimits | undefined): CallerLimits {
  if (file === undefined) return NO_LIMITS;
  const windows = (file.windows ?? []).map(({ per, usd, ...counts }) => ({
    perMs: WINDOWS_MS[per],
    ...mapKinds(WINDOW_COUNTS, (unit) => counts[unit] ?? null),
    // The schema ensures that a number represents this amount exactly.
    nano: usd === undefined ? null : Number(parseUsd(usd)),
  }));
  return { ...parseRateLimits(file), windows: sortWindows(windows) };
}

export function parseQueue(file: { max_waiting: number; timeout: number } | undefined): QueueSettings {
  return file === undefined ? DEFAULT_QUEUE : { maxWaiting: file.max_waiting, timeoutMs: file.timeout };
}

export interface LimitsInFile extends Partial<Record<RateKind, number>> {
  windows?: WindowInFile[];
}

export interface WindowInFile extends Partial<Record<WindowCount, number>> {
  per: string;
  usd?: string;
}

/** Limits in file shape; undefined if nothing is limited. */
export function limitsToFile(limits: RateLimits & Partial<CallerLimits>): LimitsInFile | undefined {
  const windows = sortWindows(limits.windows ?? []).map(({ perMs, nano, ...counts }) => ({
    per: durationText(perMs),
    ...pickSet(WINDOW_COUNTS, counts),
    ...(nano === null ? {} : { usd: usdText(BigInt(nano)) }),
  }));
  const rates = pickSet(RATE_KINDS, limits);
  if (windows.length === 0) return Object.keys(rates).length === 0 ? undefined : rates;
  return { ...rates, windows };
}

export function queueToFile({ maxWaiting, timeoutMs }: QueueSettings) {
  return { max_waiting: maxWaiting, timeout: durationText(timeoutMs) };
}

/** Lists each limit as a separate field, so that a difference names the limit that changed. */
export function formatLimits(
  field: string,
  limits: RateLimits & Partial<CallerLimits>,
): Record<string, string | null> {
  const shown: Record<string, string | null> = {};
  for (const kind of RATE_KINDS) shown[`${field}.${kind}`] = limits[kind]?.toString() ?? null;
  for (const window of sortWindows(limits.windows ?? [])) {
    shown[`${field}.windows.${durationText(window.perMs)}`] = windowText(window);
  }
  return shown;
}

/** For example `concurrency 5, rpm 60, 1000 requests per 5h`; null if nothing is limited. */
export function limitsText(limits: CallerLimits): string | null {
  const parts = Object.entries(pickSet(RATE_KINDS, limits)).map(([kind, limit]) => `${kind} ${limit}`);
  for (const window of sortWindows(limits.windows)) {
    parts.push(`${windowText(window)} per ${durationText(window.perMs)}`);
  }
  return parts.length === 0 ? null : parts.join(", ");
}

function windowText(window: WindowLimit): string {
  const parts = WINDOW_UNITS.flatMap((unit) => {
    const limit = window[unit];
    return limit === null ? [] : [amountText(unit, limit)];
  });
  return parts.join(" and ");
}

/** Windows are a set, so they need a fixed order. */
function sortWindows(windows: readonly WindowLimit[]): WindowLimit[] {
  return windows.toSorted((a, b) => a.perMs - b.perMs);
}
