/**
 * `GET /v1/usage`: the limits, use and remainder of a key. Reads the roll-ups after flushing pending usage.
 * docs/usage-api.md describes every field.
 */

import type { Clock } from "../../base/clock.ts";
import { DAY_MS } from "../../base/time.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import { storeBusy, storeUnavailable } from "../../errors.ts";
import type { LimitBorrower } from "../../limits/borrower/limit-borrower.ts";
import type { Limiter } from "../../limits/limiter-types.ts";
import { type Nano, usdText } from "../../money/nano.ts";
import { toUsageCounts, type UsageCount } from "../../records/usage-counts.ts";
import { type Db, ReadRejected, snapshot } from "../../store/engine/db.ts";
import { listSubscriptionStatuses, type SubscriptionStatus } from "../../store/money/subscription-status.ts";
import { computeDebt, readWallet, type Wallet } from "../../store/money/wallets.ts";
import { readSplitUsage, readTotalUsage } from "../../store/reports/usage-series.ts";
import { keyTotals, type UsageTotals } from "../../store/usage/usage.ts";
import type { Caller } from "../admission/authenticate.ts";
import { callerSubjects } from "../admission/caller-limits.ts";
import { type LimitsReport, limitsReport } from "./limits-report.ts";
import { parseUsageRange } from "./usage-range.ts";

interface TotalsObject extends Record<UsageCount, number> {
  requests: number;
  failed_requests: number;
  refused_requests: number;
  /** The cached share of the input tokens; null without input. */
  cache_hit_rate: number | null;
  total_tokens: number;
  /** USD as decimal text: by the price, and the part that was charged. */
  cost: string;
  charged: string;
}

interface SubscriptionObject {
  plan: string;
  ends_at: number | null;
  windows: {
    per: string;
    limit: string;
    used: string;
    held: string;
    remaining: string;
    resets_at: number;
  }[];
}

type BillingObject =
  | { mode: "none"; currency: "USD" }
  | { mode: "balance"; currency: "USD"; balance: string; held: string; available: string; debt: string }
  | { mode: "subscription"; currency: "USD"; subscriptions: SubscriptionObject[] };

interface UsageReport {
  object: "gateway.usage";
  version: 1;
  key: { id: string; name: string; created_at: number; expires_at: number | null };
  group: { name: string; interfaces: string[] };
  billing: BillingObject;
  limits: LimitsReport;
  usage: {
    today: TotalsObject & { since: number };
    range: TotalsObject & {
      from: number;
      to: number;
      granularity: "hour" | "day";
      by_model: (TotalsObject & { model: string })[];
      points: (TotalsObject & { start: number })[];
    };
    total: TotalsObject;
  };
  /** For desktop tools that send the same request to every gateway. */
  isValid: true;
  planName: string;
  remaining: number | null;
  unit: "USD";
}

/** Clients choose the model names of rejected requests, so the number of models is unbounded. */
const MODELS_MAX = 200;

interface UsageReportServices {
  readonly clock: Pick<Clock, "nowMs">;
  readonly db: Db;
  readonly limiter: Limiter;
  /** Null if there is one node. */
  readonly limitBorrower: Pick<LimitBorrower, "refresh"> | null;
  readonly billingEngine: Pick<BillingEngine, "flush" | "flushUser">;
}

export async function reportUsage(
  services: UsageReportServices,
  caller: Caller,
  query: URLSearchParams,
): Promise<UsageReport> {
  const { key, group } = caller;
  const { db } = services;
  const nowMs = services.clock.nowMs();
  const range = parseUsageRange(query, nowMs);
  const flushed =
    key.userId === null ? services.billingEngine.flush() : services.billingEngine.flushUser(key.userId);
  await flushed.catch(() => {
    throw storeUnavailable();
  });
  await services.limitBorrower?.refresh(callerSubjects(caller));
  const todayMs = Math.floor(nowMs / DAY_MS) * DAY_MS;
  const scope = { keyId: key.id };
  const always = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER, granularity: "day" } as const;
  // One snapshot, so that models, points and sums agree while other requests are written.
  const [today, total, ranged, paid] = await snapshot(db.reports, (tx) =>
    Promise.all([
      keyTotals(tx, key.id, todayMs),
      readTotalUsage(tx, { scope, ...always }),
      readSplitUsage(tx, { scope, ...range, by: "model" }, { ranked: MODELS_MAX, drawn: 0 }),
      payment(tx, caller, nowMs),
    ]),
  ).catch((error: unknown) => {
    throw error instanceof ReadRejected ? storeBusy() : error;
  });
  return {
    object: "gateway.usage",
    version: 1,
    key: {
      id: key.publicId,
      name: key.name,
      created_at: seconds(key.createdAtMs),
      expires_at: key.expiresAtMs === null ? null : seconds(key.expiresAtMs),
    },
    group: { name: group.name, interfaces: [...group.interfaces] },
    billing: paid.billing,
    limits: limitsReport(services.limiter, caller, nowMs),
    usage: {
      today: { since: seconds(todayMs), ...totalsObject(today) },
      range: {
        from: seconds(range.fromMs),
        to: seconds(range.toMs),
        granularity: range.granularity,
        ...totalsObject(ranged.total),
        by_model: ranged.ranking.map(({ id, totals }) => ({ model: id, ...totalsObject(totals) })),
        points: ranged.points.map((one) => ({ start: seconds(one.atMs), ...totalsObject(one) })),
      },
      total: totalsObject(total),
    },
    isValid: true,
    planName: paid.planName ?? group.name,
    remaining: paid.remainingNano === null ? null : Number(paid.remainingNano) / 1e9,
    unit: "USD",
  };
}

interface Payment {
  billing: BillingObject;
  planName: string | null;
  /** Null if the group does not charge. */
  remainingNano: Nano | null;
}

const EMPTY_WALLET: Wallet = { balanceNano: 0n, heldNano: 0n };

async function payment(db: Db, { key, group }: Caller, nowMs: number): Promise<Payment> {
  const { charge, plans } = group.billing;
  switch (charge) {
    case "none":
      return { billing: { mode: "none", currency: "USD" }, planName: null, remainingNano: null };
    case "balance": {
      const wallet = key.userId === null ? EMPTY_WALLET : await readWallet(db, key.userId);
      const { balanceNano, heldNano } = wallet;
      const available = balanceNano - heldNano;
      return {
        billing: {
          mode: "balance",
          currency: "USD",
          balance: usdText(balanceNano),
          held: usdText(heldNano),
          available: usdText(available),
          debt: usdText(computeDebt(wallet)),
        },
        planName: null,
        remainingNano: available,
      };
    }
    case "subscription": {
      const all = key.userId === null ? [] : await listSubscriptionStatuses(db, key.userId, nowMs);
      const running = all.filter(
        ({ state, planName }) => state === "running" && (plans === null || plans.includes(planName)),
      );
      return {
        billing: { mode: "subscription", currency: "USD", subscriptions: running.map(subscriptionObject) },
        planName: running.length === 0 ? null : running.map(({ planName }) => planName).join(", "),
        remainingNano: running.reduce((sum, subscription) => sum + smallestRemainder(subscription), 0n),
      };
    }
  }
}

/** A request must fit every window of the one subscription that pays for it. */
function smallestRemainder({ windows }: SubscriptionStatus): Nano {
  const rests = windows.map(({ remainingNano }) => remainingNano);
  return rests.length === 0 ? 0n : rests.reduce((least, rest) => (rest < least ? rest : least));
}

function subscriptionObject({ planName, endsAtMs, windows }: SubscriptionStatus): SubscriptionObject {
  return {
    plan: planName,
    ends_at: endsAtMs === null ? null : seconds(endsAtMs),
    windows: windows.map((window) => ({
      per: window.per,
      limit: usdText(window.limitNano),
      used: usdText(window.usedNano),
      held: usdText(window.heldNano),
      remaining: usdText(window.remainingNano),
      resets_at: seconds(window.endsAtMs),
    })),
  };
}

function totalsObject(totals: UsageTotals): TotalsObject {
  return {
    requests: totals.requests,
    failed_requests: totals.failed,
    refused_requests: totals.refused,
    ...toUsageCounts(totals),
    cache_hit_rate: computeHitRate(totals),
    total_tokens: totals.inputTokens + totals.outputTokens,
    cost: usdText(totals.costNano),
    charged: usdText(totals.chargedNano),
  };
}

/** Four decimals, which distinguish all token counts of a day. */
function computeHitRate({ inputTokens, cachedTokens }: UsageTotals): number | null {
  return inputTokens === 0 ? null : Math.round((cachedTokens / inputTokens) * 10_000) / 10_000;
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000);
}
