/**
 * The limits that make a value storable. Callers choose model names, and upstreams choose ids and counts; one invalid
 * value would make the database reject a whole batch.
 */

import type { Nano } from "../../money/nano.ts";

/** PostgreSQL rejects index entries above some 2,700 bytes. */
const TEXT_CHARS_MAX = 512;
const TRACE_BYTES_MAX = 16 * 1024;
/** Far above any real count, and a thousand hours of such counts still sum to less than 2^53. */
const COUNT_MAX = 1e12;
/**
 * $100,000: far above the cost of any request at a sensible price, and 90,000 such costs still sum to a storable
 * value. Charges need no such bound, because the payer had the money.
 */
const COST_NANO_MAX: Nano = 100_000n * 1_000_000_000n;

export function clip(value: string): string {
  const short = value.length > TEXT_CHARS_MAX ? value.slice(0, TEXT_CHARS_MAX) : value;
  if (short.isWellFormed() && !short.includes("\0")) return short;
  return short.toWellFormed().replaceAll("\0", "\uFFFD");
}

/** An id is stored whole or not at all: two ids with the same beginning must not become equal. */
export function storableId(id: string | null): string | null {
  return id === null || id.length > TEXT_CHARS_MAX || clip(id) !== id ? null : id;
}

/** A truncated JSON text is invalid, so a trace that is too long is omitted. */
export function storableTrace(trace: string | null): string | null {
  if (trace === null || Buffer.byteLength(trace) > TRACE_BYTES_MAX) return null;
  return trace.isWellFormed() && !trace.includes("\0") ? trace : null;
}

export function storableCount(value: number): number {
  return value > 0 ? Math.round(Math.min(value, COUNT_MAX)) : 0;
}

/** Never less than the charged amount. */
export function storableCost(nano: Nano, chargedNano: Nano = 0n): Nano {
  if (nano <= COST_NANO_MAX) return nano;
  return chargedNano > COST_NANO_MAX ? chargedNano : COST_NANO_MAX;
}

/** A number if it is exact: writing a bigint as text takes several times as long. */
export function nanoValue(nano: Nano): number | string {
  const number = Number(nano);
  return Number.isSafeInteger(number) ? number : nano.toString();
}
