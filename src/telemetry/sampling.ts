/** Decides which traces are exported. */

/** How many hexadecimal digits of a trace id decide: as many as a number can hold exactly. */
const DIGITS = 13;
const VALUES = 16 ** DIGITS;

/**
 * Decides by the random end of the trace id, so that all services with the same ratio keep the same traces and a higher
 * ratio keeps all traces of a lower one.
 */
export function isInRatio(traceId: string, ratio: number): boolean {
  if (ratio >= 1) return true;
  if (ratio <= 0) return false;
  return Number.parseInt(traceId.slice(-DIGITS), 16) >= (1 - ratio) * VALUES;
}
