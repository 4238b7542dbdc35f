/** Settles a request of write-behind billing above its hold: by direct billing, from the whole wallet. */

import type { Log } from "../../observe/log.ts";
import type { Settlement } from "../engine/booking.ts";
import type { BillingLimits, DirectBilling } from "../engine/direct-billing.ts";
import { errorReason, withTimeout } from "../engine/store-faults.ts";
import type { ReservationStore } from "./reservation-store.ts";
import type { ReservedHold } from "./wallet-reservations.ts";

interface WriteBehindOverrunOptions {
  reservationStore: Pick<ReservationStore, "storeHolds">;
  directBilling: Pick<DirectBilling, "settle" | "unsavedSettlements">;
  log: Log;
  limits: Pick<BillingLimits, "settlementTimeoutMs" | "retryMs">;
  isStopped(): boolean;
}

/** Resolves when the settlement is booked, or saved on disk until the database is available. */
export function settleOverrun(
  options: WriteBehindOverrunOptions,
  held: ReservedHold,
  settlement: Settlement,
): Promise<void> {
  const { directBilling, limits } = options;
  const settled = moveToStore(options, held).then(() => directBilling.settle(settlement));
  return withTimeout(settled, limits.settlementTimeoutMs).catch(() =>
    directBilling.unsavedSettlements.save([settlement]),
  );
}

/** Stores the hold in the database, where direct billing can charge more than the held amount. */
async function moveToStore(
  { reservationStore, log, limits, isStopped }: WriteBehindOverrunOptions,
  held: ReservedHold,
): Promise<void> {
  while (held.isOpen && !isStopped()) {
    try {
      await reservationStore.storeHolds([held]);
    } catch (error) {
      log.error("wallet_reservation_failed", { reason: errorReason(error) });
      await Bun.sleep(limits.retryMs);
    }
  }
}
