/** Limits in the shape of the console API, which uses the field names of the file. */

import { z } from "zod";
import { mapKinds } from "../../base/map-kinds.ts";
import {
  durationText,
  type LimitsInFile,
  limitsToFile,
  WINDOW_NAMES,
} from "../../config/schema/usage-limits.ts";
import { ApiError } from "../../errors.ts";
import { amountText } from "../../money/amount-text.ts";
import { type CallerLimits, RATE_KINDS, UNITS, WINDOW_COUNTS, WINDOW_UNITS } from "../../records/limits.ts";
import { windowUsdField } from "./fields.ts";

const count = z.int().min(1);
const window = z
  .strictObject({
    per: z.enum(WINDOW_NAMES),
    ...mapKinds(WINDOW_COUNTS, () => count.optional()),
    usd: windowUsdField.optional(),
  })
  .refine((limits) => WINDOW_UNITS.some((unit) => limits[UNITS[unit].field] !== undefined), {
    error: "a window must limit requests, tokens or usd",
  });

/** An omitted limit is unlimited. */
export const limitsInput = z
  .strictObject({
    ...mapKinds(RATE_KINDS, () => count.optional()),
    windows: z.array(window).max(WINDOW_NAMES.length).optional(),
  })
  .refine(({ windows = [] }) => new Set(windows.map(({ per }) => per)).size === windows.length, {
    error: "each window length may appear only once",
    path: ["windows"],
  });

/** The shape without checks: for responses, and for documents that the schema of the file validates. */
export const rateFields = mapKinds(RATE_KINDS, () => z.number().optional());
const windowShapes = z
  .array(
    z.strictObject({
      per: z.string(),
      ...mapKinds(WINDOW_COUNTS, () => z.number().optional()),
      usd: z.string().optional(),
    }),
  )
  .optional();
export const limitsShape = z.strictObject({ ...rateFields, windows: windowShapes });

export function limitsObject(limits: CallerLimits): LimitsInFile {
  return limitsToFile(limits) ?? {};
}

/** A limit of a key that is looser than its group's would have no effect, and mislead: it is rejected. */
export function rejectLooserLimits(own: CallerLimits, group: { name: string; limits: CallerLimits }): void {
  const reject = (field: string, most: string) => {
    throw new ApiError(
      "invalid_value",
      `limits.${field}: the group ${group.name} allows each key at most ${most}. Choose a lower or equal limit, or remove it.`,
      { param: `limits.${field}` },
    );
  };
  for (const rate of RATE_KINDS) {
    const most = group.limits[rate];
    if (most !== null && (own[rate] ?? 0) > most) reject(rate, String(most));
  }
  for (const [i, window] of own.windows.entries()) {
    const same = group.limits.windows.find(({ perMs }) => perMs === window.perMs);
    if (same === undefined) continue;
    for (const unit of WINDOW_UNITS) {
      const most = same[unit];
      if (most !== null && (window[unit] ?? 0) > most)
        reject(`windows.${i}.${UNITS[unit].field}`, unit === "nano" ? amountText(unit, most) : String(most));
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
  for (const rate of RATE_KINDS) {
    const most = ceiling[rate];
    if (most !== null && (own[rate] ?? Infinity) > most) reject(rate, String(most));
  }
  for (const window of ceiling.windows) {
    const i = own.windows.findIndex(({ perMs }) => perMs === window.perMs);
    for (const unit of WINDOW_UNITS) {
      const most = window[unit];
      if (most === null || (own.windows[i]?.[unit] ?? Infinity) <= most) continue;
      const limitText = `${amountText(unit, most)} per ${durationText(window.perMs)}`;
      reject(i === -1 ? "windows" : `windows.${i}.${UNITS[unit].field}`, limitText);
    }
  }
}
