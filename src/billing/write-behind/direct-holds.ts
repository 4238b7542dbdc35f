/**
 * Holds of write-behind billing that direct billing decides: of users with a low balance, of lasting requests, and those
 * that replace another hold. A hold on a reservation becomes a stored one first.
 */

import type { HoldRequest, HoldResult } from "../engine/billing-types.ts";
import type { BillingLimits, DirectBilling } from "../engine/direct-billing.ts";
import { BillingUnavailable, withBillingErrors, withTimeout } from "../engine/store-faults.ts";
import type { ReservationRecall } from "./reservation-recall.ts";
import type { ReservationStore } from "./reservation-store.ts";
import { UserCounts } from "./user-counts.ts";
import { findReservedHold, type ReservationState } from "./wallet-reservations.ts";

interface DirectHoldsOptions {
  reservationState: ReservationState;
  reservationStore: Pick<ReservationStore, "closeUnlocked" | "storeHolds">;
  recall: Pick<ReservationRecall, "hold" | "replaceHold">;
  directBilling: Pick<DirectBilling, "releaseHold">;
  limits: Pick<BillingLimits, "holdTimeoutMs">;
  /** Whether the user has a reservation, or gets one. */
  isReserved(userId: string): boolean;
  /** Records in the journal that the database has these holds. Returns false if it cannot be written. */
  recordStored(requestIds: readonly string[]): boolean;
}

export class DirectHolds {
  readonly #options: DirectHoldsOptions;
  /** Users with a direct hold in progress. */
  readonly #users = new UserCounts();

  constructor(options: DirectHoldsOptions) {
    this.#options = options;
  }

  /** Whether a hold of this user is being decided: then no reservation is made. */
  has(userId: string): boolean {
    return this.#users.has(userId);
  }

  hold(request: HoldRequest): Promise<HoldResult> {
    return this.#decide(request, () => this.#options.recall.hold(request));
  }

  replaceHold(request: HoldRequest): Promise<HoldResult> {
    return this.#decide(request, () => this.#options.recall.replaceHold(request));
  }

  async releaseHold(requestId: string): Promise<void> {
    const { reservationState, reservationStore, directBilling, limits, recordStored } = this.#options;
    const held = findReservedHold(reservationState, requestId);
    if (held !== null)
      await withTimeout(withBillingErrors(reservationStore.storeHolds([held])), limits.holdTimeoutMs);
    // Without this line, recovery would create the hold again: it ends without a usage row.
    if (!recordStored([requestId])) throw new BillingUnavailable("the journal cannot be written");
    await withBillingErrors(directBilling.releaseHold(requestId));
  }

  /** Direct billing sees the whole wallet while nothing is reserved, and has the holds of the user. */
  async #decide({ userId }: HoldRequest, decide: () => Promise<HoldResult>): Promise<HoldResult> {
    const { reservationStore, limits, isReserved } = this.#options;
    this.#users.add(userId);
    try {
      if (isReserved(userId))
        await withTimeout(withBillingErrors(reservationStore.closeUnlocked(userId)), limits.holdTimeoutMs);
      return await withBillingErrors(decide());
    } finally {
      this.#users.remove(userId);
    }
  }
}
