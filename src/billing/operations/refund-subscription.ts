/** Refunds to subscriptions. */
import type { Nano } from "../../money/nano.ts";
import type { SubscriptionState } from "../../money/subscription.ts";
import type { Db } from "../../store/engine/db.ts";
import { subscriptionsCalled } from "../../store/money/subscription-standing.ts";
import { moveHeld } from "../engine/subscription-balances.ts";
import { MoneyRefusedError } from "./refusal.ts";

/**
 * Returns an amount to the subscription windows that it was counted in. The user can use it only while one of these
 * windows is open and the subscription runs; otherwise the refund would be worthless and is refused.
 */
export async function refundSubscription(
  tx: Db,
  refund: { subscriptionId: string; chargedAtMs: number; nowMs: number; amountNano: Nano },
): Promise<void> {
  const { subscriptionId, chargedAtMs, nowMs, amountNano } = refund;
  // The windows change first, because that locks them.
  await moveHeld(tx, [{ subscriptionId, atMs: chargedAtMs, heldNano: 0n, usedNano: -amountNano }]);
  const [subscription] = await subscriptionsCalled(tx, [subscriptionId], nowMs);
  const standing = subscription?.standing ?? "ended";
  if (standing !== "running") {
    throw buildRefusal("subscription_over", `the subscription that paid for it ${NOT_RUNNING[standing]}`);
  }
  if (subscription?.windows.some(({ startsAtMs }) => startsAtMs <= chargedAtMs)) return;
  throw buildRefusal("window_over", "the window of the subscription that it was counted in is over");
}

const NOT_RUNNING: Readonly<Record<Exclude<SubscriptionState, "running">, string>> = {
  // Possible if the clock was set back.
  upcoming: "has not begun",
  ended: "has ended",
  cancelled: "was cancelled",
};

function buildRefusal(code: "subscription_over" | "window_over", reason: string): MoneyRefusedError {
  return new MoneyRefusedError(
    code,
    `Nobody could use what went back, for ${reason}. To make it good, adjust the user's balance.`,
  );
}
