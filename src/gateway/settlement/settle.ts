/**
 * Settles a request: its use becomes one usage row and, if it is paid, one settlement, exactly once. A paying client
 * receives the end of its response only after the settlement.
 */

import { upstreamFailure } from "../../accounts/failure.ts";
import type { Clock } from "../../base/clock.ts";
import { isPending } from "../../base/maybe-promise.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import { type RejectionRows, withoutUsageRow } from "../../billing/engine/rejection-rows.ts";
import { NO_AMOUNTS } from "../../limits/amounts.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import type { Pool } from "../../pool/pool.ts";
import type { UsageMoney, UsageRow } from "../../store/usage/usage-row.ts";
import { likelyCost } from "../charging/window-budget.ts";
import type { InputCounter } from "../metering/count-input.ts";
import type { InputEstimates } from "../metering/input-estimate.ts";
import { isTextAlone } from "../metering/input-range.ts";
import { measureCounts } from "../metering/limited-use.ts";
import type { ReasoningEstimates } from "../metering/reasoning-estimate.ts";
import { traceLogId } from "../request/log-ids.ts";
import {
  type AuthenticatedRequest,
  isAuthenticated,
  isPaid,
  type PaidRequest,
  type RequestContext,
} from "../request-context.ts";
import { buildUsageRow } from "./build-usage-row.ts";
import { computeMoney, computeUnpaidMoney } from "./compute-money.ts";
import { type MeteredEnding, meterUse } from "./metered-use.ts";
import { type RecordingServices, recordRequest } from "./record-request.ts";
import type { RequestEnding } from "./request-ending.ts";
import { exportUnauthenticatedSpan } from "./request-spans.ts";
import { learnReasoning } from "./unseen-output.ts";

/** A request that has ended, with its use and its cost. */
interface SettledEnding extends MeteredEnding {
  readonly money: UsageMoney;
}

export interface SettlementServices extends RecordingServices {
  readonly clock: Clock;
  readonly log: Log;
  readonly estimates: InputEstimates;
  readonly reasoning: ReasoningEstimates;
  readonly inputCounter: Pick<InputCounter, "countRequest" | "countResponse">;
  readonly rejections: Pick<RejectionRows, "addToCounted">;
  readonly billingFaults: Pick<BillingFaults, "add">;
  readonly billingEngine: Pick<BillingEngine, "push" | "settle">;
  readonly dispatcher: { readonly pool: Pick<Pool, "recordBrokenStream"> };
}

/** Returns null if there is nothing to wait for. Only the first call for a request has an effect; later ones wait for it. */
export function settleRequest(
  services: SettlementServices,
  context: RequestContext,
  ending: RequestEnding,
): Promise<void> | null {
  if (context.isSettled) return context.settlement;
  context.isSettled = true;
  const settled = settle(services, context, ending);
  context.settlement = settled;
  if (settled === null) context.lease?.finish();
  else {
    const finish = () => context.lease?.finish();
    void settled.then(finish, finish);
  }
  return settled;
}

/** False until it is settled. A paid response that can be retrieved is not served before. */
export async function isSettlementStored({
  isSettled,
  settlement,
}: Pick<RequestContext, "isSettled" | "settlement">): Promise<boolean> {
  await settlement;
  return isSettled;
}

function settle(
  services: SettlementServices,
  context: RequestContext,
  ending: RequestEnding,
): Promise<void> | null {
  // Without a valid key nothing is written: otherwise strangers could fill the database.
  if (!isAuthenticated(context)) {
    if (services.tracer !== null)
      exportUnauthenticatedSpan(services.tracer, context, { ending, ...services });
    return null;
  }
  if (isPaid(context)) services.requestMetrics.heldNano -= Number(context.charge.heldNano);
  const use = meterUse(services, context, ending);
  // A request that needs no counting is settled synchronously, while its limits are still held.
  if (!isPending(use)) return settleUse(services, context, { ending, use });
  return use.then(async (counted) => {
    await settleUse(services, context, { ending, use: counted });
  });
}

function settleUse(
  services: SettlementServices,
  context: AuthenticatedRequest,
  metered: MeteredEnding,
): Promise<void> | null {
  if (isPaid(context)) return settlePaid(services, context, metered);
  pushRow(services, context, metered);
  return null;
}

/** Writes the usage row of an unpaid request. */
function pushRow(services: SettlementServices, context: AuthenticatedRequest, metered: MeteredEnding): void {
  const row = recordUse(services, context, { ...metered, money: computeUnpaidMoney(context, metered) });
  if (!services.rejections.addToCounted(row)) services.billingEngine.push(row);
}

/** Records the use for operators and settles the limits to it. */
function recordUse(
  services: SettlementServices,
  context: AuthenticatedRequest,
  settled: SettledEnding,
): UsageRow {
  const row = buildUsageRow(context, settled, services.clock);
  recordRequest(services, context, { row, ending: settled.ending });
  settleLimits(context, settled);
  return row;
}

/**
 * Settles the windows of the caller and of the account to the usage row, because a later process seeds its windows from
 * the rows. The estimate remains if the row has no reliable count.
 */
function settleLimits(
  { budget, charge, lease, accountSlot }: RequestContext,
  { ending, use, money }: SettledEnding,
): void {
  if (!ending.isServed) {
    lease?.settle(NO_AMOUNTS);
    return;
  }
  const { tokens, isCounted } = use;
  const isPriced = isCounted || tokens.images > 0 || charge !== null;
  // If the row does not know the cost, the reservation for the longest output shrinks to that of a usual one.
  const unknownNano = budget === null ? null : Number(likelyCost(budget));
  const counts = measureCounts(isCounted ? tokens : null, isPriced ? Number(money.costNano) : unknownNano);
  lease?.settle(counts);
  if (isCounted) accountSlot?.settle(counts);
}

function settlePaid(
  services: SettlementServices,
  context: PaidRequest,
  metered: MeteredEnding,
): Promise<void> | null {
  judgeReport(services, context, metered);
  const money = computeMoney(services, context, metered);
  const row = recordUse(services, context, { ...metered, money });
  const settled = services.rejections.addToCounted(row) ? withoutUsageRow(row) : row;
  const startedMs = services.clock.monotonicMs();
  const settlement = services.billingEngine.settle({ row: settled, chargedNano: money.chargedNano });
  if (settlement === null) recordSettlement(services, startedMs);
  else void settlement.then(() => recordSettlement(services, startedMs), ignoreFailure);
  return settlement;
}

function recordSettlement({ requestMetrics, clock }: SettlementServices, startedMs: number): void {
  requestMetrics.settlements.add((clock.monotonicMs() - startedMs) / 1_000);
}

/** The caller of the settlement handles its failure. */
function ignoreFailure(): void {}

/** What a report shows about its account, and about later requests for the model. */
function judgeReport(
  services: SettlementServices,
  context: PaidRequest,
  { ending, use }: MeteredEnding,
): void {
  const { request } = context;
  const isReported = use.source === "upstream";
  // An account that searched more than is paid for may not even know the limit.
  const isHonest = use.unpaidSearches > 0;
  if (use.flags.includes("clamped") && !isHonest) penalizeAccount(services, context);
  else if (isReported && isTextAlone(request)) {
    const { textBytes } = request.inputContents();
    const { media } = request.inputSize();
    services.estimates.learn(request.publicModel, { textBytes, media }, use.tokens.inputTokens);
  }
  if (isReported && !use.isImplausible)
    learnReasoning(services.reasoning, context, { ending, measured: use });
}

/** An account that reports implausible usage is used less, and cools down after a few of them. */
function penalizeAccount({ log, dispatcher }: SettlementServices, { call, trace }: RequestContext): void {
  log.warn("impossible_usage", {
    request_id: call.requestId,
    ...traceLogId(trace),
    account_id: trace.route?.account.id ?? null,
  });
  if (trace.route !== null)
    dispatcher.pool.recordBrokenStream(trace.route, upstreamFailure("bad_answer", "absurd usage"));
}
