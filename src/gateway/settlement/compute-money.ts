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
import type { InputEstimates } from "../metering/input-estimate.ts";
import { asReduced, type MeasuredUsage } from "../metering/meter.ts";
import { boundReport, countUnpaidSearches } from "../metering/usage-bounds.ts";
import { traceLogId } from "../request/log-ids.ts";
import { droppedFields, type Trace } from "../request/trace.ts";
import { type AuthenticatedRequest, isRead, type PaidRequest, type ReadRequest } from "../request-context.ts";
import type { MeasuredUse } from "./build-usage-row.ts";
import { computePassesCosts } from "./price-passes.ts";
import type { RequestEnding } from "./request-ending.ts";

interface EstimateServices {
  readonly estimates: Pick<InputEstimates, "estimate">;
}

/** The services that bounding a charge uses. */
export interface MoneyServices extends EstimateServices {
  readonly log: Pick<Log, "error" | "warn">;
  readonly billingFaults: Pick<BillingFaults, "add">;
}

/** The input as estimated before the response began. */
export function estimateInput({ estimates }: EstimateServices, { charge, request }: ReadRequest): number {
  return charge?.inputTokens ?? estimates.estimate(request.publicModel, request.inputSize());
}

function readUsageTerms(context: ReadRequest, tariff: Tariff, ending: RequestEnding): UsageTerms {
  const imageKind = resolveImageKind(context.request.imageKind, ending.imageKind);
  return { imageKind, tier: readServedTier(context, tariff, ending) };
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
  { usage }: RequestEnding,
): ReportedTier | null {
  const reported = usage?.tier ?? null;
  if (reported !== null || tariff.prices.tiers.size === 0) return reported;
  const isDropped = droppedFields(trace).some((field) => TIER_FIELDS.has(field));
  return isDropped ? null : dearerTier(tariff, request.requestedTier());
}

export function computeMoney(
  services: MoneyServices,
  context: PaidRequest,
  { measured, ending }: MeasuredUse,
): UsageMoney {
  const { charge } = context;
  const { tariff, heldNano, payer } = charge;
  const wastedNano =
    computeWastedCost(services, context, tariff) +
    computeUnpaidSearches(services, context, { measured, ending });
  const costs = ending.isServed ? computeCosts(context, { measured, ending }) : NO_COSTS;
  const { costNano, listNano } = boundCosts(services, context, costs);
  const isOverrun = costNano > heldNano;
  return {
    costNano,
    // The whole cost, even above the hold. The part that the payer cannot pay becomes a debt (billing/engine/debt.ts).
    chargedNano: isOverrun ? storableCost(costNano, heldNano) : costNano,
    upstreamNano: listNano + wastedNano,
    payer,
    tariffId: tariff.id,
    flags: computeFlags(
      costNano < costs.costNano ? asReduced(measured) : measured,
      charge.isCapped || isCappedByWindow(context),
      isOverrun,
    ),
  };
}

/** Searches that the request did not allow are the operator's cost, and an alert. */
function computeUnpaidSearches(
  { log, billingFaults }: MoneyServices,
  context: PaidRequest,
  { measured, ending }: MeasuredUse,
): Nano {
  const { call, charge, trace } = context;
  const webSearches = measured.isImplausible ? 0 : countUnpaidSearches(ending.usage, measured.tokens);
  if (webSearches === 0 || charge.searchesMax === null) return 0n;
  log.warn("searches_bounded", {
    request_id: call.requestId,
    ...traceLogId(trace),
    account_id: trace.route?.account.id ?? null,
    charged: measured.tokens.webSearches,
    not_charged: webSearches,
  });
  billingFaults.add("searches_bounded");
  return computeListCost(charge.tariff, { ...NOTHING_USED, webSearches });
}

/** If the reported usage is implausible, the hold is charged: not less, because the work was done, and not more. */
function computeCosts(context: PaidRequest, use: MeasuredUse): Costs {
  const { tariff, heldNano } = context.charge;
  return use.measured.isImplausible
    ? { costNano: heldNano, listNano: heldNano }
    : priceUse(context, tariff, use);
}

function priceUse(context: ReadRequest, tariff: Tariff, { measured, ending }: MeasuredUse): Costs {
  const { tokens, source } = measured;
  const terms = readUsageTerms(context, tariff, ending);
  const passes = source === "upstream" ? ending.usage?.passes : undefined;
  if (passes === undefined) return computeTariffCosts(tariff, tokens, terms);
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

function computeFlags({ flags }: MeasuredUsage, isCapped: boolean, isOverrun: boolean): readonly UsageFlag[] {
  if (!isCapped && !isOverrun) return flags;
  const all: UsageFlag[] = [...flags];
  if (isCapped) all.push("capped");
  if (isOverrun) all.push("overrun");
  return all;
}

/** Failures after which an upstream may have processed the request and will bill at least its input. */
const MAY_BE_CHARGED: ReadonlySet<string> = new Set([
  "timeout",
  "reset",
  "bad_answer",
  "too_large",
  "out_of_bounds",
  "unstreamed",
]);

/** The number of failed attempts that an upstream may have processed. */
export function countWastedAttempts({ attempts }: Trace): number {
  let count = 0;
  for (const { failure } of attempts) if (failure !== null && MAY_BE_CHARGED.has(failure)) count++;
  return count;
}

/** What upstreams will bill for failed attempts: the reported usage, or the input if they may have processed it. */
function computeWastedCost(services: EstimateServices, context: ReadRequest, own: Tariff): Nano {
  let nano = 0n;
  for (const { failure, usage, step } of context.trace.attempts) {
    if (failure === null) continue;
    const tariff =
      step === undefined || context.fallback === null ? own : context.fallback.findTariff(step.number);
    if (tariff === null) continue;
    const report = usage === undefined ? null : boundReport(context, { usage, images: 0 }).usage;
    if (report !== null) {
      nano += computeListCost(tariff, { ...NOTHING_USED, ...report });
    } else if (MAY_BE_CHARGED.has(failure)) {
      nano += computeListCost(tariff, { ...NOTHING_USED, inputTokens: estimateInput(services, context) });
    }
  }
  return nano;
}

/** The cost of an unpaid request, for USD windows and reports. */
export function computeUnpaidMoney(
  services: EstimateServices,
  context: AuthenticatedRequest,
  { measured, ending }: MeasuredUse,
): UsageMoney {
  const { tokens, source, isImplausible } = measured;
  const flags = computeFlags(measured, isCappedByWindow(context) && ending.isServed, false);
  const tariff = context.model?.tariff ?? null;
  if (tariff === null || !isRead(context)) return { ...NO_MONEY, flags };
  const wastedNano = computeWastedCost(services, context, tariff);
  // No hold was taken, so an implausible usage costs nothing.
  const hasCost = !isImplausible && (source !== "none" || tokens.images > 0);
  if (!hasCost) return { ...NO_MONEY, upstreamNano: wastedNano, flags };
  const { costNano, listNano } = priceUse(context, tariff, { measured, ending });
  const upstreamNano = listNano + wastedNano;
  return { costNano, chargedNano: 0n, upstreamNano, payer: null, tariffId: null, flags };
}
