/** Schemas of rate and usage limits, for accounts and for callers. */

import { z } from "zod";
import { mapKinds } from "../../base/map-kinds.ts";
import { describeRate, RATE_KINDS, UNITS, WINDOW_COUNTS, WINDOW_UNITS } from "../../records/limits.ts";
import { COUNT_MAX, describeFields, text, wholeNumber, windowUsd } from "./basic-values.ts";
import { durationMs, durationText, WINDOW_NAMES } from "./usage-limits.ts";

export const count = wholeNumber(1, COUNT_MAX);

/** A time with a unit. The bound also bounds the timer that implements it. */
export function duration(msMax: number) {
  return text(`a duration like 30s, at most ${durationText(msMax)}`, (value) => {
    const ms = durationMs(value);
    return ms !== null && ms <= msMax;
  }).transform((value) => durationMs(value) ?? 0);
}

export function durationWithin(minMs: number, maxMs: number, example: string) {
  const rule = `a duration from ${durationText(minMs)} to ${durationText(maxMs)}, like ${example}`;
  return text(rule, (value) => {
    const ms = durationMs(value);
    return ms !== null && ms >= minMs && ms <= maxMs;
  }).transform((value) => durationMs(value) ?? minMs);
}

const UNLIMITED = "unlimited";
const FIELD_NAMES = WINDOW_UNITS.map((unit) => UNITS[unit].field);

const window = describeFields({
  per: {
    is: z.enum(WINDOW_NAMES),
    means: "the length of the window, a sliding window",
  },
  usd: {
    is: windowUsd.optional(),
    means: "maximum cost of requests within the window, in USD",
    leftOut: UNLIMITED,
  },
  ...mapKinds(WINDOW_COUNTS, (unit) => ({
    is: count.optional(),
    means: `maximum number of ${UNITS[unit].means} within the window`,
    leftOut: UNLIMITED,
  })),
}).refine((limits) => WINDOW_UNITS.some((unit) => limits[UNITS[unit].field] !== undefined), {
  error: `a window with ${FIELD_NAMES.join(", ")} or several of them`,
});
const windows = z.array(window).refine((list) => new Set(list.map(({ per }) => per)).size === list.length, {
  error: `a list with one entry per length; ${FIELD_NAMES.slice(0, -1).join(", ")} and ${FIELD_NAMES.at(-1)} belong in the same entry`,
});

const rates = mapKinds(RATE_KINDS, (kind) => ({
  is: count.optional(),
  means: describeRate(kind),
  leftOut: UNLIMITED,
}));

export const accountLimits = describeFields(rates);

export const callerLimits = describeFields(
  {
    ...rates,
    windows: { is: windows.optional(), means: "limits over longer sliding windows", leftOut: "none" },
  },
  "limits",
);
