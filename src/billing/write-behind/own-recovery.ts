/**
 * Recovers the wallet reservations of this process after another one took it for dead and returned their money. What
 * this process still knows is better than any estimate: finished requests are charged, and requests in flight get a
 * stored hold from what the wallet has now.
 */

import { type Hold, type HoldProgress, UNSENT } from "../../store/money/holds.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { Settlement } from "../engine/billing-types.ts";
import type { DirectBilling } from "../engine/direct-billing.ts";
import type { EngineServices } from "../engine/engine-services.ts";
import { buildHold } from "../engine/hold-decisions.ts";
import { recoverReservations } from "./recover-reservations.ts";
import type { RowBatch } from "./row-batch.ts";
import { listHoldsOn, type ReservationState, type ReservedHold, removeBatch } from "./wallet-reservations.ts";

interface OwnRecoveryOptions extends EngineServices {
  reservationState: ReservationState;
  directBilling: Pick<DirectBilling, "settle">;
  /** Called when the database has these holds, before anything else happens to them. */
  onHoldsStored(holds: readonly ReservedHold[]): void;
  /** Passes a hold that is stored now, with this progress, to direct billing. */
  passToDirectBilling(held: ReservedHold, storedProgress: HoldProgress): void;
}

/** If it throws, nothing has changed in memory, and it may be repeated. */
export async function recoverOwnReservations(options: OwnRecoveryOptions): Promise<void> {
  const { db, log, processId, reservationState } = options;
  const lost = [...reservationState.reservations.values()];
  for (const reservation of lost) reservation.isClosing = true;
  const holds = listHoldsOn(reservationState, lost);
  const batches = [...reservationState.waitingBatches].filter(({ isPaid }) => isPaid);
  for (const batch of batches) batch.isClosed = true;
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const held of holds) held.storing = promise;
  let ended: Settlement[];
  try {
    log.error("wallet_reservations_lost", { users: lost.length, holds: holds.length });
    const storedProgress = holds.map(({ progress }) => progress);
    const content = {
      open: holds.map((held) => buildOpenHold(held, processId)),
      settlements: batches.flatMap((batch) => batch.rows().map(toSettlement)),
      rows: [],
    };
    ended = await recoverReservations(db, content, { deadId: processId, selfId: processId });
    if (holds.length > 0) options.onHoldsStored(holds);
    holds.forEach((held, index) => {
      options.passToDirectBilling(held, storedProgress[index] ?? UNSENT);
    });
    for (const { userId } of lost) reservationState.reservations.delete(userId);
  } finally {
    for (const reservation of lost) reservation.isClosing = false;
    for (const held of holds) held.storing = null;
    resolve();
  }
  const unbooked = new Map(ended.map((settlement) => [settlement.row.requestId, settlement]));
  await Promise.all(batches.map((batch) => settleDirectly(options, batch, unbooked)));
}

const toSettlement = (row: UsageRow): Settlement => ({ row, chargedNano: row.chargedNano });

/** The batch stays in memory, and so in the journal, until its rows are in the database or saved on disk. */
async function settleDirectly(
  { directBilling, reservationState }: OwnRecoveryOptions,
  batch: RowBatch,
  unbooked: ReadonlyMap<string, Settlement>,
): Promise<void> {
  const settled = batch.ids().flatMap((id) => {
    const settlement = unbooked.get(id);
    return settlement === undefined ? [] : [directBilling.settle(settlement)];
  });
  await Promise.allSettled(settled);
  removeBatch(reservationState, batch);
}

function buildOpenHold({ request, atMs, progress }: ReservedHold, processId: string): Hold {
  const amount = { amountNano: request.wantedNano, subscriptionId: null };
  return { ...buildHold(request, amount, processId, atMs), ...progress };
}
