/** A top-up by a service account, within the bounds of the account. */

import { DAY_MS } from "../../base/time.ts";
import {
  type MoneyContext,
  type MoneyOrder,
  type MoneyResult,
  topUp,
} from "../../billing/operations/operations.ts";
import { ApiError, paramError } from "../../errors.ts";
import { type Nano, usdText } from "../../money/nano.ts";
import type { TopUpBounds } from "../../records/service-account.ts";
import { countTopUp, findServiceAccount, readTopUpDayStart } from "../../store/identity/service-accounts.ts";
import { requireLiveActor } from "../auth/actor.ts";
import { fieldError } from "../http/field-error.ts";
import type { ServiceActor } from "../http/route.ts";

interface TopUpOrder extends MoneyOrder {
  userId: string;
  amountNano: Nano;
  provider: string;
}

/**
 * Books and counts in one transaction, which `context.db` must be. Nodes count one after the other, so they cannot
 * exceed the bound of the day together. A repeated idempotency key books and counts nothing.
 */
export async function topUpWithinBounds(
  context: MoneyContext,
  service: ServiceActor,
  order: TopUpOrder,
): Promise<MoneyResult> {
  if (order.idempotencyKey === undefined) {
    throw paramError(
      "idempotency_key",
      "missing_required_parameter",
      "A service account must send the header Idempotency-Key, so that a retry books once.",
    );
  }
  const { db: tx, clock } = context;
  await requireLiveActor(tx, service);
  // Read again: the bounds may have changed since the request was accepted.
  const bounds = (await findServiceAccount(tx, service.account.id))?.bounds ?? null;
  if (bounds === null) {
    throw new ApiError("forbidden", `The service account "${service.account.name}" may no longer top up.`);
  }
  const result = await topUp(context, order);
  if (result.repeated) return result;
  const dayMs = await readTopUpDayStart(tx, clock.nowMs());
  const sumNano = await countTopUp(tx, service.account.id, dayMs, order.amountNano);
  rejectExcess(bounds, { amountNano: order.amountNano, sumNano, dayMs });
  return result;
}

/** Thrown errors roll the booking and the count back. */
function rejectExcess(
  bounds: TopUpBounds,
  { amountNano, sumNano, dayMs }: { amountNano: Nano; sumNano: Nano; dayMs: number },
): void {
  const usedNano = sumNano - amountNano;
  const leftNano = bounds.dayNano > usedNano ? bounds.dayNano - usedNano : 0n;
  const left = `Today (UTC) it may still top up $${usdText(leftNano)} of $${usdText(bounds.dayNano)}.`;
  if (amountNano > bounds.callNano) {
    throw fieldError(
      "amount",
      "bound_exceeded",
      `this service account may top up at most $${usdText(bounds.callNano)} in one call. ${left}`,
    );
  }
  if (sumNano > bounds.dayNano) {
    throw new ApiError("bound_exceeded", `amount: the bound of the day is exceeded. ${left}`, {
      param: "amount",
      resetsAtMs: dayMs + DAY_MS,
    });
  }
}
