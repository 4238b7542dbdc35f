/** Refunds to subscriptions. */
import type { Nano } from "../../money/nano.ts";
import type { SubscriptionState } from "../../money/subscription.ts";
import type { Db } from "../../store/engine/db.ts";
import { readSubscriptionStatuses } from "../../store/money/subscription-status.ts";
import { changeWindows } from "../engine/subscription-balances.ts";
import { MoneyOperationRejected } from "./rejection.ts";

/**
 * Returns an amount to the subscription windows that it was counted in. The user can use it only while one of these
 * windows is open and the subscription runs; otherwise the refund would be worthless and is rejected.
 */
export async function refundSubscription(
  tx: Db,
  refund: { subscriptionId: string; chargedAtMs: number; nowMs: number; amountNano: Nano },
): Promise<void> {
  const { subscriptionId, chargedAtMs, nowMs, amountNano } = refund;
  // The windows change first, because that locks them.
  await changeWindows(tx, [{ subscriptionId, atMs: chargedAtMs, heldNano: 0n, usedNano: -amountNano }]);
  const [subscription] = await readSubscriptionStatuses(tx, [subscriptionId], nowMs);
  const state = subscription?.state ?? "ended";
  if (state !== "running") {
    throw buildRejection("subscription_over", `the subscription that was charged ${NOT_RUNNING[state]}`);
  }
  if (subscription?.windows.some(({ startsAtMs }) => startsAtMs <= chargedAtMs)) return;
  throw buildRejection("window_over", "the window of the subscription that was charged is over");
}

const NOT_RUNNING: Readonly<Record<Exclude<SubscriptionState, "running">, string>> = {
  // Possible if the clock was set back.
  upcoming: "has not started",
  ended: "has ended",
  cancelled: "was cancelled",
};

function buildRejection(code: "subscription_over" | "window_over", reason: string): MoneyOperationRejected {
  return new MoneyOperationRejected(
    code,
    `The charge cannot be refunded, because ${reason}. Adjust the user's balance instead.`,
  );
}
