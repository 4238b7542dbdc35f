/** Limits in the shape of the console API, which uses the field names of the file. */

import { z } from "zod";
import {
  durationText,
  type LimitsInFile,
  limitsToFile,
  WINDOW_NAMES,
} from "../../config/schema/usage-limits.ts";
import { ApiError } from "../../errors.ts";
import { usdText } from "../../money/nano.ts";
import type { CallerLimits, WindowLimit } from "../../records/limits.ts";
import { windowUsdField } from "./fields.ts";

const count = z.int().min(1);
const window = z
  .strictObject({
    per: z.enum(WINDOW_NAMES),
    requests: count.optional(),
    tokens: count.optional(),
    usd: windowUsdField.optional(),
  })
  .refine(({ requests, tokens, usd }) => (requests ?? tokens ?? usd) !== undefined, {
    error: "a window must limit requests, tokens or usd",
  });

/** An omitted limit is unlimited. */
export const limitsInput = z
  .strictObject({
    concurrency: count.optional(),
    rpm: count.optional(),
    tpm: count.optional(),
    windows: z.array(window).max(WINDOW_NAMES.length).optional(),
  })
  .refine(({ windows = [] }) => new Set(windows.map(({ per }) => per)).size === windows.length, {
    error: "each window length may appear only once",
    path: ["windows"],
  });

export const limitsAnswer = z.object({
  concurrency: z.number().optional(),
  rpm: z.number().optional(),
  tpm: z.number().optional(),
  windows: z
    .array(
      z.object({
        per: z.string(),
        requests: z.number().optional(),
        tokens: z.number().optional(),
        usd: z.string().optional(),
      }),
    )
    .optional(),
});

export function limitsObject(limits: CallerLimits): LimitsInFile {
  return limitsToFile(limits) ?? {};
}

/**
 * The limits of a key apply in addition to those of its group, so a looser one would have no effect. It is
 * rejected, because it would be misleading.
 */
export function rejectLooserLimits(own: CallerLimits, group: { name: string; limits: CallerLimits }): void {
  const reject = (field: string, most: string) => {
    throw new ApiError(
      "invalid_value",
      `limits.${field}: the group ${group.name} allows each key at most ${most}. Choose a lower or equal limit, or remove it.`,
      { param: `limits.${field}` },
    );
  };
  for (const rate of ["concurrency", "rpm", "tpm"] as const) {
    const most = group.limits[rate];
    if (most !== null && (own[rate] ?? 0) > most) reject(rate, String(most));
  }
  for (const [i, window] of own.windows.entries()) {
    const same = group.limits.windows.find(({ perMs }) => perMs === window.perMs);
    if (same === undefined) continue;
    for (const unit of WINDOW_UNITS) {
      const most = same[unit];
      if (most !== null && (window[unit] ?? 0) > most)
        reject(
          `windows.${i}.${UNIT_FIELDS[unit]}`,
          unit === "nano" ? `$${usdText(BigInt(most))}` : String(most),
        );
    }
  }
}

/**
 * Limits that an operator set on a key have no other source, so omitting one would loosen it as well. Windows
 * of the same length are compared.
 */
export function rejectLimitsBeyond(own: CallerLimits, ceiling: CallerLimits): void {
  const reject = (field: string, most: string) => {
    throw new ApiError(
      "invalid_value",
      `limits.${field}: an administrator set a maximum of ${most} for this key. Choose a lower or equal limit, or ask an administrator.`,
      { param: `limits.${field}` },
    );
  };
  for (const rate of ["concurrency", "rpm", "tpm"] as const) {
    const most = ceiling[rate];
    if (most !== null && (own[rate] ?? Infinity) > most) reject(rate, String(most));
  }
  for (const window of ceiling.windows) {
    const i = own.windows.findIndex(({ perMs }) => perMs === window.perMs);
    for (const unit of WINDOW_UNITS) {
      const most = window[unit];
      if (most === null || (own.windows[i]?.[unit] ?? Infinity) <= most) continue;
      const limitText = `${amountText(unit, most)} per ${durationText(window.perMs)}`;
      reject(i === -1 ? "windows" : `windows.${i}.${UNIT_FIELDS[unit]}`, limitText);
    }
  }
}

function amountText(unit: (typeof WINDOW_UNITS)[number], amount: number): string {
  return unit === "nano" ? `$${usdText(BigInt(amount))}` : `${amount} ${unit}`;
}

const WINDOW_UNITS = ["requests", "tokens", "nano"] as const satisfies (keyof WindowLimit)[];
const UNIT_FIELDS = { requests: "requests", tokens: "tokens", nano: "usd" } as const;
