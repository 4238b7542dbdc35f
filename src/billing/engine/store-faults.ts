/** Errors between the billing engine and its database. */

import { isRefused } from "../../store/engine/db.ts";
import { CorruptRow } from "../../store/engine/row.ts";
import { ReservationLost } from "../../store/money/wallet-reservations.ts";
import { BookingFault } from "./booking.ts";

/** The database is unreachable or too slow. */
export class BillingUnavailable extends Error {
  override readonly name = "TillUnavailable";
}

/** Existing holds are still settled, but no new hold is made. */
export const diskUnavailable = () => new BillingUnavailable("the disk takes nothing");

export async function inTime<T>(work: Promise<T>, ms: number): Promise<T> {
  const { promise, reject } = Promise.withResolvers<T>();
  const timer = setTimeout(() => reject(new BillingUnavailable("the store does not answer")), ms);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** A retry cannot succeed. */
export function isPermanent(error: unknown): boolean {
  return (
    isRefused(error) ||
    error instanceof BookingFault ||
    error instanceof CorruptRow ||
    error instanceof ReservationLost
  );
}

export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error("unknown");
}

export function errorReason(error: unknown): string {
  return error instanceof Error ? error.message : "unknown";
}
