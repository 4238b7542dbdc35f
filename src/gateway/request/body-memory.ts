/** The memory of one body whose length may not be known yet. Small and large bodies have separate budgets. */

import type { BodyBudget, BodyOwner, BodyReservation, ReservationResult } from "./body-budget.ts";

/** The maximum size of a small body. */
export const SMALL_BODY_BYTES_MAX = 1024 * 1024;

export interface BodyMemoryBudgets {
  readonly small: BodyBudget | undefined;
  readonly large: BodyBudget;
}

export function openBodyMemory(
  rooms: BodyMemoryBudgets,
  owner: BodyOwner,
  client: { readonly signal: AbortSignal },
): BodyReservation {
  return new BodyMemory(rooms.small?.open(owner, client) ?? null, rooms.large.open(owner, client));
}

/** Grows within the small budget first and moves to the large one above its limit. */
class BodyMemory implements BodyReservation {
  private readonly small: BodyReservation | null;
  private readonly large: BodyReservation;

  constructor(small: BodyReservation | null, large: BodyReservation) {
    this.small = small;
    this.large = large;
  }

  get room(): BodyBudget {
    return this.small !== null && this.large.bytes === 0 ? this.small.room : this.large.room;
  }

  get bytes(): number {
    return Math.max(this.large.bytes, this.small?.bytes ?? 0);
  }

  growTo(bytes: number): ReservationResult | Promise<ReservationResult> {
    if (bytes <= this.bytes) return "room";
    if (bytes <= SMALL_BODY_BYTES_MAX) return this.small?.growTo(bytes) ?? "room";
    const result = this.large.growTo(bytes);
    if (result instanceof Promise) return result.then((later) => this.moved(later));
    return this.moved(result);
  }

  growNow(bytes: number): boolean {
    if (bytes <= this.bytes) return true;
    if (bytes <= SMALL_BODY_BYTES_MAX) return this.small?.growNow(bytes) ?? true;
    const isGrown = this.large.growNow(bytes);
    if (isGrown) this.small?.release();
    return isGrown;
  }

  shrinkTo(bytes: number): void {
    if (bytes > SMALL_BODY_BYTES_MAX || this.large.bytes === 0) {
      this.large.shrinkTo(bytes);
      this.small?.shrinkTo(bytes);
    } else if (this.small === null || this.small.growNow(bytes)) this.large.release();
    else this.large.shrinkTo(bytes);
  }

  readonly release = (): void => {
    this.small?.release();
    this.large.release();
  };

  private moved(result: ReservationResult): ReservationResult {
    if (result === "room") this.small?.release();
    return result;
  }
}
