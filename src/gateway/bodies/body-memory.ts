/** The memory of one body whose length may not be known yet. Small and large bodies have separate budgets. */

import { type MaybePromise, whenReady } from "../../base/maybe-promise.ts";
import type { BodyBudget, BodyOwner, BodyReservation, ReservationResult } from "./body-budget.ts";

export const SMALL_BODY_BYTES_MAX = 1024 * 1024;

interface BodyMemoryBudgets {
  readonly small: BodyBudget | undefined;
  readonly large: BodyBudget;
}

export function openBodyMemory(
  budgets: BodyMemoryBudgets,
  owner: BodyOwner,
  client: { readonly signal: AbortSignal },
): BodyReservation {
  return new BodyMemory(budgets.small?.open(owner, client) ?? null, budgets.large.open(owner, client));
}

/** Grows within the small budget first and moves to the large one above its limit. */
class BodyMemory implements BodyReservation {
  readonly #small: BodyReservation | null;
  readonly #large: BodyReservation;

  constructor(small: BodyReservation | null, large: BodyReservation) {
    this.#small = small;
    this.#large = large;
  }

  get budget(): BodyBudget {
    return this.#small !== null && this.#large.bytes === 0 ? this.#small.budget : this.#large.budget;
  }

  get bytes(): number {
    return Math.max(this.#large.bytes, this.#small?.bytes ?? 0);
  }

  growTo(bytes: number): MaybePromise<ReservationResult> {
    if (bytes <= this.bytes) return "room";
    if (bytes <= SMALL_BODY_BYTES_MAX) return this.#small?.growTo(bytes) ?? "room";
    return whenReady(this.#large.growTo(bytes), (result) => this.#moved(result));
  }

  growNow(bytes: number): boolean {
    if (bytes <= this.bytes) return true;
    if (bytes <= SMALL_BODY_BYTES_MAX) return this.#small?.growNow(bytes) ?? true;
    const isGrown = this.#large.growNow(bytes);
    if (isGrown) this.#small?.release();
    return isGrown;
  }

  shrinkTo(bytes: number): void {
    if (bytes > SMALL_BODY_BYTES_MAX || this.#large.bytes === 0) {
      this.#large.shrinkTo(bytes);
      this.#small?.shrinkTo(bytes);
    } else if (this.#small === null || this.#small.growNow(bytes)) this.#large.release();
    else this.#large.shrinkTo(bytes);
  }

  readonly release = (): void => {
    this.#small?.release();
    this.#large.release();
  };

  #moved(result: ReservationResult): ReservationResult {
    if (result === "room") this.#small?.release();
    return result;
  }
}
