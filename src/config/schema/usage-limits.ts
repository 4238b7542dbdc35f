/** Converts usage limits between the shape of the file, the records, and a text for people. */

import { parseUsd, usdText } from "../../money/nano.ts";
import { DEFAULT_QUEUE, type QueueSettings } from "../../records/group.ts";
import {
  type CallerLimits,
  NO_LIMITS,
  NO_RATE_LIMITS,
  type RateLimits,
  type WindowLimit,
} from "../../records/limits.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** The lengths a window may have. */
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
interface FileRates {
  concurrency?: number | undefined;
  rpm?: number | undefined;
  tpm?: number | undefined;
}

interface FileWindow {
  per: WindowName;
  requests?: number | undefined;
  tokens?: number | undefined;
  usd?: string | undefined;
}

interface FileLimits extends FileRates {
  windows?: FileWindow[] | undefined;
}

export function parseRateLimits(file: FileRates | undefined): RateLimits {
  if (file === undefined) return NO_RATE_LIMITS;
  const { concurrency = null, rpm = null, tpm = null } = file;
  return { concurrency, rpm, tpm };
}

export function parseCallerLimits(file: FileLimits | undefined): CallerLimits {
  if (file === undefined) return NO_LIMITS;
  const windows = (file.windows ?? []).map(({ per, requests = null, tokens = null, usd }) => {
    // The schema ensures that a number represents this amount exactly.
    const nano = usd === undefined ? null : Number(parseUsd(usd));
    return { perMs: WINDOWS_MS[per], requests, tokens, nano };
  });
  return { ...parseRateLimits(file), windows: sortWindows(windows) };
}

export function parseQueue(file: { max_waiting: number; timeout: number } | undefined): QueueSettings {
  return file === undefined ? DEFAULT_QUEUE : { maxWaiting: file.max_waiting, timeoutMs: file.timeout };
}

export interface LimitsInFile {
  concurrency?: number;
  rpm?: number;
  tpm?: number;
  windows?: WindowInFile[];
}

export interface WindowInFile {
  per: string;
  requests?: number;
  tokens?: number;
  usd?: string;
}

/** Limits in file shape; undefined if nothing is limited. */
export function limitsToFile(limits: RateLimits & Partial<CallerLimits>): LimitsInFile | undefined {
  const windows = sortWindows(limits.windows ?? []).map(({ perMs, requests, tokens, nano }) => {
    const usd = nano === null ? {} : { usd: usdText(BigInt(nano)) };
    return { per: durationText(perMs), ...omitNulls({ requests, tokens }), ...usd };
  });
  const { concurrency, rpm, tpm } = limits;
  const rates = omitNulls({ concurrency, rpm, tpm });
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
  const rate = (value: number | null) => (value === null ? null : String(value));
  const shown: Record<string, string | null> = {
    [`${field}.concurrency`]: rate(limits.concurrency),
    [`${field}.rpm`]: rate(limits.rpm),
    [`${field}.tpm`]: rate(limits.tpm),
  };
  for (const window of sortWindows(limits.windows ?? [])) {
    shown[`${field}.windows.${durationText(window.perMs)}`] = windowText(window);
  }
  return shown;
}

/** For example `concurrency 5, rpm 60, 1000 requests per 5h`; null if nothing is limited. */
export function limitsText(limits: CallerLimits): string | null {
  const { concurrency, rpm, tpm } = limits;
  const parts = Object.entries(omitNulls({ concurrency, rpm, tpm })).map(
    ([name, value]) => `${name} ${value}`,
  );
  for (const window of sortWindows(limits.windows)) {
    parts.push(`${windowText(window)} per ${durationText(window.perMs)}`);
  }
  return parts.length === 0 ? null : parts.join(", ");
}

function windowText({ requests, tokens, nano }: WindowLimit): string {
  const parts = Object.entries(omitNulls({ requests, tokens })).map(([unit, value]) => `${value} ${unit}`);
  if (nano !== null) parts.push(`$${usdText(BigInt(nano))}`);
  return parts.join(" and ");
}

/** Windows are a set, so they need a fixed order. */
function sortWindows(windows: readonly WindowLimit[]): WindowLimit[] {
  return windows.toSorted((a, b) => a.perMs - b.perMs);
}

function omitNulls(limits: Readonly<Record<string, number | null>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(limits).filter((entry): entry is [string, number] => entry[1] !== null),
  );
}
