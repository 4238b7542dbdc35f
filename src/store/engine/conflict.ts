import { isUniqueViolation } from "./db.ts";

/** `referenced`: something still needs it; `missing`: it names what does not exist; `duplicate`: the name is taken. */
export type StoreConflictReason = "referenced" | "missing" | "duplicate";

/** What was asked contradicts other records. The message is fit for the operator. */
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

const NAMED_MAX = 3;

/** `group a, group b, group c and 2 more` */
export function enumerate(noun: string, names: readonly string[]): string {
  const shown = names.slice(0, NAMED_MAX).map((name) => `${noun} "${name}"`);
  const left = names.length - shown.length;
  return left > 0 ? `${shown.join(", ")} and ${left} more` : shown.join(", ");
}
