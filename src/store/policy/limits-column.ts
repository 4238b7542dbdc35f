/** Limits as a column: JSON of those that are set, so that `{}` is none. */

import { z } from "zod";
import {
  type CallerLimits,
  NO_LIMITS,
  NO_RATE_LIMITS,
  type RateLimits,
  type WindowLimit,
} from "../../records.ts";
import { json, text } from "../engine/row.ts";
import type { Row } from "../engine/transaction.ts";

const NONE = "{}";

const limit = z.int().positive().nullable().default(null);
const rateForm = z.object({ concurrency: limit, rpm: limit, tpm: limit });
const windowForm = z.object({ perMs: z.int().positive(), requests: limit, tokens: limit, nano: limit });
const callerForm = rateForm.extend({ windows: z.array(windowForm).default([]) });

export function rateLimits(row: Row, column: string): RateLimits {
  return text(row, column) === NONE ? NO_RATE_LIMITS : json(row, column, rateForm);
}

const DIFFERENT_MAX = 1_000;
const known = new Map<string, CallerLimits>([[NONE, NO_LIMITS]]);

/** A hundred thousand keys have few different limits: each is read once, and those alike share it. */
export function callerLimits(row: Row, column: string): CallerLimits {
  const written = text(row, column);
  const found = known.get(written);
  if (found !== undefined) return found;
  const limits = json(row, column, callerForm);
  if (known.size < DIFFERENT_MAX) known.set(written, limits);
  return limits;
}

export function rateLimitsText({ concurrency, rpm, tpm }: RateLimits): string {
  return JSON.stringify(given({ concurrency, rpm, tpm }));
}

/** The same limits are the same text: whether they changed is told by comparing it. */
export function callerLimitsText({ concurrency, rpm, tpm, windows }: CallerLimits): string {
  const set = windows.toSorted((a, b) => a.perMs - b.perMs).map(windowText);
  return JSON.stringify({
    ...given({ concurrency, rpm, tpm }),
    ...(set.length === 0 ? {} : { windows: set }),
  });
}

function windowText({ perMs, requests, tokens, nano }: WindowLimit): Record<string, number> {
  return { perMs, ...given({ requests, tokens, nano }) };
}

function given(limits: Readonly<Record<string, number | null>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(limits).filter((entry): entry is [string, number] => entry[1] !== null),
  );
}
