import type { Nano } from "../money/nano.ts";
import type { Db } from "../store/db.ts";
import { subscriptionsOf } from "../store/subscription-standing.ts";
import { moveHeld } from "./purses.ts";
import { MoneyRefused } from "./refused.ts";

/**
 * What a subscription paid goes back to the windows that it was counted in. While one of them is open the user can
 * use it again; afterwards it would be a refund of nothing, so it is refused.
 */
export async function giveBack(
  tx: Db,
  back: { userId: string; subscriptionId: string; chargedAtMs: number; nowMs: number; amountNano: Nano },
): Promise<void> {
  const { userId, subscriptionId, chargedAtMs, nowMs, amountNano } = back;
  // The windows are moved first, for their lock.
  await moveHeld(tx, [{ subscriptionId, atMs: chargedAtMs, heldNano: 0n, usedNano: -amountNano }]);
  const paid = (await subscriptionsOf(tx, userId, nowMs)).find(({ id }) => id === subscriptionId);
  if (paid?.windows.some(({ startsAtMs }) => startsAtMs <= chargedAtMs)) return;
  throw new MoneyRefused(
    "window_over",
    "A subscription paid for it, and the window it was counted in is over. To make it good, adjust the user's balance.",
  );
}
