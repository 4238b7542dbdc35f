/** Limits as a database column: JSON of the limits that are set; `{}` means no limits. */

import { z } from "zod";
import { Cache } from "../../base/cache.ts";
import { mapKinds } from "../../base/map-kinds.ts";
import {
  type CallerLimits,
  NO_LIMITS,
  NO_RATE_LIMITS,
  pickSet,
  RATE_KINDS,
  type RateLimits,
  WINDOW_UNITS,
} from "../../records/limits.ts";
import { json, text } from "../engine/row.ts";
import type { Row } from "../engine/transaction.ts";

const NO_LIMITS_TEXT = "{}";

const limitSchema = z.int().positive().nullable().default(null);
const rateSchema = z.object(mapKinds(RATE_KINDS, () => limitSchema));
const windowSchema = z.object({
  perMs: z.int().positive(),
  ...mapKinds(WINDOW_UNITS, () => limitSchema),
});
const callerSchema = rateSchema.extend({ windows: z.array(windowSchema).default([]) });

export function rateLimits(row: Row, column: string): RateLimits {
  return text(row, column) === NO_LIMITS_TEXT ? NO_RATE_LIMITS : json(row, column, rateSchema);
}

const limitsByText = new Cache<string, CallerLimits>({ name: "caller limits by text", entriesMax: 1_000 });

/** Cached: a hundred thousand keys have few different limits, and equal ones share an object. */
export function callerLimits(row: Row, column: string): CallerLimits {
  const source = text(row, column);
  if (source === NO_LIMITS_TEXT) return NO_LIMITS;
  return limitsByText.getOrCreate(source, () => json(row, column, callerSchema));
}

export function rateLimitsText(limits: RateLimits): string {
  return JSON.stringify(pickSet(RATE_KINDS, limits));
}

/** Equal limits produce equal text, so a change is detected by comparing the text. */
export function callerLimitsText({ windows, ...rates }: CallerLimits): string {
  const windowEntries = windows
    .toSorted((a, b) => a.perMs - b.perMs)
    .map(({ perMs, ...limits }) => ({ perMs, ...pickSet(WINDOW_UNITS, limits) }));
  return JSON.stringify({
    ...pickSet(RATE_KINDS, rates),
    ...(windowEntries.length === 0 ? {} : { windows: windowEntries }),
  });
}
