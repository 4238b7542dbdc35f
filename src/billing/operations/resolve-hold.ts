/** Ends a hold that could not be settled, by the decision of an operator. */

import type { Nano } from "../../money/nano.ts";
import { usdText } from "../../money/nano.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import type { EndedHold } from "../../store/money/holds.ts";
import { endSetAsideHold, releaseHeld } from "../../store/money/set-aside-holds.ts";
import { changeWindows } from "../engine/subscription-balances.ts";
import { adjust, type MoneyContext, type MoneyOrder, type MoneyResult } from "./operations.ts";
import { MoneyOperationRejected } from "./rejection.ts";

/** Returns the held money to its payer. Nothing is charged. */
export function releaseSetAside(db: Db, requestId: string): Promise<EndedHold> {
  return transaction(db, async (tx) => {
    const hold = await endSetAsideHold(tx, requestId);
    if (hold === null)
      throw new MoneyOperationRejected(
        "no_such_hold",
        `The request "${requestId}" has no hold that was set aside.`,
      );
    const { subscriptionId, userId, atMs, amountNano } = hold;
    if (subscriptionId === null) await releaseHeld(tx, userId, amountNano);
    else await changeWindows(tx, [{ subscriptionId, atMs, heldNano: -amountNano, usedNano: 0n }]);
    return hold;
  });
}

/** Releases the hold and deducts the amount from the balance, in one transaction. `all`: what was held. */
export function chargeSetAside(
  context: MoneyContext,
  { requestId, amountNano, ...order }: MoneyOrder & { requestId: string; amountNano: Nano | "all" },
): Promise<MoneyResult> {
  return transaction(context.db, async (tx) => {
    const hold = await releaseSetAside(tx, requestId);
    if (hold.subscriptionId !== null)
      throw new MoneyOperationRejected(
        "no_such_hold",
        "The hold belongs to a subscription. Release it; a charge of the balance is an adjustment.",
      );
    const chargedNano = amountNano === "all" ? hold.amountNano : amountNano;
    if (chargedNano > hold.amountNano)
      throw new MoneyOperationRejected(
        "bad_amount",
        `Only $${usdText(hold.amountNano)} is held for this request.`,
      );
    return adjust({ ...context, db: tx }, { ...order, userId: hold.userId, amountNano: -chargedNano });
  });
}
