/**
 * Settlements whose hold is gone: another process considered this one dead and settled its requests from their
 * checkpoints, or the database was restored. The real usage replaces such an estimate exactly once.
 */

import type { Nano } from "../../money/nano.ts";
import type { Db } from "../../store/engine/db.ts";
import { lockCharge, refundedNano } from "../../store/money/entries.ts";
import { REVENUE, subscriptionBook, type Transfer, userBook } from "../../store/money/ledger.ts";
import { computeRemainingDebt, type LockedWallet, type Wallet } from "../../store/money/wallets.ts";
import type { UsageRow } from "../../store/usage/usage.ts";
import { lockRecovered } from "../../store/usage/usage-replacement.ts";
import type { Settlement } from "./billing-types.ts";
import { lockSubscriptionBalances, type SubscriptionBalance } from "./subscription-balances.ts";

/** A row that recovery wrote, and its current charge; null if nothing was charged. */
interface RecoveredCharge {
  row: UsageRow;
  charge: Transfer | null;
}

/** What a batch reads for its settlements without a hold. */
interface LateFacts {
  recoveredCharges: ReadonlyMap<string, RecoveredCharge>;
  subscriptionBalances: ReadonlyMap<string, SubscriptionBalance[]>;
}

const NO_LATE_FACTS: LateFacts = { recoveredCharges: new Map(), subscriptionBalances: new Map() };

export const isRecovered = ({ flags }: Pick<UsageRow, "flags">): boolean => flags.includes("recovered");

/** `careful`: rows may exist already. If every settlement has its hold, the usual case, nothing is read. */
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
    recoveredCharges: careful ? await readRecovered(tx, late) : NO_LATE_FACTS.recoveredCharges,
    subscriptionBalances:
      subscribers.size === 0
        ? NO_LATE_FACTS.subscriptionBalances
        : await lockSubscriptionBalances(tx, [...subscribers], nowMs),
  };
}

/** Excludes refunded requests: the refund was an operator's decision about this charge, so it stays. */
async function readRecovered(tx: Db, late: readonly Settlement[]): Promise<Map<string, RecoveredCharge>> {
  const charges = new Map<string, RecoveredCharge>();
  const rows = await lockRecovered(
    tx,
    late.map(({ row }) => row.requestId),
  );
  for (const row of rows) {
    const charge = await lockCharge(tx, row.requestId);
    if ((await refundedNano(tx, row.requestId)) === 0n) charges.set(row.requestId, { row, charge });
  }
  return charges;
}

/** Charges at most what is available. A negative amount is returned in full. */
function chargeAvailable(wantedNano: Nano, availableNano: Nano): Nano {
  const maxNano = availableNano > 0n ? availableNano : 0n;
  return wantedNano < maxNano ? wantedNano : maxNano;
}

/** The part of the batch state that late settlements read and change. */
export interface LateSettlementState {
  /** Facts about settlements without a hold, and the rows that these settlements replace. */
  readonly lateFacts: LateFacts;
  readonly replacedRows: Map<string, { before: UsageRow; row: UsageRow }>;
  readonly wallets: Map<string, LockedWallet>;
  readonly changedWallets: Set<string>;
  readonly rows: Map<string, UsageRow>;
  readonly entries: Transfer[];
  readonly windowChanges: { subscriptionId: string; atMs: number; heldNano: Nano; usedNano: Nano }[];
}

/** Charges the payer from the current balance and corrects the charge that recovery made before. */
export function settleLate(batch: LateSettlementState, settlement: Settlement): "late" | "unpaid" {
  const { requestId, userId } = settlement.row;
  const wallet = batch.wallets.get(userId ?? "");
  const booking = bookLate(settlement, batch.lateFacts, wallet);
  if (booking === null) {
    batch.rows.set(requestId, { ...settlement.row, chargedNano: 0n, payer: null });
    return "unpaid";
  }
  const { row, replacedRow: replaces, entry, balanceNano, window } = booking;
  if (replaces === null) batch.rows.set(requestId, row);
  else batch.replacedRows.set(requestId, { before: replaces, row });
  if (entry !== null) batch.entries.push(entry);
  if (window !== null) batch.windowChanges.push({ ...window, heldNano: 0n });
  if (balanceNano !== 0n && wallet !== undefined && userId !== null) {
    const changed = { ...wallet, balanceNano: wallet.balanceNano + balanceNano };
    batch.wallets.set(userId, { ...changed, debtNano: computeRemainingDebt(changed) });
    batch.changedWallets.add(userId);
  }
  return "late";
}

/** How a late settlement is booked. */
interface LateBooking {
  row: UsageRow;
  /** The row that this one replaces. */
  replacedRow: UsageRow | null;
  entry: Transfer | null;
  /** Added to the user's balance. */
  balanceNano: Nano;
  /** Added to the used amount of this subscription's windows. */
  window: { subscriptionId: string; atMs: number; usedNano: Nano } | null;
}

/** Null if there is no payer: neither a wallet nor a running subscription. */
function bookLate(settlement: Settlement, facts: LateFacts, wallet: Wallet | undefined): LateBooking | null {
  const before = facts.recoveredCharges.get(settlement.row.requestId) ?? null;
  const payer = findPayer(settlement, before, facts, wallet);
  if (payer === null) return null;
  const { subscriptionId, userId, atMs, availableNano } = payer;
  const beforeNano = before?.charge?.amountNano ?? 0n;
  const wantedNano = settlement.chargedNano < 0n ? 0n : settlement.chargedNano;
  const addedNano = chargeAvailable(wantedNano - beforeNano, availableNano);
  const chargedNano = beforeNano + addedNano;
  const row = buildChargedRow(settlement.row, chargedNano, before?.row.atMs ?? settlement.row.atMs);
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
    replacedRow: before?.row ?? null,
    entry: addedNano === 0n ? null : entry,
    balanceNano: subscriptionId === null ? -addedNano : 0n,
    window: subscriptionId === null ? null : { subscriptionId, atMs, usedNano: addedNano },
  };
}

/** The row keeps the time of the row it replaces, because the charge and roll-ups of that row have this time. */
function buildChargedRow(row: UsageRow, chargedNano: Nano, atMs: number): UsageRow {
  const isShort = chargedNano < row.costNano && !row.flags.includes("overrun");
  const flags: UsageRow["flags"] = isShort ? [...row.flags, "overrun"] : row.flags;
  // A request rejected after its hold is counted in another row. As a replacement it counts as one request again.
  return { ...row, atMs, chargedNano, flags, requestCount: Math.max(1, row.requestCount) };
}

interface Payer {
  userId: string;
  subscriptionId: string | null;
  /** Time of the window that pays, or of the charge that is corrected. */
  atMs: number;
  availableNano: Nano;
}

function findPayer(
  { row, chargedNano }: Settlement,
  before: RecoveredCharge | null,
  { subscriptionBalances }: LateFacts,
  wallet: Wallet | undefined,
): Payer | null {
  const { userId } = row;
  if (userId === null) return null;
  const userBalances = subscriptionBalances.get(userId) ?? [];
  const charge = before?.charge ?? null;
  if (charge !== null && charge.subscriptionId !== null) {
    const { subscriptionId, atMs } = charge;
    const availableNano =
      userBalances.find((one) => one.subscriptionId === subscriptionId)?.remainingNano ?? 0n;
    return { userId, subscriptionId, atMs, availableNano };
  }
  if (charge === null && row.payer === "subscription") {
    const balance = userBalances.find(({ remainingNano }) => remainingNano >= chargedNano) ?? userBalances[0];
    if (balance === undefined) return null;
    const { subscriptionId, atMs, remainingNano } = balance;
    return { userId, subscriptionId, atMs, availableNano: remainingNano };
  }
  if (wallet === undefined) return null;
  const availableNano = wallet.balanceNano - wallet.heldNano;
  return { userId, subscriptionId: null, atMs: charge?.atMs ?? row.atMs, availableNano };
}
