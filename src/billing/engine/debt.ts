/**
 * Requests that cost more than their hold. The whole cost is charged from the available balance of the wallet. The
 * missing part becomes a debt, which blocks new paid requests until it is covered.
 */

import type { Nano } from "../../money/nano.ts";
import type { EndedHold, Hold } from "../../store/money/holds.ts";
import type { Overrun } from "../../store/money/overruns.ts";
import { computeDebt, computeRemainingDebt, type LockedWallet } from "../../store/money/wallets.ts";
import type { HoldRequest, HoldResult, Settlement } from "./billing-types.ts";

export const EMPTY_WALLET: LockedWallet = { balanceNano: 0n, heldNano: 0n, debtNano: 0n };

/** The settlement as it is booked: its row names the payer and is flagged if the cost exceeds the hold. */
export function chargeHold(
  { amountNano, subscriptionId }: Pick<Hold, "amountNano" | "subscriptionId">,
  { row, chargedNano }: Settlement,
): Settlement {
  const isOverrun = chargedNano > amountNano;
  const charged = chargedNano < 0n ? 0n : chargedNano;
  // A request that was rejected because its hold was slow, and whose hold was written afterwards, has no payer.
  const isUnpaid = row.payer === null && charged === 0n;
  const payer = isUnpaid ? null : subscriptionId === null ? "balance" : "subscription";
  const isFlagged = !isOverrun || row.flags.includes("overrun");
  // This is the usual case. It avoids a copy of all fields.
  if (charged === chargedNano && charged === row.chargedNano && payer === row.payer && isFlagged) {
    return { row, chargedNano };
  }
  const flags = isFlagged ? row.flags : [...row.flags, "overrun" as const];
  return { chargedNano: charged, row: { ...row, chargedNano: charged, payer, flags } };
}

/** The wallet after a hold ends. Only a charge above the hold creates debt; a smaller one covers debt. */
export function applyCharge(
  { balanceNano, heldNano, debtNano }: LockedWallet,
  holdNano: Nano,
  chargedNano: Nano,
): LockedWallet {
  const changed = { balanceNano: balanceNano - chargedNano, heldNano: heldNano - holdNano, debtNano };
  return {
    ...changed,
    debtNano: chargedNano > holdNano ? computeDebt(changed) : computeRemainingDebt(changed),
  };
}

/**
 * `wallet` is the state before the charge, or null if a subscription pays. The windows of the subscription then show
 * more used than their limit.
 */
export function computeOverrun(
  { requestId, userId, subscriptionId, amountNano }: EndedHold,
  chargedNano: Nano,
  wallet: LockedWallet | null,
  atMs: number,
): Overrun | null {
  if (chargedNano <= amountNano) return null;
  const debtNano =
    wallet === null ? 0n : applyCharge(wallet, amountNano, chargedNano).debtNano - wallet.debtNano;
  return { requestId, atMs, userId, subscriptionId, heldNano: amountNano, chargedNano, debtNano };
}

/**
 * Decides a hold on a wallet. If the balance including the user's own holds covers the upper estimate (`firmNano`),
 * no less is held: otherwise a user could get a low estimate by holding the balance with another request.
 */
export function holdFromWallet(
  { balanceNano, heldNano, debtNano }: LockedWallet,
  { wantedNano, leastNano, firmNano = leastNano }: Pick<HoldRequest, "wantedNano" | "firmNano" | "leastNano">,
): HoldResult {
  if (wantedNano === 0n) return { kind: "held", amountNano: 0n, subscriptionId: null };
  if (debtNano > 0n) return { kind: "in_debt", debtNano };
  const availableNano = balanceNano - heldNano;
  if (isBlocked({ firmNano, leastNano }, availableNano, balanceNano)) {
    return { kind: "blocked", availableNano, neededNano: firmNano };
  }
  if (availableNano < leastNano) return { kind: "short", availableNano, resetsAtMs: null };
  const amountNano = wantedNano < availableNano ? wantedNano : availableNano;
  return { kind: "held", amountNano, subscriptionId: null };
}

/** Whether only the payer's own requests in flight prevent a hold of the upper estimate. */
export function isBlocked(
  { leastNano, firmNano = leastNano }: Pick<HoldRequest, "firmNano" | "leastNano">,
  availableNano: Nano,
  withHoldsNano: Nano,
): boolean {
  return firmNano > leastNano && availableNano < firmNano && withHoldsNano >= firmNano;
}
