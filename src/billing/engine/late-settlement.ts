/**
 * Settlements whose hold is gone: another process took this one for dead and settled its requests by what it had seen
 * of them, or a store was restored. What the request really used replaces such a guess, exactly once.
 */

import type { Nano } from "../../money/nano.ts";
import type { Db } from "../../store/engine/db.ts";
import { lockCharge, refundedNano } from "../../store/money/entries.ts";
import { REVENUE, subscriptionBook, type Transfer, userBook } from "../../store/money/ledger.ts";
import { type LockedWallet, remainingDebt, type Wallet } from "../../store/money/wallets.ts";
import type { UsageRow } from "../../store/usage/usage.ts";
import { lockRecovered } from "../../store/usage/usage-replacement.ts";
import type { Settlement } from "./money-terms.ts";
import { lockSubscriptionBalances, type SubscriptionBalance } from "./subscription-balances.ts";

/** A row that a successor wrote, and its charge as it stands; null if nothing was charged. */
export interface RecoveredCharge {
  row: UsageRow;
  charge: Transfer | null;
}

/** What a batch reads for its settlements without a hold. */
export interface LateFacts {
  recovered: ReadonlyMap<string, RecoveredCharge>;
  purses: ReadonlyMap<string, SubscriptionBalance[]>;
}

const NO_LATE_FACTS: LateFacts = { recovered: new Map(), purses: new Map() };

export const isRecovered = ({ flags }: Pick<UsageRow, "flags">): boolean => flags.includes("recovered");

/** `careful`: rows may be there already. Nothing is read where every settlement has its hold, as nearly always. */
export async function readLateFacts(
  tx: Db,
  settlements: readonly Settlement[],
  { hasHold, careful, nowMs }: { hasHold(requestId: string): boolean; careful: boolean; nowMs: number },
): Promise<LateFacts> {
  let late: Settlement[] | null = null;
  for (const one of settlements) {
    const { row } = one;
    if (hasHold(row.requestId) || row.payer === null || isRecovered(row)) continue;
    late ??= [];
    late.push(one);
  }
  if (late === null) return NO_LATE_FACTS;
  const subscribers = new Set<string>();
  for (const { row } of late) {
    if (row.payer === "subscription" && row.userId !== null) subscribers.add(row.userId);
  }
  return {
    recovered: careful ? await readRecovered(tx, late) : NO_LATE_FACTS.recovered,
    purses:
      subscribers.size === 0
        ? NO_LATE_FACTS.purses
        : await lockSubscriptionBalances(tx, [...subscribers], nowMs),
  };
}

/** One that an operator has refunded stays as it is: that was a decision about this very charge. */
async function readRecovered(tx: Db, late: readonly Settlement[]): Promise<Map<string, RecoveredCharge>> {
  const found = new Map<string, RecoveredCharge>();
  const rows = await lockRecovered(
    tx,
    late.map(({ row }) => row.requestId),
  );
  for (const row of rows) {
    const charge = await lockCharge(tx, row.requestId);
    if ((await refundedNano(tx, row.requestId)) === 0n) found.set(row.requestId, { row, charge });
  }
  return found;
}

/** What a payer without a hold is charged, and the part of the cost that it cannot pay. */
export interface AvailableCharge {
  chargedNano: Nano;
  missingNano: Nano;
}

/** Charges what is available, never more. A negative amount is given back in full. */
export function chargeAvailable(wantedNano: Nano, availableNano: Nano): AvailableCharge {
  const mostNano = availableNano > 0n ? availableNano : 0n;
  const chargedNano = wantedNano < mostNano ? wantedNano : mostNano;
  return { chargedNano, missingNano: wantedNano - chargedNano };
}

/** The part of a batch that late settlements read and change. */
export interface LateDesk {
  readonly late: LateFacts;
  readonly wallets: Map<string, LockedWallet>;
  readonly changed: Set<string>;
  readonly rows: Map<string, UsageRow>;
  readonly replaced: Map<string, { before: UsageRow; row: UsageRow }>;
  readonly entries: Transfer[];
  readonly moves: { subscriptionId: string; atMs: number; heldNano: Nano; usedNano: Nano }[];
}

/** Charges the payer what it has now, and makes good what a successor charged before. */
export function settleLate(desk: LateDesk, settlement: Settlement): "late" | "unpaid" {
  const { requestId, userId } = settlement.row;
  const wallet = desk.wallets.get(userId ?? "");
  const booking = bookLate(settlement, desk.late, wallet);
  if (booking === null) {
    desk.rows.set(requestId, { ...settlement.row, chargedNano: 0n, payer: null });
    return "unpaid";
  }
  const { row, replaces, entry, balanceNano, window } = booking;
  if (replaces === null) desk.rows.set(requestId, row);
  else desk.replaced.set(requestId, { before: replaces, row });
  if (entry !== null) desk.entries.push(entry);
  if (window !== null) desk.moves.push({ ...window, heldNano: 0n });
  if (balanceNano !== 0n && wallet !== undefined && userId !== null) {
    const changed = { ...wallet, balanceNano: wallet.balanceNano + balanceNano };
    desk.wallets.set(userId, { ...changed, debtNano: remainingDebt(changed) });
    desk.changed.add(userId);
  }
  return "late";
}

/** How a late settlement is booked. */
interface LateBooking {
  row: UsageRow;
  /** The row that this one replaces. */
  replaces: UsageRow | null;
  entry: Transfer | null;
  /** Added to the user's balance. */
  balanceNano: Nano;
  /** Added to what the windows of this subscription have used. */
  window: { subscriptionId: string; atMs: number; usedNano: Nano } | null;
}

/** Null where no payer can be found: no wallet, and no running subscription. */
function bookLate(settlement: Settlement, facts: LateFacts, wallet: Wallet | undefined): LateBooking | null {
  const before = facts.recovered.get(settlement.row.requestId) ?? null;
  const payer = findPayer(settlement, before, facts, wallet);
  if (payer === null) return null;
  const { subscriptionId, userId, atMs, availableNano } = payer;
  const beforeNano = before?.charge?.amountNano ?? 0n;
  const wantedNano = settlement.chargedNano < 0n ? 0n : settlement.chargedNano;
  const { chargedNano: addedNano } = chargeAvailable(wantedNano - beforeNano, availableNano);
  const chargedNano = beforeNano + addedNano;
  const row = chargedRow(settlement.row, chargedNano, before?.row.atMs ?? settlement.row.atMs);
  const book = subscriptionId === null ? userBook(userId) : subscriptionBook(subscriptionId);
  const isMore = addedNano > 0n;
  const isFirst = before === null || before.charge === null;
  const entry: Transfer = {
    id: `${isFirst ? "charge" : "correction"}:${row.requestId}`,
    atMs: subscriptionId === null && isFirst ? Math.round(row.atMs) : atMs,
    kind: isFirst ? "charge" : "correction",
    debit: isMore ? book : REVENUE,
    credit: isMore ? REVENUE : book,
    amountNano: isMore ? addedNano : -addedNano,
    userId,
    subscriptionId,
    requestId: row.requestId,
    actor: "system",
    reason: isFirst ? null : "settled late",
  };
  return {
    row: { ...row, payer: subscriptionId === null ? "balance" : "subscription" },
    replaces: before?.row ?? null,
    entry: addedNano === 0n ? null : entry,
    balanceNano: subscriptionId === null ? -addedNano : 0n,
    window: subscriptionId === null ? null : { subscriptionId, atMs, usedNano: addedNano },
  };
}

/** A row keeps the time of the one that it replaces: that one's charge and sums have it. */
function chargedRow(row: UsageRow, chargedNano: Nano, atMs: number): UsageRow {
  const isShort = chargedNano < row.costNano && !row.flags.includes("overrun");
  const flags: UsageRow["flags"] = isShort ? [...row.flags, "overrun"] : row.flags;
  // A request that was refused after its hold is counted elsewhere; as a replacement it stands for one request again.
  return { ...row, atMs, chargedNano, flags, requestCount: Math.max(1, row.requestCount) };
}

interface Payer {
  userId: string;
  subscriptionId: string | null;
  /** Of the window that pays, or of the charge that is corrected. */
  atMs: number;
  availableNano: Nano;
}

function findPayer(
  { row, chargedNano }: Settlement,
  before: RecoveredCharge | null,
  { purses }: LateFacts,
  wallet: Wallet | undefined,
): Payer | null {
  const { userId } = row;
  if (userId === null) return null;
  const own = purses.get(userId) ?? [];
  const charge = before?.charge ?? null;
  if (charge !== null && charge.subscriptionId !== null) {
    const { subscriptionId, atMs } = charge;
    const availableNano = own.find((one) => one.subscriptionId === subscriptionId)?.leftNano ?? 0n;
    return { userId, subscriptionId, atMs, availableNano };
  }
  if (charge === null && row.payer === "subscription") {
    const purse = own.find(({ leftNano }) => leftNano >= chargedNano) ?? own[0];
    if (purse === undefined) return null;
    const { subscriptionId, atMs, leftNano } = purse;
    return { userId, subscriptionId, atMs, availableNano: leftNano };
  }
  if (wallet === undefined) return null;
  const availableNano = wallet.balanceNano - wallet.heldNano;
  return { userId, subscriptionId: null, atMs: charge?.atMs ?? row.atMs, availableNano };
}
