/** How the express lane settles a request that costs more than its hold: by the plain till, from the whole wallet. */

import type { Log } from "../../observe/log.ts";
import type { Settlement } from "../engine/booking.ts";
import type { BillingLimits, DirectBilling } from "../engine/direct-billing.ts";
import { errorReason, inTime } from "../engine/store-faults.ts";
import type { ReservationStore } from "./reservation-store.ts";
import type { ReservedHold } from "./wallet-reservations.ts";

export interface LaneOverrunOptions {
  lending: Pick<ReservationStore, "move">;
  plain: Pick<DirectBilling, "settle" | "overdue">;
  log: Log;
  limits: Pick<BillingLimits, "settlePatienceMs" | "retryMs">;
  isStopped(): boolean;
}

/** Resolves when it is booked, or kept on the disk for a store that is away. */
export function settleOverrun(
  options: LaneOverrunOptions,
  held: ReservedHold,
  settlement: Settlement,
): Promise<void> {
  const { plain, limits } = options;
  const settled = moveToStore(options, held).then(() => plain.settle(settlement));
  return inTime(settled, limits.settlePatienceMs).catch(() => plain.overdue.keep([settlement]));
}

/** The hold becomes a row, which the plain till can charge more than was held for. */
async function moveToStore(
  { lending, log, limits, isStopped }: LaneOverrunOptions,
  held: ReservedHold,
): Promise<void> {
  while (held.isOpen && !isStopped()) {
    try {
      await lending.move([held]);
    } catch (error) {
      log.error("lease_failed", { reason: errorReason(error) });
      await Bun.sleep(limits.retryMs);
    }
  }
}
