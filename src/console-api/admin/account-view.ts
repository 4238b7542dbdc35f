/** How accounts are, as far as this process knows: health, what is under way, what their upstreams said of limits. */

import { z } from "zod";
import { usdText } from "../../money/nano.ts";
import { CAUSES } from "../../pool/health.ts";
import type { CircuitReport, ModelReport } from "../../pool/report.ts";
import type { AccountRecord } from "../../records.ts";
import { type AccountUsage, type AccountUse, readAccountUsage } from "../../store/reports/account-usage.ts";
import { DAY_MS } from "../../store/usage/usage-day.ts";
import type { ConsoleContext } from "../context.ts";

/**
 * `draining`: disabled, and requests are still under way; `untried`: this process has not asked it yet. The others are
 * the pool's.
 */
const ACCOUNT_STATES = ["well", "untried", "cooling", "probing", "parked", "draining", "disabled"] as const;

const ailing = {
  /** The failure for which it is not being used; null when there is none. */
  cause: z.enum(CAUSES).nullable(),
  /** When it is tried again; null when it is in use, or when somebody has to act first. */
  free_at: z.number().nullable(),
};

export const accountFactsAnswer = z.object({
  state: z.enum(ACCOUNT_STATES),
  ...ailing,
  in_flight: z.number(),
  /** The upstream models that were asked for lately. */
  models: z.array(
    z.object({
      upstream_model: z.string(),
      state: z.enum(["well", "cooling", "probing", "parked"]),
      ...ailing,
      /** Time to the first byte, averaged; null until there was one. */
      latency_ms: z.number().nullable(),
      /** Share of attempts that failed lately: 0 to 1. */
      error_share: z.number(),
      /** What the upstream's headers said of its limits. */
      limits: z.array(
        z.object({
          unit: z.enum(["requests", "tokens"]),
          limit: z.number().nullable(),
          remaining: z.number().nullable(),
          resets_at: z.number().nullable(),
          told_at: z.number(),
        }),
      ),
    }),
  ),
});

export type AccountFacts = z.input<typeof accountFactsAnswer>;

export function accountFacts({ gateway, installation }: ConsoleContext, record: AccountRecord): AccountFacts {
  const { pool } = gateway.dispatcher;
  const nowMs = installation.clock.nowMs();
  const account = gateway.policy.snapshot().accounts.get(record.id);
  if (account === undefined) {
    const inFlight = pool.inFlightOf(record.id);
    const state = inFlight > 0 ? "draining" : "disabled";
    return { state, cause: null, free_at: null, in_flight: inFlight, models: [] };
  }
  const report = pool.report(account);
  return {
    state: report.condition === "well" && !report.isTried ? "untried" : report.condition,
    ...ailingObject(report, nowMs),
    in_flight: report.inFlight,
    models: report.models.map((model) => modelObject(model, nowMs)),
  };
}

function modelObject(model: ModelReport, nowMs: number): AccountFacts["models"][number] {
  const { upstreamModel, condition, latencyMs, errors, told } = model;
  const toldAtMs = Math.round(nowMs - (told?.agoMs ?? 0));
  return {
    upstream_model: upstreamModel,
    state: condition,
    ...ailingObject(model, nowMs),
    latency_ms: latencyMs,
    error_share: errors,
    limits: (told?.limits ?? []).map(({ unit, limit, remaining, resetMs }) => ({
      unit,
      limit,
      remaining,
      resets_at: resetMs === null ? null : Math.round(toldAtMs + resetMs),
      told_at: toldAtMs,
    })),
  };
}

function ailingObject({ cause, freesInMs }: CircuitReport, nowMs: number) {
  return { cause, free_at: freesInMs === null ? null : Math.round(nowMs + freesInMs) };
}

const SPANS_DAYS = [1, 7, 30] as const;
const ROWS_MAX = 50_000;
const FRESH_MS = 10_000;

export const accountUsageAnswer = z.object({
  days: z.number(),
  requests: z.number(),
  failed: z.number(),
  /** USD: what the upstream asks by list prices, what the tariffs came to, and what users paid of that. */
  upstream: z.string(),
  cost: z.string(),
  charged: z.string(),
  /** What users paid, less what the upstream asks. */
  margin: z.string(),
});

interface Remembered {
  atMs: number;
  usage: Promise<AccountUsage>;
}

const remembered = new WeakMap<ConsoleContext, Remembered>();

/** Several administrators, and several pages, share one look. */
export function accountUsage(control: ConsoleContext): Promise<AccountUsage> {
  const { db, clock } = control.installation;
  const nowMs = clock.nowMs();
  const known = remembered.get(control);
  if (known !== undefined && nowMs - known.atMs < FRESH_MS) return known.usage;
  const spans = SPANS_DAYS.map((days) => days * DAY_MS);
  const usage = readAccountUsage(db, spans, nowMs, ROWS_MAX);
  remembered.set(control, { atMs: nowMs, usage });
  usage.catch(() => remembered.delete(control));
  return usage;
}

export function usageObject(uses: readonly AccountUse[] | undefined): z.input<typeof accountUsageAnswer>[] {
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
