/**
 * Database operations of wallet reservations: reserving money, turning reserved holds into stored ones, and releasing
 * the rest.
 */

import type { Nano } from "../../money/nano.ts";
import type { Tariff } from "../../money/tariff.ts";
import type { Db } from "../../store/engine/db.ts";
import { type Hold, insertHolds, UNSENT } from "../../store/money/holds.ts";
import { findRecalledUsers } from "../../store/money/reservation-recalls.ts";
import { insertTariffs } from "../../store/money/tariffs.ts";
import {
  changeWallets,
  deleteEmptyReservations,
  lockPayers,
  type WalletChange,
} from "../../store/money/wallet-reservations.ts";
import { lockWallets } from "../../store/money/wallets.ts";
import { pickFacts, type Settlement } from "../engine/billing-types.ts";

export function sumByUser(amounts: readonly (readonly [userId: string, nano: Nano])[]): Map<string, Nano> {
  const sums = new Map<string, Nano>();
  for (const [userId, nano] of amounts) sums.set(userId, (sums.get(userId) ?? 0n) + nano);
  return sums;
}

/** Stores holds that existed only in memory and in the journal. The stored holds take over their reserved money. */
export async function storeReservedHolds(tx: Db, processId: string, holds: readonly Hold[]): Promise<void> {
  await insertHolds(tx, holds);
  const sums = sumByUser(holds.map(({ userId, amountNano }) => [userId, -amountNano]));
  await changeWallets(
    tx,
    processId,
    [...sums].map(([userId, reservedNano]) => ({ userId, balanceNano: 0n, heldNano: 0n, reservedNano })),
  );
}

/** The hold of a finished request has the amount of its charge: the rest of the original hold is already free again. */
export function buildSettledHold({ row, chargedNano }: Settlement, processId: string): Hold {
  return {
    ...UNSENT,
    ...pickFacts(row),
    processId,
    atMs: row.atMs,
    userId: row.userId ?? "",
    subscriptionId: null,
    amountNano: chargedNano,
    tariffId: row.tariffId ?? "",
    inputTokens: row.inputTokens,
  };
}

/** Returns the free part of these reservations to the wallets and deletes empty reservations. */
export async function releaseReservations(
  tx: Db,
  processId: string,
  reservations: readonly { userId: string; freeNano: Nano }[],
): Promise<void> {
  await lockPayers(
    tx,
    reservations.map(({ userId }) => userId),
  );
  const changes: WalletChange[] = reservations.map(({ userId, freeNano }) => ({
    userId,
    balanceNano: 0n,
    heldNano: -freeNano,
    reservedNano: -freeNano,
  }));
  await changeWallets(tx, processId, changes);
  await deleteEmptyReservations(
    tx,
    processId,
    reservations.map(({ userId }) => userId),
  );
}

export interface ReservationRequest {
  userId: string;
  /** The minimum; a smaller amount is not reserved. */
  leastNano: Nano;
  wantedNano: Nano;
}

/**
 * At most one part in this number of the available balance is reserved at once: other processes and direct billing
 * also need some.
 */
const AVAILABLE_DIVISOR = 4n;

/** The reserved amount per user. Users whose wallet has too little are omitted. */
export async function reserveFunds(
  tx: Db,
  processId: string,
  reservationRequests: readonly ReservationRequest[],
  tariffs: readonly Tariff[],
): Promise<Map<string, Nano>> {
  const wallets = await lockWallets(
    tx,
    reservationRequests.map(({ userId }) => userId),
  );
  const recalled = await findRecalledUsers(tx, [...wallets.keys()]);
  const reserved = new Map<string, Nano>();
  for (const { userId, leastNano, wantedNano } of reservationRequests) {
    const wallet = wallets.get(userId);
    if (wallet === undefined || recalled.has(userId)) continue;
    const mostNano = (wallet.balanceNano - wallet.heldNano) / AVAILABLE_DIVISOR;
    const amountNano = wantedNano < mostNano ? wantedNano : mostNano;
    if (amountNano > 0n && amountNano >= leastNano) reserved.set(userId, amountNano);
  }
  if (tariffs.length > 0) await insertTariffs(tx, tariffs);
  await changeWallets(
    tx,
    processId,
    [...reserved].map(([userId, nano]) => ({ userId, balanceNano: 0n, heldNano: nano, reservedNano: nano })),
  );
  return reserved;
}
