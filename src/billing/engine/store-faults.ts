/** What can go wrong between the till and its store. */

import { isRefused } from "../../store/engine/db.ts";
import { CorruptRow } from "../../store/engine/row.ts";
import { ReservationLost } from "../../store/money/wallet-reservations.ts";
import { BookingFault } from "./booking.ts";

/** The store cannot be reached, or takes too long. */
export class BillingUnavailable extends Error {
  override readonly name = "TillUnavailable";
}

/** What was promised before is finished, but nothing new is promised. */
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

/** Trying again will not help. */
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
