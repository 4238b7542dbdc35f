/** Checks whether the payer of a request has money or quota left. */

import { usdText } from "../../../money/nano.ts";
import type { PolicyGroup } from "../../../policy/snapshot.ts";
import type { Db } from "../../../store/engine/db.ts";
import {
  listSubscriptionStatuses,
  type SubscriptionStatus,
} from "../../../store/money/subscription-status.ts";
import { computeDebt, readWallet } from "../../../store/money/wallets.ts";
import type { Facts, PaymentReason } from "./facts.ts";

interface PaymentQuery {
  group: PolicyGroup;
  userId: string | null;
  facts: Facts;
  nowMs: number;
}

interface PaymentStep {
  ok: boolean;
  reason: PaymentReason;
  facts: Facts;
}

export async function explainPayment(
  db: Db,
  { group, userId, facts, nowMs }: PaymentQuery,
): Promise<PaymentStep> {
  const { charge, plans } = group.billing;
  switch (charge) {
    case "none":
      return { ok: true, reason: "free_group", facts };
    case "balance": {
      const wallet = userId === null ? { balanceNano: 0n, heldNano: 0n } : await readWallet(db, userId);
      const available = wallet.balanceNano - wallet.heldNano;
      const debtNano = computeDebt(wallet);
      if (debtNano > 0n) {
        return { ok: false, reason: "balance_in_debt", facts: { ...facts, debt: usdText(debtNano) } };
      }
      const ok = available > 0n;
      return {
        ok,
        reason: ok ? "balance_available" : "balance_empty",
        facts: { ...facts, available: usdText(available) },
      };
    }
    case "subscription": {
      const all = userId === null ? [] : await listSubscriptionStatuses(db, userId, nowMs);
      const payingSubscriptions = all.filter(
        ({ state, planName }) => state === "running" && (plans === null || plans.includes(planName)),
      );
      if (payingSubscriptions.length === 0)
        return { ok: false, reason: "subscription_missing", facts: { ...facts, plans: [...(plans ?? [])] } };
      const totalRemainingNano = payingSubscriptions
        .map(smallestRemaining)
        .reduce((sum, nano) => sum + nano, 0n);
      const quotaFacts = {
        ...facts,
        plans: [...new Set(payingSubscriptions.map(({ planName }) => planName))],
        available: usdText(totalRemainingNano),
      };
      if (totalRemainingNano > 0n) return { ok: true, reason: "subscription_available", facts: quotaFacts };
      return {
        ok: false,
        reason: "subscription_used_up",
        facts: { ...quotaFacts, frees_at: Math.min(...payingSubscriptions.map(refillsAtMs)) },
      };
    }
  }
}

/** A request must fit into every window of the subscription that pays for it. */
function smallestRemaining({ windows }: SubscriptionStatus): bigint {
  const [first = 0n, ...others] = windows.map(({ remainingNano }) => remainingNano);
  return others.reduce((least, rest) => (rest < least ? rest : least), first);
}

/** When the last of its exhausted windows resets. */
function refillsAtMs({ windows }: SubscriptionStatus): number {
  const exhausted = windows.filter(({ remainingNano }) => remainingNano === 0n);
  return Math.max(...exhausted.map(({ endsAtMs }) => endsAtMs));
}
