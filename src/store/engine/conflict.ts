/** The error for writes that contradict other records. */

import { isUniqueViolation, type Row } from "./db.ts";
import { text } from "./row.ts";

/** `referenced`: still used. `missing`: refers to nothing. `duplicate`: the name is taken. */
export type StoreConflictReason = "referenced" | "missing" | "duplicate";

/** The write contradicts other records. The message can be shown to the operator. */
export class StoreConflict extends Error {
  override readonly name = "StoreConflict";
  readonly reason: StoreConflictReason;
  constructor(reason: StoreConflictReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

export async function orDuplicate<T>(message: string, write: Promise<T>): Promise<T> {
  try {
    return await write;
  } catch (error) {
    throw isUniqueViolation(error) ? new StoreConflict("duplicate", message) : error;
  }
}

/** Rejects a deletion if rows still refer to the record. `phrase` begins the error: `The group "a" still has`. */
export function rejectReferenced(phrase: string, noun: string, rows: readonly Row[]): void {
  if (rows.length === 0) return;
  const names = rows.map((row) => text(row, "name"));
  throw new StoreConflict("referenced", `${phrase} ${enumerate(noun, names)}.`);
}

const NAMED_MAX = 3;

/** Formats as `group a, group b, group c and 2 more`. */
export function enumerate(noun: string, names: readonly string[]): string {
  const shown = names.slice(0, NAMED_MAX).map((name) => `${noun} "${name}"`);
  const remaining = names.length - shown.length;
  return remaining > 0 ? `${shown.join(", ")} and ${remaining} more` : shown.join(", ");
}
