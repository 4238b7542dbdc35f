/** What the express lane does with leases: money that is set aside, holds that become rows, and what goes back. */

import type { Nano } from "../../money/nano.ts";
import type { Tariff } from "../../money/tariff.ts";
import type { Db } from "../../store/engine/db.ts";
import { type Hold, insertHolds, UNSENT } from "../../store/money/holds.ts";
import { keepTariffs } from "../../store/money/tariffs.ts";
import {
  changeWallets,
  deleteEmptyReservations,
  type WalletChange,
} from "../../store/money/wallet-reservations.ts";
import { lockWallets } from "../../store/money/wallets.ts";
import type { Settlement } from "../engine/booking.ts";

export function sumByUser(amounts: readonly (readonly [userId: string, nano: Nano])[]): Map<string, Nano> {
  const sums = new Map<string, Nano>();
  for (const [userId, nano] of amounts) sums.set(userId, (sums.get(userId) ?? 0n) + nano);
  return sums;
}

/** Holds that lived in memory and journal become rows, which take over the money that was set aside for them. */
export async function moveToRows(tx: Db, incarnation: string, holds: readonly Hold[]): Promise<void> {
  await insertHolds(tx, holds);
  const sums = sumByUser(holds.map(({ userId, amountNano }) => [userId, -amountNano]));
  await changeWallets(
    tx,
    incarnation,
    [...sums].map(([userId, leasedNano]) => ({ userId, balanceNano: 0n, heldNano: 0n, leasedNano })),
  );
}

/** A request that has ended holds what it is charged: the rest of its hold was given to others by then. */
export function holdFor({ row, chargedNano }: Settlement, incarnation: string): Hold {
  return {
    ...UNSENT,
    requestId: row.requestId,
    incarnation,
    atMs: row.atMs,
    userId: row.userId ?? "",
    subscriptionId: null,
    amountNano: chargedNano,
    tariffId: row.tariffId ?? "",
    keyId: row.keyId,
    groupId: row.groupId,
    interface: row.interface,
    endpoint: row.endpoint,
    publicModel: row.publicModel,
    stream: row.stream,
    inputTokens: row.inputTokens,
  };
}

/** The free part of these leases goes back to the wallets; leases with nothing left are removed. */
export async function releaseReservations(
  tx: Db,
  incarnation: string,
  leases: readonly { userId: string; freeNano: Nano }[],
): Promise<void> {
  const changes: WalletChange[] = leases.map(({ userId, freeNano }) => ({
    userId,
    balanceNano: 0n,
    heldNano: -freeNano,
    leasedNano: -freeNano,
  }));
  await changeWallets(tx, incarnation, changes);
  await deleteEmptyReservations(
    tx,
    incarnation,
    leases.map(({ userId }) => userId),
  );
}

export interface ReservationRequest {
  userId: string;
  /** A smaller amount would be of no use. */
  leastNano: Nano;
  wantedNano: Nano;
}

/** Of what a wallet has free, no more than one part in so many is set aside at once: others want to pay from it, too. */
const PART = 4n;

/** What each user gets; nothing, where the wallet has too little to set some of it aside. */
export async function reserveFunds(
  tx: Db,
  incarnation: string,
  wishes: readonly ReservationRequest[],
  tariffs: readonly Tariff[],
): Promise<Map<string, Nano>> {
  const wallets = await lockWallets(
    tx,
    wishes.map(({ userId }) => userId),
  );
  const lent = new Map<string, Nano>();
  for (const { userId, leastNano, wantedNano } of wishes) {
    const wallet = wallets.get(userId);
    if (wallet === undefined) continue;
    const mostNano = (wallet.balanceNano - wallet.heldNano) / PART;
    const amountNano = wantedNano < mostNano ? wantedNano : mostNano;
    if (amountNano > 0n && amountNano >= leastNano) lent.set(userId, amountNano);
  }
  if (tariffs.length > 0) await keepTariffs(tx, tariffs);
  await changeWallets(
    tx,
    incarnation,
    [...lent].map(([userId, nano]) => ({ userId, balanceNano: 0n, heldNano: nano, leasedNano: nano })),
  );
  return lent;
}
