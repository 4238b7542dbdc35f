import type { Nano } from "../../money/nano.ts";
import type { SubscriptionState } from "../../money/subscription.ts";
import type { Db } from "../../store/engine/db.ts";
import { subscriptionsCalled } from "../../store/money/subscription-standing.ts";
import { moveHeld } from "../engine/subscription-balances.ts";
import { MoneyRefusedError } from "./refusal.ts";

/**
 * What a subscription paid goes back to the windows that it was counted in. While one of them is open and the
 * subscription runs, the user can use it again; afterwards it would be a refund of nothing, so it is refused.
 */
export async function refundSubscription(
  tx: Db,
  back: { subscriptionId: string; chargedAtMs: number; nowMs: number; amountNano: Nano },
): Promise<void> {
  const { subscriptionId, chargedAtMs, nowMs, amountNano } = back;
  // The windows are moved first, for their lock.
  await moveHeld(tx, [{ subscriptionId, atMs: chargedAtMs, heldNano: 0n, usedNano: -amountNano }]);
  const [paid] = await subscriptionsCalled(tx, [subscriptionId], nowMs);
  const standing = paid?.standing ?? "ended";
  if (standing !== "running") {
    throw refused("subscription_over", `the subscription that paid for it ${NOT_RUNNING[standing]}`);
  }
  if (paid?.windows.some(({ startsAtMs }) => startsAtMs <= chargedAtMs)) return;
  throw refused("window_over", "the window of the subscription that it was counted in is over");
}

const NOT_RUNNING: Readonly<Record<Exclude<SubscriptionState, "running">, string>> = {
  // By a clock that was set back.
  upcoming: "has not begun",
  ended: "has ended",
  cancelled: "was cancelled",
};

function refused(code: "subscription_over" | "window_over", reason: string): MoneyRefusedError {
  return new MoneyRefusedError(
    code,
    `Nobody could use what went back, for ${reason}. To make it good, adjust the user's balance.`,
  );
}
