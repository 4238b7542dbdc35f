/** What is counted of one request, in whole and finite numbers, so that sums stay exact after any number of changes. */

import { mapKinds } from "../base/map-kinds.ts";
import { ALL_UNITS, type Unit } from "../records/limits.ts";
import type { Amounts, EstimatedUse } from "./limiter-types.ts";

export const NO_AMOUNTS: Amounts = mapKinds(ALL_UNITS, () => 0);
/** One of each unit: only a window that is exhausted rejects it. */
export const LEAST_USE: Amounts = mapKinds(ALL_UNITS, () => 1);
const ESTIMATED_UNITS = ALL_UNITS.filter((unit) => unit !== "requests");

/** Reused by every call, because each admission needs one: its caller must not keep it. */
const amounts: Record<Unit, number> = { ...NO_AMOUNTS };

/** `requests` is 0 for a request that is already counted. */
export function toAmounts(requests: 0 | 1, estimate: EstimatedUse): Amounts {
  amounts.requests = requests;
  for (const unit of ESTIMATED_UNITS) amounts[unit] = clampAmount(unit, estimate[unit] ?? 0);
  return amounts;
}

export function clampAmount(unit: Unit, amount: number): number {
  return amount > 0 ? Math.min(Math.ceil(amount), unit === "nano" ? NANO_MAX : COUNT_MAX) : 0;
}

const COUNT_MAX = 2 ** 40;
/** About a million dollars: more than any request costs, and within the range where numbers are exact. */
const NANO_MAX = 2 ** 50;
