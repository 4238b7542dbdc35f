/** Settles a request by its hold alone, when the process that served it has ended. */

import type { Nano } from "../../money/nano.ts";
import { buildTariff, type Costs, computeTariffCosts, NO_COSTS } from "../../money/tariff.ts";
import { NO_TOKENS, type TokenCounts } from "../../money/token-counts.ts";
import type { Hold } from "../../store/money/holds.ts";
import { NO_FALLBACK, type UsageRow } from "../../store/usage/usage.ts";
import { pickFacts, type Settlement } from "../engine/billing-types.ts";

/** What a held request used, and what it costs. */
export interface HeldUse
  extends Pick<UsageRow, "status" | "outcome" | "usageSource" | "responseId" | "flags"> {
  readonly tokens: TokenCounts;
  readonly costs: Costs;
  readonly chargedNano: Nano;
}

const NO_TERMS = { imageKind: null, tier: null };

/**
 * If nothing was sent upstream, nothing is charged. Otherwise the input and the counted output are charged, at most the
 * hold. `terms` are those of its tariff; null if they are lost.
 */
export function estimateHeldUse(hold: Hold, terms: string | null): HeldUse {
  const wasSent = hold.state === "dispatched";
  const tokens = wasSent
    ? { ...NO_TOKENS, inputTokens: hold.inputTokens, outputTokens: hold.outputTokens }
    : NO_TOKENS;
  const costs =
    wasSent && terms !== null ? computeTariffCosts(buildTariff(terms), tokens, NO_TERMS) : NO_COSTS;
  const isOverrun = costs.costNano > hold.amountNano;
  return {
    status: 500,
    outcome: wasSent ? "upstream_cut" : "failed",
    usageSource: wasSent ? "partial" : "none",
    responseId: null,
    flags: isOverrun ? ["recovered", "overrun"] : ["recovered"],
    tokens,
    costs,
    chargedNano: isOverrun ? hold.amountNano : costs.costNano,
  };
}

/** The use is not known and will not be: the hold is charged, because the upstream may have done all of the work. */
export function chargeWholeHold(hold: Hold): HeldUse {
  const { amountNano } = hold;
  return {
    ...estimateHeldUse(hold, null),
    flags: ["recovered", "clamped"],
    costs: { costNano: amountNano, listNano: amountNano },
    chargedNano: amountNano,
  };
}

export function buildHeldSettlement(hold: Hold, use: HeldUse, nowMs: number): Settlement {
  const { tokens, costs, chargedNano, ...ending } = use;
  return {
    chargedNano,
    row: {
      ...pickFacts(hold),
      requestCount: 1,
      atMs: nowMs,
      userId: hold.userId,
      accountId: hold.accountId,
      upstreamModel: hold.upstreamModel,
      errorCode: null,
      attempts: hold.state === "dispatched" ? 1 : 0,
      firstByteMs: null,
      durationMs: Math.max(0, nowMs - hold.atMs),
      waitMs: 0,
      upstreamRequestId: null,
      trace: null,
      ...NO_FALLBACK,
      costNano: costs.costNano,
      chargedNano,
      upstreamNano: costs.listNano,
      payer: hold.subscriptionId === null ? "balance" : "subscription",
      tariffId: hold.tariffId,
      ...tokens,
      ...ending,
    },
  };
}
