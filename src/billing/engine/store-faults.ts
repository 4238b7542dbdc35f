/** Errors between the billing engine and its database. */

import { isRejected } from "../../store/engine/db.ts";
import { CorruptRow } from "../../store/engine/row.ts";
import { BookingFault } from "./hold-decisions.ts";

/** The database is unreachable or too slow. */
export class BillingUnavailable extends Error {
  override readonly name = "BillingUnavailable";
}

/** Existing holds are still settled, but no new hold is made. */
export const buildDiskUnavailable = () => new BillingUnavailable("the disk rejects writes");

export async function withTimeout<T>(work: Promise<T>, ms: number): Promise<T> {
  const { promise, reject } = Promise.withResolvers<T>();
  const timer = setTimeout(() => reject(new BillingUnavailable("the database does not respond")), ms);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** A retry cannot succeed. */
export function isPermanent(error: unknown): boolean {
  return isRejected(error) || error instanceof BookingFault || error instanceof CorruptRow;
}

export function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error("unknown");
}

export function errorReason(error: unknown): string {
  return error instanceof Error ? error.message : "unknown";
}

/** Turns errors that a retry can overcome into `BillingUnavailable`. */
export async function withBillingErrors<T>(done: Promise<T>): Promise<T> {
  try {
    return await done;
  } catch (error) {
    throw isPermanent(error) ? toError(error) : new BillingUnavailable(errorReason(error));
  }
}
