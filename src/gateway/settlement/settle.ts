/**
 * The end of a request: what it used becomes one row and, where somebody pays, one booking, exactly once. A client that
 * pays sees the end of its answer only when it is booked.
 */

import { upstreamFailure } from "../../accounts/failure.ts";
import type { BillingEngine } from "../../billing/engine/direct-billing.ts";
import { withoutRow } from "../../billing/engine/refusal-rows.ts";
import type { Nano } from "../../money/nano.ts";
import { type Costs, costsOf, listCostOf, NO_COSTS, NOTHING_USED, type Tariff } from "../../money/tariff.ts";
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
import type { Charge } from "../charging/charge.ts";
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
import { learnReasoning, withPicturesAskedFor, withUnseenReasoning } from "./unseen-output.ts";

/** As much of the gateway as the end of a request needs. */
export type SettlementContext = Pick<
  Gateway,
  "clock" | "log" | "estimates" | "reasoning" | "traffic" | "requestCounts" | "refusals"
> & {
  till: Pick<BillingEngine, "push" | "settle">;
  dispatcher: { pool: Pick<Pool, "brokeOff"> };
};

const NO_MODEL: MeteredModel = { contextTokens: null, outputTokensMax: null, tariff: null };

/** Null when there is nothing to wait for. Only the first call for a record does anything. */
export function settleRequest(
  gateway: SettlementContext,
  record: RequestRecord,
  ending: RequestEnding,
): Promise<void> | null {
  if (record.isClosed) return null;
  record.isClosed = true;
  // Without a key nothing is written: anybody could fill the store.
  if (!isAuthenticated(record)) return null;
  if (isRead(record)) {
    if (isPaid(record)) return settlePaid(gateway, record, ending);
    if (isUntold(record, ending)) return settleUntold(gateway, record, ending);
  }
  pushRow(gateway, record, ending, toldOf(record, ending));
  return null;
}

/** What the upstream did not report is counted, or estimated from its length. */
function settleUntold(
  gateway: SettlementContext,
  record: ReadRecord,
  ending: RequestEnding,
): Promise<void> | null {
  const { request } = record;
  const inputTokens = () => gateway.estimates.estimate(request.publicModel, request.inputSize());
  if (hasNoTokenCount(record, ending)) {
    // Clients leave all the time: counting what they sent would cost more than it is worth.
    pushRow(gateway, record, ending, estimatedInput(inputTokens(), 0, "partial"));
    return null;
  }
  const measured = measuredBy(gateway, record, ending, inputTokens);
  if (measured instanceof Promise) {
    return measured.then((counted) => pushRow(gateway, record, ending, counted));
  }
  pushRow(gateway, record, ending, measured);
  return null;
}

/** The row of a request that nobody pays for. */
function pushRow(
  gateway: SettlementContext,
  record: AuthenticatedRecord,
  ending: RequestEnding,
  measured: MeasuredUsage,
): void {
  const money = uncharged(gateway, record, measured, ending);
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

/** It was served, and its upstream has not reported all that it used. One that goes on in the background still may. */
function isUntold({ endpoint }: RequestRecord, { isServed, outcome, usage, images }: RequestEnding): boolean {
  if (!isServed || outcome === "pending" || endpoint.name === "responses.input_tokens") return false;
  return !reportsAll(usage, images);
}

/** Nobody pays for it, it ended early, and what was streamed until then was not counted on the way. */
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
 * The windows of its caller and its account are settled to what the row says: a later process seeds them from the rows.
 * The estimate stays where the row does not know: a count that cannot be true must not use up a window, and a stream
 * that was not counted must not be free. (Streams that fill windows which outlive the process are always counted.)
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
  // Of what was reserved for the longest answer, an ordinary one stays where the row does not know the cost.
  const unknownNano = record.budget === null ? null : Number(likelyCost(record.budget));
  lease?.settle(used, isPriced ? Number(costNano) : unknownNano);
  if (used !== null) place?.settle(used);
}

function toldOf(
  { endpoint, model, request }: RequestRecord,
  { usage, images }: RequestEnding,
): MeasuredUsage {
  const isBelieved =
    usage === null || request === null || isCredible(usage, endpoint.name, request, model ?? NO_MODEL);
  return isBelieved ? asReported(usage, images) : implausibleUsage(images);
}

function settlePaid(
  gateway: SettlementContext,
  record: PaidRecord,
  ending: RequestEnding,
): Promise<void> | null {
  const measured = ending.isServed
    ? measuredBy(gateway, record, withPicturesAskedFor(record, ending), () => record.charge.inputTokens)
    : asReported(null, 0);
  // What needs no counting is settled at once: its limits are still held.
  if (!(measured instanceof Promise)) return book(gateway, record, ending, measured);
  return measured.then(async (counted) => {
    await book(gateway, record, ending, withUnseenReasoning(gateway.reasoning, record, ending, counted));
  });
}

function book(
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
  const money = moneyOf(record, measured, ending);
  const row = buildUsageRow(record, ending, measured, money, gateway.clock);
  countRequest(gateway, record, row);
  settleLimits(record, ending, measured, money);
  const settled = gateway.refusals.fold(row) ? withoutRow(row) : row;
  return gateway.till.settle({ row: settled, chargedNano: money.chargedNano });
}

/** A promise only where something has to be counted. */
function measuredBy(
  { log }: SettlementContext,
  { call, endpoint, model, request }: ReadRecord,
  ending: RequestEnding,
  inputTokens: () => number,
): MeasuredUsage | Promise<MeasuredUsage> {
  const { usage, images, isWhole, countOutput } = ending;
  const evidence = { usage, images, imageKind: kindOf(request, ending), isWhole, countOutput };
  const measured = measure(evidence, endpoint.name, request, model ?? NO_MODEL);
  if (!(measured instanceof Promise)) return measured;
  return measured.catch((error: unknown) => {
    // A count that fails must neither leave the money held nor lose the row.
    const reason = error instanceof Error ? error.message : "unknown";
    log.error("count_failed", { request_id: call.requestId, reason });
    return estimatedInput(inputTokens(), images);
  });
}

/** Size and quality of the pictures that were drawn. */
function kindOf(request: ModelRequest, { imageKind }: RequestEnding): string | null {
  return resolveImageKind(request.imageKind, imageKind);
}

function moneyOf(record: PaidRecord, measured: MeasuredUsage, ending: RequestEnding): UsageMoney {
  const { charge, request } = record;
  const { tariff, heldNano, payer } = charge;
  const wastedNano = wastedBy(record, tariff, () => charge.inputTokens);
  const { costNano, listNano } = ending.isServed
    ? costsFor(charge, measured, kindOf(request, ending))
    : NO_COSTS;
  const isOverrun = costNano > heldNano;
  return {
    costNano,
    // The whole cost, above the hold too: what the payer has not got becomes a debt (billing/engine/debt.ts).
    chargedNano: isOverrun ? storableCost(costNano, heldNano) : costNano,
    upstreamNano: listNano + wastedNano,
    payer,
    tariffId: tariff.id,
    flags: flagsOf(measured, charge.isCapped || record.windowCap !== null, isOverrun),
  };
}

/** Where the count cannot be true, the most that the request was expected to cost is charged, and no more. */
function costsFor(
  { tariff, doubtNano }: Charge,
  { tokens, isAbsurd }: MeasuredUsage,
  imageKind: string | null,
): Costs {
  return isAbsurd ? { costNano: doubtNano, listNano: doubtNano } : costsOf(tariff, tokens, imageKind);
}

function flagsOf({ flags }: MeasuredUsage, isCapped: boolean, isOverrun: boolean): readonly UsageFlag[] {
  if (!isCapped && !isOverrun) return flags;
  const all: UsageFlag[] = [...flags];
  if (isCapped) all.push("capped");
  if (isOverrun) all.push("overrun");
  return all;
}

/** Failures after which an upstream may have done the work, and will bill it: the input at least. */
const MAY_BE_CHARGED: ReadonlySet<string> = new Set([
  "timeout",
  "reset",
  "bad_answer",
  "too_large",
  "unstreamed",
]);

/** How many failed attempts an upstream may have worked on. */
export function countWastedAttempts({ attempts }: Trace): number {
  let count = 0;
  for (const { failure } of attempts) if (failure !== null && MAY_BE_CHARGED.has(failure)) count++;
  return count;
}

/** What upstreams will bill for attempts that failed: what they reported, or the input where they may have worked. */
function wastedBy(
  { endpoint, model, request, trace }: ReadRecord,
  tariff: Tariff,
  inputTokens: () => number,
): Nano {
  let nano = 0n;
  for (const { failure, usage } of trace.attempts) {
    if (failure === null) continue;
    if (usage !== undefined && isCredible(usage, endpoint.name, request, model ?? NO_MODEL)) {
      nano += listCostOf(tariff, { ...NOTHING_USED, ...usage });
    } else if (MAY_BE_CHARGED.has(failure)) {
      nano += listCostOf(tariff, { ...NOTHING_USED, inputTokens: inputTokens() });
    }
  }
  return nano;
}

/** What it would have cost: for windows of money and for reports. */
function uncharged(
  { estimates }: Pick<Gateway, "estimates">,
  record: AuthenticatedRecord,
  measured: MeasuredUsage,
  ending: RequestEnding,
): UsageMoney {
  const { tokens, source, isAbsurd } = measured;
  const flags = flagsOf(measured, record.windowCap !== null && ending.isServed, false);
  const tariff = record.model?.tariff ?? null;
  if (tariff === null || !isRead(record)) return { ...NO_MONEY, flags };
  const { request } = record;
  const wastedNano = wastedBy(record, tariff, () =>
    estimates.estimate(request.publicModel, request.inputSize()),
  );
  // Nothing was held for it, so a count that cannot be true costs nothing.
  const hasCost = !isAbsurd && (source !== "none" || tokens.images > 0);
  if (!hasCost) return { ...NO_MONEY, upstreamNano: wastedNano, flags };
  const { costNano, listNano } = costsOf(tariff, tokens, kindOf(request, ending));
  const upstreamNano = listNano + wastedNano;
  return { costNano, chargedNano: 0n, upstreamNano, payer: null, tariffId: null, flags };
}

/** An account that reports counts which cannot be true is used less, and after a few of them not at all for a while. */
function penalizeAccount({ log, dispatcher }: SettlementContext, { call, trace }: RequestRecord): void {
  log.warn("absurd_usage", { request_id: call.requestId, account_id: trace.route?.account.id ?? null });
  if (trace.route !== null)
    dispatcher.pool.brokeOff(trace.route, upstreamFailure("bad_answer", "absurd usage"));
}
