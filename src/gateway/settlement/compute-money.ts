/**
 * Computes what a settled request costs: its usage at the tariff, within the bounds of its hold, and what upstreams will
 * bill for failed attempts.
 */

import { usageLimits } from "../../count-limits.ts";
import { type Nano, usdText } from "../../money/nano.ts";
import {
  type Costs,
  computeListCost,
  computeTariffCosts,
  dearerTier,
  NO_COSTS,
  NOTHING_USED,
  type Tariff,
  type UsageTerms,
} from "../../money/tariff.ts";
import type { ReportedTier } from "../../money/token-counts.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log, LogFields } from "../../observe/log.ts";
import { resolveImageKind } from "../../protocols/shared/image-kind.ts";
import { storableCost } from "../../store/usage/storable-values.ts";
import { NO_MONEY, type UsageFlag, type UsageMoney } from "../../store/usage/usage-row.ts";
import { traceLogId } from "../request/log-ids.ts";
import { droppedFields } from "../request/trace.ts";
import { type AuthenticatedRequest, isRead, type PaidRequest, type ReadRequest } from "../request-context.ts";
import type { MeteredEnding, MeteredUse } from "./metered-use.ts";
import { computePassesCosts } from "./price-passes.ts";
import type { WastedAttempt } from "./wasted-attempts.ts";

/** The services that bounding a charge uses. */
export interface MoneyServices {
  readonly log: Pick<Log, "error" | "warn">;
  readonly billingFaults: Pick<BillingFaults, "add">;
}

function readUsageTerms(context: ReadRequest, tariff: Tariff, use: MeteredUse): UsageTerms {
  const imageKind = resolveImageKind(context.request.imageKind, use.imageKind);
  return { imageKind, tier: readServedTier(context, tariff, use.tier) };
}

/** The names of the tier in the dialects of clients. */
const TIER_FIELDS: ReadonlySet<string> = new Set(["service_tier", "serviceTier", "speed"]);

/**
 * The tier is the one that the upstream reports: it may serve a request in another one than requested. Without a report
 * the requested one counts if it is dearer, unless the translation dropped it.
 */
function readServedTier(
  { request, trace }: ReadRequest,
  tariff: Tariff,
  reported: ReportedTier | null,
): ReportedTier | null {
  if (reported !== null || tariff.prices.tiers.size === 0) return reported;
  const isDropped = droppedFields(trace).some((field) => TIER_FIELDS.has(field));
  return isDropped ? null : dearerTier(tariff, request.requestedTier());
}

export function computeMoney(
  services: MoneyServices,
  context: PaidRequest,
  { use, ending }: MeteredEnding,
): UsageMoney {
  const { charge } = context;
  const { tariff, heldNano, payer } = charge;
  const wastedNano =
    computeWastedCost(context, tariff, use.wasted) + computeUnpaidSearches(services, context, use);
  const costs = ending.isServed ? computeCosts(context, use) : NO_COSTS;
  const { costNano, listNano } = boundCosts(services, context, costs);
  const isOverrun = costNano > heldNano;
  return {
    costNano,
    // The whole cost, even above the hold. The part that the payer cannot pay becomes a debt (billing/engine/debt.ts).
    chargedNano: isOverrun ? storableCost(costNano, heldNano) : costNano,
    upstreamNano: listNano + wastedNano,
    payer,
    tariffId: tariff.id,
    flags: computeFlags(use, {
      isCut: costNano < costs.costNano,
      isCapped: charge.isCapped || isCappedByWindow(context),
      isOverrun,
    }),
  };
}

/** Searches that the request did not allow are the operator's cost, and an alert. */
function computeUnpaidSearches(
  { log, billingFaults }: MoneyServices,
  context: PaidRequest,
  { tokens, unpaidSearches }: MeteredUse,
): Nano {
  const { call, charge, trace } = context;
  if (unpaidSearches === 0 || charge.searchesMax === null) return 0n;
  log.warn("searches_bounded", {
    request_id: call.requestId,
    ...traceLogId(trace),
    account_id: trace.route?.account.id ?? null,
    charged: tokens.webSearches,
    not_charged: unpaidSearches,
  });
  billingFaults.add("searches_bounded");
  return computeListCost(charge.tariff, { ...NOTHING_USED, webSearches: unpaidSearches });
}

/** If the reported usage is implausible, the hold is charged: not less, because the work was done, and not more. */
function computeCosts(context: PaidRequest, use: MeteredUse): Costs {
  const { tariff, heldNano } = context.charge;
  return use.isImplausible ? { costNano: heldNano, listNano: heldNano } : priceUse(context, tariff, use);
}

function priceUse(context: ReadRequest, tariff: Tariff, use: MeteredUse): Costs {
  const { tokens, passes } = use;
  const terms = readUsageTerms(context, tariff, use);
  if (passes === null) return computeTariffCosts(tariff, tokens, terms);
  return computePassesCosts({ tariff, group: context.caller.group, tokens, passes }, terms);
}

function boundCosts(services: MoneyServices, context: PaidRequest, costs: Costs): Costs {
  const { call, charge, trace } = context;
  const { heldNano } = charge;
  if (!isFarAboveHold(costs, heldNano)) return costs;
  const accountId = trace.route?.account.id ?? null;
  const ids = { request_id: call.requestId, ...traceLogId(trace), account_id: accountId };
  return cutToHold(services, { heldNano, ids }, costs);
}

/** Shows that the report, a price or a window is wrong. */
export function isFarAboveHold({ costNano }: Costs, heldNano: Nano): boolean {
  return costNano > heldNano + usageLimits.chargeAboveHoldNano;
}

/** The user does not pay for it: the operator is alerted. */
export function cutToHold(
  services: Pick<MoneyServices, "billingFaults"> & { readonly log: Pick<Log, "error"> },
  { heldNano, ids }: { readonly heldNano: Nano; readonly ids: LogFields },
  { costNano, listNano }: Costs,
): Costs {
  const mostNano = heldNano + usageLimits.chargeAboveHoldNano;
  services.log.error("charge_bounded", {
    ...ids,
    cost_usd: usdText(costNano),
    charged_usd: usdText(mostNano),
  });
  services.billingFaults.add("charge_bounded");
  return { costNano: mostNano, listNano: listNano < mostNano ? listNano : mostNano };
}

/** A USD window afforded less output or fewer searches than the request allows. */
function isCappedByWindow({ windowCap, windowSearches, budget }: AuthenticatedRequest): boolean {
  if (windowCap !== null) return true;
  return budget !== null && windowSearches !== null && windowSearches < budget.forecast.searches;
}

interface ChargeBounds {
  /** The cost was cut to the hold. */
  readonly isCut: boolean;
  readonly isCapped: boolean;
  readonly isOverrun: boolean;
}

function computeFlags(
  { flags }: MeteredUse,
  { isCut, isCapped, isOverrun }: ChargeBounds,
): readonly UsageFlag[] {
  if (!isCut && !isCapped && !isOverrun) return flags;
  const all: UsageFlag[] = [...flags];
  if (isCut) all.push("clamped");
  if (isCapped) all.push("capped");
  if (isOverrun) all.push("overrun");
  return all;
}

/** What upstreams will bill for failed attempts, each at the price of its step. */
function computeWastedCost({ fallback }: ReadRequest, own: Tariff, wasted: readonly WastedAttempt[]): Nano {
  let nano = 0n;
  for (const { step, used } of wasted) {
    const tariff = step === null || fallback === null ? own : fallback.findTariff(step);
    if (tariff !== null) nano += computeListCost(tariff, used);
  }
  return nano;
}

/** The cost of an unpaid request, for USD windows and reports. */
export function computeUnpaidMoney(
  context: AuthenticatedRequest,
  { use, ending }: MeteredEnding,
): UsageMoney {
  const { tokens, source, isImplausible } = use;
  const isCapped = isCappedByWindow(context) && ending.isServed;
  const flags = computeFlags(use, { isCut: false, isCapped, isOverrun: false });
  const tariff = context.model?.tariff ?? null;
  if (tariff === null || !isRead(context)) return { ...NO_MONEY, flags };
  const wastedNano = computeWastedCost(context, tariff, use.wasted);
  // No hold was taken, so an implausible usage costs nothing.
  const hasCost = !isImplausible && (source !== "none" || tokens.images > 0);
  if (!hasCost) return { ...NO_MONEY, upstreamNano: wastedNano, flags };
  const { costNano, listNano } = priceUse(context, tariff, use);
  const upstreamNano = listNano + wastedNano;
  return { costNano, chargedNano: 0n, upstreamNano, payer: null, tariffId: null, flags };
}
