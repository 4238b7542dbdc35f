/**
 * Settles a request: its use becomes one usage row and, if it is paid, one settlement, exactly once. A paying client
 * receives the end of its response only after the settlement.
 */

import { upstreamFailure } from "../../accounts/failure.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import { withoutRow } from "../../billing/engine/refusal-rows.ts";
import type { Nano } from "../../money/nano.ts";
import {
  type Costs,
  computeListCost,
  computeTariffCosts,
  NO_COSTS,
  NOTHING_USED,
  type Tariff,
} from "../../money/tariff.ts";
import { countTraffic } from "../../observe/traffic.ts";
import type { Pool } from "../../pool/pool.ts";
import { resolveImageKind } from "../../protocols/shared/image-kind.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import {
  NO_MONEY,
  storableCost,
  type UsageFlag,
  type UsageMoney,
  type UsageRow,
} from "../../store/usage/usage-row.ts";
import type { RequestCharge } from "../charging/charge.ts";
import { likelyCost } from "../charging/window-budget.ts";
import type { Gateway } from "../gateway.ts";
import { isTextAlone } from "../metering/input-range.ts";
import {
  asReported,
  estimatedInput,
  implausibleUsage,
  isCredible,
  type MeasuredUsage,
  type MeteredModel,
  measure,
  reportsAll,
} from "../metering/meter.ts";
import type { Trace } from "../request/trace.ts";
import {
  type AuthenticatedRecord,
  buildUsageRow,
  isAuthenticated,
  isPaid,
  isRead,
  type PaidRecord,
  type ReadRecord,
  type RequestEnding,
  type RequestRecord,
} from "../request-record.ts";
import { learnReasoning, withRequestedImages, withUnseenReasoning } from "./unseen-output.ts";

/** The part of the gateway that settlement needs. */
export type SettlementContext = Pick<
  Gateway,
  "clock" | "log" | "estimates" | "reasoning" | "traffic" | "requestCounts" | "refusals"
> & {
  till: Pick<BillingEngine, "push" | "settle">;
  dispatcher: { pool: Pick<Pool, "brokeOff"> };
};

const NO_MODEL: MeteredModel = { contextTokens: null, outputTokensMax: null, tariff: null };

/** Returns null if there is nothing to wait for. Only the first call for a record has an effect. */
export function settleRequest(
  gateway: SettlementContext,
  record: RequestRecord,
  ending: RequestEnding,
): Promise<void> | null {
  if (record.isClosed) return null;
  record.isClosed = true;
  // Without a valid key nothing is written: otherwise strangers could fill the database.
  if (!isAuthenticated(record)) return null;
  if (isRead(record)) {
    if (isPaid(record)) return settlePaid(gateway, record, ending);
    if (isUnreported(record, ending)) return settleUnreported(gateway, record, ending);
  }
  pushRow(gateway, record, ending, readReportedUsage(record, ending));
  return null;
}

/** Use that the upstream did not report is counted, or estimated from its length. */
function settleUnreported(
  gateway: SettlementContext,
  record: ReadRecord,
  ending: RequestEnding,
): Promise<void> | null {
  const { request } = record;
  const inputTokens = () => gateway.estimates.estimate(request.publicModel, request.inputSize());
  if (hasNoTokenCount(record, ending)) {
    // Clients disconnect often, and counting their input would cost more than it is worth.
    pushRow(gateway, record, ending, estimatedInput(inputTokens(), 0, "partial"));
    return null;
  }
  const measured = measureUsage(gateway, record, ending, inputTokens);
  if (measured instanceof Promise) {
    return measured.then((counted) => pushRow(gateway, record, ending, counted));
  }
  pushRow(gateway, record, ending, measured);
  return null;
}

/** Writes the usage row of an unpaid request. */
function pushRow(
  gateway: SettlementContext,
  record: AuthenticatedRecord,
  ending: RequestEnding,
  measured: MeasuredUsage,
): void {
  const money = computeUnpaidMoney(gateway, record, measured, ending);
  const row = buildUsageRow(record, ending, measured, money, gateway.clock);
  countRequest(gateway, record, row);
  settleLimits(record, ending, measured, money);
  if (!gateway.refusals.fold(row)) gateway.till.push(row);
}

function countRequest(
  { traffic, requestCounts }: SettlementContext,
  { model }: RequestRecord,
  row: UsageRow,
): void {
  countTraffic(traffic, row);
  requestCounts.add(row, model !== null);
}

/**
 * The request was served, and the upstream has not reported all of its use. A background response may still report it.
 */
function isUnreported(
  { endpoint }: RequestRecord,
  { isServed, outcome, usage, images }: RequestEnding,
): boolean {
  if (!isServed || outcome === "pending" || endpoint.name === "responses.input_tokens") return false;
  return !reportsAll(usage, images);
}

/** The request is unpaid, ended early, and its stream was not counted. */
function hasNoTokenCount(
  { charge }: RequestRecord,
  { outcome, usage, images, countOutput }: RequestEnding,
): boolean {
  return charge === null && brokeOff(outcome) && usage === null && images === 0 && countOutput === null;
}

function brokeOff(outcome: RequestEnding["outcome"]): boolean {
  return outcome === "client_gone" || outcome === "upstream_cut";
}

/**
 * Settles the windows of the caller and of the account to the usage row, because a later process seeds its windows from
 * the rows. The estimate remains if the row has no reliable count: an implausible count must not use up a window, and a
 * stream that was not counted must not be free. (Streams that use windows which outlive the process are always
 * counted.)
 */
function settleLimits(
  record: RequestRecord,
  ending: RequestEnding,
  { tokens, source, isAbsurd }: MeasuredUsage,
  { costNano }: UsageMoney,
): void {
  if (!ending.isServed) return;
  const { charge, lease, place, request } = record;
  const isCounted =
    source !== "none" && !isAbsurd && !(request?.stream === true && hasNoTokenCount(record, ending));
  const used = isCounted ? tokens.inputTokens + tokens.outputTokens : null;
  const isPriced = isCounted || tokens.images > 0 || charge !== null;
  // If the row does not know the cost, the reservation for the longest output shrinks to that of a usual one.
  const unknownNano = record.budget === null ? null : Number(likelyCost(record.budget));
  lease?.settle(used, isPriced ? Number(costNano) : unknownNano);
  if (used !== null) place?.settle(used);
}

function readReportedUsage(
  { endpoint, model, request }: RequestRecord,
  { usage, images }: RequestEnding,
): MeasuredUsage {
  const isPlausible =
    usage === null || request === null || isCredible(usage, endpoint.name, request, model ?? NO_MODEL);
  return isPlausible ? asReported(usage, images) : implausibleUsage(images);
}

function settlePaid(
  gateway: SettlementContext,
  record: PaidRecord,
  ending: RequestEnding,
): Promise<void> | null {
  const measured = ending.isServed
    ? measureUsage(gateway, record, withRequestedImages(record, ending), () => record.charge.inputTokens)
    : asReported(null, 0);
  // A request that needs no counting is settled synchronously, while its limits are still held.
  if (!(measured instanceof Promise)) return settleMeasured(gateway, record, ending, measured);
  return measured.then(async (counted) => {
    await settleMeasured(
      gateway,
      record,
      ending,
      withUnseenReasoning(gateway.reasoning, record, ending, counted),
    );
  });
}

function settleMeasured(
  gateway: SettlementContext,
  record: PaidRecord,
  ending: RequestEnding,
  measured: MeasuredUsage,
): Promise<void> | null {
  const { request } = record;
  if (measured.isAbsurd) penalizeAccount(gateway, record);
  else if (measured.source === "upstream" && isTextAlone(request)) {
    const { textBytes } = request.inputReach();
    const { media } = request.inputSize();
    gateway.estimates.learn(request.publicModel, { textBytes, media }, measured.tokens.inputTokens);
  }
  if (measured.source === "upstream" && !measured.isAbsurd) {
    learnReasoning(gateway.reasoning, record, ending, measured);
  }
  const money = computeMoney(record, measured, ending);
  const row = buildUsageRow(record, ending, measured, money, gateway.clock);
  countRequest(gateway, record, row);
  settleLimits(record, ending, measured, money);
  const settled = gateway.refusals.fold(row) ? withoutRow(row) : row;
  return gateway.till.settle({ row: settled, chargedNano: money.chargedNano });
}

/** Returns a promise only if something must be counted. */
function measureUsage(
  { log }: SettlementContext,
  { call, endpoint, model, request }: ReadRecord,
  ending: RequestEnding,
  inputTokens: () => number,
): MeasuredUsage | Promise<MeasuredUsage> {
  const { usage, images, isWhole, countOutput } = ending;
  const evidence = { usage, images, imageKind: readImageKind(request, ending), isWhole, countOutput };
  const measured = measure(evidence, endpoint.name, request, model ?? NO_MODEL);
  if (!(measured instanceof Promise)) return measured;
  return measured.catch((error: unknown) => {
    // A failed count must neither leave the hold open nor lose the usage row.
    const reason = error instanceof Error ? error.message : "unknown";
    log.error("count_failed", { request_id: call.requestId, reason });
    return estimatedInput(inputTokens(), images);
  });
}

/** Size and quality of the generated images. */
function readImageKind(request: ModelRequest, { imageKind }: RequestEnding): string | null {
  return resolveImageKind(request.imageKind, imageKind);
}

function computeMoney(record: PaidRecord, measured: MeasuredUsage, ending: RequestEnding): UsageMoney {
  const { charge, request } = record;
  const { tariff, heldNano, payer } = charge;
  const wastedNano = computeWastedCost(record, tariff, () => charge.inputTokens);
  const { costNano, listNano } = ending.isServed
    ? computeCosts(charge, measured, readImageKind(request, ending))
    : NO_COSTS;
  const isOverrun = costNano > heldNano;
  return {
    costNano,
    // The whole cost, even above the hold. The part that the payer cannot pay becomes a debt (billing/engine/debt.ts).
    chargedNano: isOverrun ? storableCost(costNano, heldNano) : costNano,
    upstreamNano: listNano + wastedNano,
    payer,
    tariffId: tariff.id,
    flags: computeFlags(measured, charge.isCapped || record.windowCap !== null, isOverrun),
  };
}

/** If the reported usage is implausible, the estimated maximum is charged and no more. */
function computeCosts(
  { tariff, doubtNano }: RequestCharge,
  { tokens, isAbsurd }: MeasuredUsage,
  imageKind: string | null,
): Costs {
  return isAbsurd
    ? { costNano: doubtNano, listNano: doubtNano }
    : computeTariffCosts(tariff, tokens, imageKind);
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
  "unstreamed",
]);

/** The number of failed attempts that an upstream may have processed. */
export function countWastedAttempts({ attempts }: Trace): number {
  let count = 0;
  for (const { failure } of attempts) if (failure !== null && MAY_BE_CHARGED.has(failure)) count++;
  return count;
}

/** What upstreams will bill for failed attempts: the reported usage, or the input if they may have processed it. */
function computeWastedCost(
  { endpoint, model, request, trace }: ReadRecord,
  tariff: Tariff,
  inputTokens: () => number,
): Nano {
  let nano = 0n;
  for (const { failure, usage } of trace.attempts) {
    if (failure === null) continue;
    if (usage !== undefined && isCredible(usage, endpoint.name, request, model ?? NO_MODEL)) {
      nano += computeListCost(tariff, { ...NOTHING_USED, ...usage });
    } else if (MAY_BE_CHARGED.has(failure)) {
      nano += computeListCost(tariff, { ...NOTHING_USED, inputTokens: inputTokens() });
    }
  }
  return nano;
}

/** The cost of an unpaid request, for USD windows and reports. */
function computeUnpaidMoney(
  { estimates }: Pick<Gateway, "estimates">,
  record: AuthenticatedRecord,
  measured: MeasuredUsage,
  ending: RequestEnding,
): UsageMoney {
  const { tokens, source, isAbsurd } = measured;
  const flags = computeFlags(measured, record.windowCap !== null && ending.isServed, false);
  const tariff = record.model?.tariff ?? null;
  if (tariff === null || !isRead(record)) return { ...NO_MONEY, flags };
  const { request } = record;
  const wastedNano = computeWastedCost(record, tariff, () =>
    estimates.estimate(request.publicModel, request.inputSize()),
  );
  // No hold was taken, so an implausible usage costs nothing.
  const hasCost = !isAbsurd && (source !== "none" || tokens.images > 0);
  if (!hasCost) return { ...NO_MONEY, upstreamNano: wastedNano, flags };
  const { costNano, listNano } = computeTariffCosts(tariff, tokens, readImageKind(request, ending));
  const upstreamNano = listNano + wastedNano;
  return { costNano, chargedNano: 0n, upstreamNano, payer: null, tariffId: null, flags };
}

/** An account that reports implausible usage is used less, and cools down after a few of them. */
function penalizeAccount({ log, dispatcher }: SettlementContext, { call, trace }: RequestRecord): void {
  log.warn("absurd_usage", { request_id: call.requestId, account_id: trace.route?.account.id ?? null });
  if (trace.route !== null)
    dispatcher.pool.brokeOff(trace.route, upstreamFailure("bad_answer", "absurd usage"));
}
