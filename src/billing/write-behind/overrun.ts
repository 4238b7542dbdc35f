/** How the express lane settles a request that costs more than its hold: by the plain till, from the whole wallet. */

import type { Log } from "../../observe/log.ts";
import type { Settlement } from "../engine/booking.ts";
import type { PlainTill, TillLimits } from "../engine/direct-billing.ts";
import { inTime, reasonOf } from "../engine/store-faults.ts";
import type { Lending } from "./reservation-store.ts";
import type { ExpressHold } from "./wallet-reservations.ts";

export interface LaneOverrunOptions {
  lending: Pick<Lending, "move">;
  plain: Pick<PlainTill, "settle" | "overdue">;
  log: Log;
  limits: Pick<TillLimits, "settlePatienceMs" | "retryMs">;
  isStopped(): boolean;
}

/** Resolves when it is booked, or kept on the disk for a store that is away. */
export function settleOverrun(
  options: LaneOverrunOptions,
  held: ExpressHold,
  settlement: Settlement,
): Promise<void> {
  const { plain, limits } = options;
  const settled = moveToStore(options, held).then(() => plain.settle(settlement));
  return inTime(settled, limits.settlePatienceMs).catch(() => plain.overdue.keep([settlement]));
}

/** The hold becomes a row, which the plain till can charge more than was held for. */
async function moveToStore(
  { lending, log, limits, isStopped }: LaneOverrunOptions,
  held: ExpressHold,
): Promise<void> {
  while (held.isOpen && !isStopped()) {
    try {
      await lending.move([held]);
    } catch (error) {
      log.error("lease_failed", { reason: reasonOf(error) });
      await Bun.sleep(limits.retryMs);
    }
  }
}
