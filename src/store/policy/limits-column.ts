/** Limits as a database column: JSON of the limits that are set; `{}` means no limits. */

import { z } from "zod";
import { Cache } from "../../base/cache.ts";
import {
  type CallerLimits,
  NO_LIMITS,
  NO_RATE_LIMITS,
  type RateLimits,
  type WindowLimit,
} from "../../records/limits.ts";
import { json, text } from "../engine/row.ts";
import type { Row } from "../engine/transaction.ts";

const NO_LIMITS_TEXT = "{}";

const limitSchema = z.int().positive().nullable().default(null);
const rateSchema = z.object({ concurrency: limitSchema, rpm: limitSchema, tpm: limitSchema });
const windowSchema = z.object({
  perMs: z.int().positive(),
  requests: limitSchema,
  tokens: limitSchema,
  nano: limitSchema,
});
const callerSchema = rateSchema.extend({ windows: z.array(windowSchema).default([]) });

export function rateLimits(row: Row, column: string): RateLimits {
  return text(row, column) === NO_LIMITS_TEXT ? NO_RATE_LIMITS : json(row, column, rateSchema);
}

const limitsByText = new Cache<string, CallerLimits>({ name: "caller limits by text", entriesMax: 1_000 });

/**
 * Cached: a hundred thousand keys have few different limits. Each text is parsed once, and equal limits share one
 * object.
 */
export function callerLimits(row: Row, column: string): CallerLimits {
  const source = text(row, column);
  if (source === NO_LIMITS_TEXT) return NO_LIMITS;
  return limitsByText.getOrCreate(source, () => json(row, column, callerSchema));
}

export function rateLimitsText({ concurrency, rpm, tpm }: RateLimits): string {
  return JSON.stringify(omitUnset({ concurrency, rpm, tpm }));
}

/** Equal limits produce equal text, so a change is detected by comparing the text. */
export function callerLimitsText({ concurrency, rpm, tpm, windows }: CallerLimits): string {
  const windowEntries = windows.toSorted((a, b) => a.perMs - b.perMs).map(toWindowEntry);
  return JSON.stringify({
    ...omitUnset({ concurrency, rpm, tpm }),
    ...(windowEntries.length === 0 ? {} : { windows: windowEntries }),
  });
}

function toWindowEntry({ perMs, requests, tokens, nano }: WindowLimit): Record<string, number> {
  return { perMs, ...omitUnset({ requests, tokens, nano }) };
}

function omitUnset(limits: Readonly<Record<string, number | null>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(limits).filter((entry): entry is [string, number] => entry[1] !== null),
  );
}
