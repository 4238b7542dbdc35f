/**
 * Settles a request: its use becomes one usage row and, if it is paid, one settlement, exactly once. A paying client
 * receives the end of its response only after the settlement.
 */

import { upstreamFailure } from "../../accounts/failure.ts";
import type { Clock } from "../../base/clock.ts";
import { isPending, type MaybePromise } from "../../base/maybe-promise.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import { type RejectionRows, withoutUsageRow } from "../../billing/engine/rejection-rows.ts";
import { NO_AMOUNTS } from "../../limits/amounts.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import type { Pool } from "../../pool/pool.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import { likelyCost } from "../charging/window-budget.ts";
import type { InputCounter } from "../metering/count-input.ts";
import type { InputEstimates } from "../metering/input-estimate.ts";
import { isTextAlone } from "../metering/input-range.ts";
import { measureCounts } from "../metering/limited-use.ts";
import {
  asBounded,
  asReported,
  estimatedInput,
  type MeasuredUsage,
  measure,
  reportsAll,
} from "../metering/meter.ts";
import type { ReasoningEstimates } from "../metering/reasoning-estimate.ts";
import { boundReport, countUnpaidSearches } from "../metering/usage-bounds.ts";
import { traceLogId } from "../request/log-ids.ts";
import type { BatchedWork } from "../request/trace.ts";
import {
  type AuthenticatedRequest,
  isAuthenticated,
  isPaid,
  isRead,
  type PaidRequest,
  type ReadRequest,
  type RequestContext,
} from "../request-context.ts";
import { buildUsageRow, type MeasuredUse, type SettledUse } from "./build-usage-row.ts";
import { computeMoney, computeUnpaidMoney, estimateInput } from "./compute-money.ts";
import { type RecordingServices, recordRequest } from "./record-request.ts";
import type { RequestEnding } from "./request-ending.ts";
import { exportUnauthenticatedSpan } from "./request-spans.ts";
import { learnReasoning, withRequestedImages, withUnseenReasoning } from "./unseen-output.ts";

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
  if (isPaid(context)) return settlePaid(services, context, ending);
  if (isRead(context) && isUnreported(context, ending)) return settleUnreported(services, context, ending);
  // Without a valid key nothing is written: otherwise strangers could fill the database.
  if (!isAuthenticated(context)) {
    if (services.tracer !== null)
      exportUnauthenticatedSpan(services.tracer, context, { ending, ...services });
    return null;
  }
  pushRow(services, context, { ending, measured: readReportedUsage(context, ending) });
  return null;
}

/** Use that the upstream did not report is counted, or estimated from its length. */
function settleUnreported(
  services: SettlementServices,
  context: ReadRequest,
  ending: RequestEnding,
): Promise<void> | null {
  if (hasNoTokenCount(context, ending)) {
    // Clients disconnect often, and counting their input would cost more than it is worth.
    const measured = estimatedInput(estimateInput(services, context), 0, "partial");
    pushRow(services, context, { ending, measured });
    return null;
  }
  const measured = measureUsage(services, context, ending);
  if (isPending(measured)) {
    return measured.then((counted) => pushRow(services, context, { ending, measured: counted }));
  }
  pushRow(services, context, { ending, measured });
  return null;
}

/** Writes the usage row of an unpaid request. */
function pushRow(services: SettlementServices, context: AuthenticatedRequest, use: MeasuredUse): void {
  const row = recordUse(services, context, { ...use, money: computeUnpaidMoney(services, context, use) });
  if (!services.rejections.addToCounted(row)) services.billingEngine.push(row);
}

/** Records the use for operators and settles the limits to it. */
function recordUse(services: SettlementServices, context: AuthenticatedRequest, use: SettledUse): UsageRow {
  const row = buildUsageRow(context, use, services.clock);
  recordRequest(services, context, { row, ending: use.ending });
  settleLimits(context, use);
  return row;
}

/** The request was served, and a background response may still report the rest of its use. */
function isUnreported(
  { endpoint }: RequestContext,
  { isServed, outcome, usage, images }: RequestEnding,
): boolean {
  if (!isServed || outcome === "pending" || endpoint.output === "count") return false;
  return !reportsAll(usage, images);
}

/** The request is unpaid, ended early, and its stream was not counted. */
function hasNoTokenCount(
  { charge }: RequestContext,
  { outcome, usage, images, countOutput, batchedWork = null }: RequestEnding,
): boolean {
  if (batchedWork !== null) return false;
  return charge === null && isInterrupted(outcome) && usage === null && images === 0 && countOutput === null;
}

function isInterrupted(outcome: RequestEnding["outcome"]): boolean {
  return outcome === "client_gone" || outcome === "upstream_cut";
}

/**
 * Settles the windows of the caller and of the account to the usage row, because a later process seeds its windows from
 * the rows. The estimate remains if the row has no reliable count: an implausible count must not use up a window, and a
 * stream that was not counted must not be free.
 */
function settleLimits(context: RequestContext, { ending, measured, money }: SettledUse): void {
  const { charge, lease, accountSlot, request } = context;
  if (!ending.isServed) {
    lease?.settle(NO_AMOUNTS);
    return;
  }
  const { tokens, source, isImplausible } = measured;
  const isCounted =
    source !== "none" && !isImplausible && !(request?.stream === true && hasNoTokenCount(context, ending));
  const isPriced = isCounted || tokens.images > 0 || charge !== null;
  // If the row does not know the cost, the reservation for the longest output shrinks to that of a usual one.
  const unknownNano = context.budget === null ? null : Number(likelyCost(context.budget));
  const use = measureCounts(isCounted ? tokens : null, isPriced ? Number(money.costNano) : unknownNano);
  lease?.settle(use);
  if (isCounted) accountSlot?.settle(use);
}

function readReportedUsage(context: AuthenticatedRequest, ending: RequestEnding): MeasuredUsage {
  const { usage, images } = ending;
  if (usage === null || !isRead(context)) return asReported(usage, images);
  return asBounded(boundReport(context, ending));
}

function settlePaid(
  services: SettlementServices,
  context: PaidRequest,
  ending: RequestEnding,
): Promise<void> | null {
  services.requestMetrics.heldNano -= Number(context.charge.heldNano);
  const measured = ending.isServed
    ? measureUsage(services, context, withRequestedImages(context, ending))
    : asReported(null, 0);
  // A request that needs no counting is settled synchronously, while its limits are still held.
  if (!isPending(measured)) return settleMeasured(services, context, { ending, measured });
  return measured.then(async (counted) => {
    const whole = withUnseenReasoning(services.reasoning, context, { ending, measured: counted });
    await settleMeasured(services, context, { ending, measured: whole });
  });
}

function settleMeasured(
  services: SettlementServices,
  context: PaidRequest,
  { ending, measured }: MeasuredUse,
): Promise<void> | null {
  const { request } = context;
  // An account that searched more than is paid for may not even know the limit.
  const isHonest = !measured.isImplausible && countUnpaidSearches(ending.usage, measured.tokens) > 0;
  if (measured.flags.includes("clamped") && !isHonest) penalizeAccount(services, context);
  else if (measured.source === "upstream" && isTextAlone(request)) {
    const { textBytes } = request.inputReach();
    const { media } = request.inputSize();
    services.estimates.learn(request.publicModel, { textBytes, media }, measured.tokens.inputTokens);
  }
  if (measured.source === "upstream" && !measured.isImplausible) {
    learnReasoning(services.reasoning, context, { ending, measured });
  }
  const money = computeMoney(services, context, { measured, ending });
  const row = recordUse(services, context, { ending, measured, money });
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

/** The request failed, but some of its batches did not. */
function measureBatchedWork(context: ReadRequest, { usage, countedTokens }: BatchedWork): MeasuredUsage {
  if (countedTokens === 0) return asBounded(boundReport(context, { usage, images: 0 }));
  return estimatedInput((usage?.inputTokens ?? 0) + countedTokens, 0, "partial");
}

/** Returns a promise only if something must be counted. */
function measureUsage(
  services: SettlementServices,
  context: ReadRequest,
  ending: RequestEnding,
): MaybePromise<MeasuredUsage> {
  const { images, batchedWork = null } = ending;
  const { endpoint, request, caller } = context;
  if (batchedWork !== null) return measureBatchedWork(context, batchedWork);
  const measured = measure(context, ending, () =>
    services.inputCounter.countRequest({ request, output: endpoint.output, owner: caller.key.id }),
  );
  if (!isPending(measured)) return measured;
  return measured.catch((error: unknown) => {
    // A failed count must neither leave the hold open nor lose the usage row.
    const reason = error instanceof Error ? error.message : "unknown";
    const { call, trace } = context;
    services.log.error("count_failed", { request_id: call.requestId, ...traceLogId(trace), reason });
    return estimatedInput(estimateInput(services, context), images);
  });
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
