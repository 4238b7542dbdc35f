/** The state of accounts as this process knows it: health, requests in flight, limits reported by the upstream. */

import { z } from "zod";
import { DAY_MS } from "../../base/time.ts";
import type { Installation } from "../../config/installation/installation.ts";
import { usdText } from "../../money/nano.ts";
import { CAUSES } from "../../pool/cool-down.ts";
import type { CircuitReport, ModelReport } from "../../pool/health-report.ts";
import type { AccountRecord } from "../../records/account.ts";
import { type AccountUsage, type AccountUse, readAccountUsage } from "../../store/reports/account-usage.ts";
import type { PolicyContext, StoreContext } from "../context.ts";

/** `draining`: disabled, with requests in flight; `untried`: not used by this process yet. */
const ACCOUNT_STATES = ["well", "untried", "cooling", "probing", "parked", "draining", "disabled"] as const;

const healthFields = {
  /** The failure because of which the account is not used; null if there is none. */
  cause: z.enum(CAUSES).nullable(),
  /** When it is tried again; null if it is in use, or if an administrator has to act first. */
  free_at: z.number().nullable(),
};

export const accountFactsResponse = z.object({
  state: z.enum(ACCOUNT_STATES),
  ...healthFields,
  in_flight: z.number(),
  /** The upstream models that were requested recently. */
  models: z.array(
    z.object({
      upstream_model: z.string(),
      state: z.enum(["well", "cooling", "probing", "parked"]),
      ...healthFields,
      /** Average time to the first byte; null before the first response. */
      latency_ms: z.number().nullable(),
      /** Share of recent attempts that failed: 0 to 1. */
      error_share: z.number(),
      /** The limits that the headers of the upstream reported. */
      limits: z.array(
        z.object({
          unit: z.enum(["requests", "tokens"]),
          limit: z.number().nullable(),
          remaining: z.number().nullable(),
          resets_at: z.number().nullable(),
          reported_at: z.number(),
        }),
      ),
    }),
  ),
});

type AccountFacts = z.input<typeof accountFactsResponse>;

export function accountFacts({ gateway, installation }: PolicyContext, record: AccountRecord): AccountFacts {
  const { pool } = gateway.dispatcher;
  const nowMs = installation.clock.nowMs();
  const account = gateway.policy.snapshot().accounts.get(record.id);
  if (account === undefined) {
    const inFlight = pool.countInFlight(record.id);
    const state = inFlight > 0 ? "draining" : "disabled";
    return { state, cause: null, free_at: null, in_flight: inFlight, models: [] };
  }
  const report = pool.report(account);
  return {
    state: report.condition === "well" && !report.isTried ? "untried" : report.condition,
    ...healthObject(report, nowMs),
    in_flight: report.inFlight,
    models: report.models.map((model) => modelObject(model, nowMs)),
  };
}

function modelObject(model: ModelReport, nowMs: number): AccountFacts["models"][number] {
  const { upstreamModel, condition, latencyMs, errors, reportedLimits } = model;
  const reportedAtMs = Math.round(nowMs - (reportedLimits?.agoMs ?? 0));
  return {
    upstream_model: upstreamModel,
    state: condition,
    ...healthObject(model, nowMs),
    latency_ms: latencyMs,
    error_share: errors,
    limits: (reportedLimits?.limits ?? []).map(({ unit, limit, remaining, resetMs }) => ({
      unit,
      limit,
      remaining,
      resets_at: resetMs === null ? null : Math.round(reportedAtMs + resetMs),
      reported_at: reportedAtMs,
    })),
  };
}

function healthObject({ cause, freesInMs }: CircuitReport, nowMs: number) {
  return { cause, free_at: freesInMs === null ? null : Math.round(nowMs + freesInMs) };
}

const SPANS_DAYS = [1, 7, 30] as const;
const ROWS_MAX = 50_000;
const CACHE_MS = 10_000;

export const accountUsageResponse = z.object({
  days: z.number(),
  requests: z.number(),
  failed: z.number(),
  /** In USD: upstream cost at list prices, cost at the tariffs, and the part that users paid. */
  upstream: z.string(),
  cost: z.string(),
  charged: z.string(),
  /** The amount that users paid, minus the upstream cost. */
  margin: z.string(),
});

interface CachedUsage {
  atMs: number;
  usage: Promise<AccountUsage>;
}

const usageCache = new WeakMap<Installation, CachedUsage>();

/** The result is shared by all administrators and pages that request it at the same time. */
export function accountUsage({ installation }: StoreContext): Promise<AccountUsage> {
  const { db, clock } = installation;
  const nowMs = clock.nowMs();
  const cached = usageCache.get(installation);
  if (cached !== undefined && nowMs - cached.atMs < CACHE_MS) return cached.usage;
  const spans = SPANS_DAYS.map((days) => days * DAY_MS);
  const usage = readAccountUsage(db, spans, nowMs, ROWS_MAX);
  usageCache.set(installation, { atMs: nowMs, usage });
  usage.catch(() => usageCache.delete(installation));
  return usage;
}

export function usageObject(uses: readonly AccountUse[] | undefined): z.input<typeof accountUsageResponse>[] {
  return SPANS_DAYS.map((days, i) => {
    const use = uses?.[i];
    return {
      days,
      requests: use?.requests ?? 0,
      failed: use?.failed ?? 0,
      upstream: usdText(use?.upstreamNano ?? 0n),
      cost: usdText(use?.costNano ?? 0n),
      charged: usdText(use?.chargedNano ?? 0n),
      margin: usdText((use?.chargedNano ?? 0n) - (use?.upstreamNano ?? 0n)),
    };
  });
}
