/** Limits as text for people: `60 requests`, `$5`, `per 7 days`. */

import { MINUTE_MS } from "../base/time.ts";
import { UNITS, type Unit } from "../records/limits.ts";
import { usdText } from "./nano.ts";

export function amountText(unit: Unit, amount: number): string {
  return unit === "nano" ? `$${usdText(BigInt(Math.round(amount)))}` : `${amount} ${UNITS[unit].name}`;
}

/** The span of a limit, after "per". */
export function spanText(ms: number): string {
  if (ms === MINUTE_MS) return "minute";
  const hours = ms / 3_600_000;
  return hours % 24 === 0 ? (hours === 24 ? "day" : `${hours / 24} days`) : `${hours} hours`;
}
