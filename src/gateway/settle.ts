/**
 * The end of a request: what it used becomes one row and, where somebody pays, one booking, exactly once. Whoever
 * pays is told the end only when it is booked.
 */

import type { Till } from "../billing/till.ts";
import { drawnKind } from "../interfaces/image-kind.ts";
import type { ModelRequest } from "../interfaces/request.ts";
import { isTextAlone } from "../metering/input-range.ts";
import type { Nano } from "../money/nano.ts";
import { type Costs, costsOf, listCostOf, NO_COSTS, NOTHING_USED, type Tariff } from "../money/tariff.ts";
import { countTraffic } from "../observe/traffic.ts";
import type { Pool } from "../pool/pool.ts";
import { NO_MONEY, type UsageFlag, type UsageMoney, type UsageRow } from "../store/usage-row.ts";
import { failed } from "../upstreams/failure.ts";
import type { Caller } from "./authenticate.ts";
import type { Charge } from "./charge.ts";
import type { Gateway } from "./gateway.ts";
import {
  asTold,
  estimatedInput,
  isCredible,
  type Measured,
  type MeteredModel,
  measure,
  notBelieved,
  tellsAll,
} from "./meter.ts";
import { type CallRecord, type Ending, rowOf } from "./record.ts";
import type { Trace } from "./trace.ts";

/** What of the gateway an end concerns. */
export type Books = Pick<Gateway, "clock" | "log" | "estimates" | "traffic" | "requestCounts"> & {
  till: Pick<Till, "push" | "settle">;
  dispatcher: { pool: Pick<Pool, "brokeOff"> };
};

const NO_MODEL: MeteredModel = { contextTokens: null, outputTokensMax: null, tariff: null };

/** Null when there is nothing to wait for. The first call counts, later ones do nothing. */
export function settle(gateway: Books, record: CallRecord, ending: Ending): Promise<void> | null {
  if (record.isClosed) return null;
  record.isClosed = true;
  const { caller, charge, request } = record;
  // Whoever has no key has no record either: it could be filled by anyone.
  if (caller === null) return null;
  if (charge !== null && request !== null) return book(gateway, record, caller, request, charge, ending);
  if (request === null || !isUntold(record, ending)) {
    write(gateway, record, caller, ending, toldOf(record, ending));
    return null;
  }
  return settleUntold(gateway, record, caller, request, ending);
}

/** What its upstream did not tell is counted, or judged by its length. */
function settleUntold(
  gateway: Books,
  record: CallRecord,
  caller: Caller,
  request: ModelRequest,
  ending: Ending,
): Promise<void> | null {
  const inputTokens = () => gateway.estimates.estimate(request.publicModel, request.inputSize());
  if (isUnheard(record, ending)) {
    // Clients leave all the time: to count what they sent would cost more than it tells.
    write(gateway, record, caller, ending, estimatedInput(inputTokens(), 0, "partial"));
    return null;
  }
  const measured = measuredBy(gateway, record, request, inputTokens, ending);
  if (measured instanceof Promise) {
    return measured.then((counted) => write(gateway, record, caller, ending, counted));
  }
  write(gateway, record, caller, ending, measured);
  return null;
}

/** A row that nobody pays for. */
function write(gateway: Books, record: CallRecord, caller: Caller, ending: Ending, measured: Measured): void {
  const money = uncharged(gateway, record, measured, ending);
  const row = rowOf(record, caller, ending, measured, money, gateway.clock);
  countRequest(gateway, record, row);
  settleLimits(record, ending, measured, money);
  gateway.till.push(row);
}

function countRequest({ traffic, requestCounts }: Books, { model }: CallRecord, row: UsageRow): void {
  countTraffic(traffic, row);
  requestCounts.add(row, model !== null);
}

/** Served, and its upstream has not told all of what it used. What goes on upstream may still tell. */
function isUntold({ endpoint }: CallRecord, { isServed, outcome, usage, images }: Ending): boolean {
  if (!isServed || outcome === "pending" || endpoint.name === "responses.input_tokens") return false;
  return !tellsAll(usage, images);
}

/** It broke off or was left where nobody pays, and what it said until then went by without being counted. */
function isUnheard({ charge }: CallRecord, { outcome, usage, images, countOutput }: Ending): boolean {
  return charge === null && brokeOff(outcome) && usage === null && images === 0 && countOutput === null;
}

function brokeOff(outcome: Ending["outcome"]): boolean {
  return outcome === "client_gone" || outcome === "upstream_cut";
}

/**
 * Its caller's windows and its account's say what the row says, and so does a successor that reads the rows. The
 * estimate stays where the row cannot tell: a count that cannot be true must not use up anybody's window, and a stream
 * that nobody heard must not be free. (Where windows outlive the process, all are heard.)
 */
function settleLimits(
  record: CallRecord,
  ending: Ending,
  { tokens, source, isAbsurd }: Measured,
  { costNano }: UsageMoney,
): void {
  if (!ending.isServed) return;
  const { charge, lease, place, request } = record;
  const isKnown = source !== "none" && !isAbsurd && !(request?.stream === true && isUnheard(record, ending));
  const used = isKnown ? tokens.inputTokens + tokens.outputTokens : null;
  const isPriced = isKnown || tokens.images > 0 || charge !== null;
  lease?.settle(used, isPriced ? Number(costNano) : null);
  if (used !== null) place?.settle(used);
}

function toldOf({ endpoint, model, request }: CallRecord, { usage, images }: Ending): Measured {
  const isBelieved =
    usage === null || request === null || isCredible(usage, endpoint.name, request, model ?? NO_MODEL);
  return isBelieved ? asTold(usage, images) : notBelieved(images);
}

function book(
  gateway: Books,
  record: CallRecord,
  caller: Caller,
  request: ModelRequest,
  charge: Charge,
  ending: Ending,
): Promise<void> | null {
  const measured = ending.isServed
    ? measuredBy(gateway, record, request, () => charge.inputTokens, ending)
    : asTold(null, 0);
  // What needs no counting is settled at once: its limits are still held.
  if (!(measured instanceof Promise)) {
    return bookAs(measured, gateway, record, caller, request, charge, ending);
  }
  return measured.then(async (counted) => {
    await bookAs(counted, gateway, record, caller, request, charge, ending);
  });
}

function bookAs(
  measured: Measured,
  gateway: Books,
  record: CallRecord,
  caller: Caller,
  request: ModelRequest,
  charge: Charge,
  ending: Ending,
): Promise<void> | null {
  if (measured.isAbsurd) blame(gateway, record);
  else if (measured.source === "upstream" && isTextAlone(request)) {
    const { textBytes } = request.inputReach();
    const { media } = request.inputSize();
    gateway.estimates.learn(request.publicModel, { textBytes, media }, measured.tokens.inputTokens);
  }
  const money = moneyOf(record, request, charge, measured, ending);
  const row = rowOf(record, caller, ending, measured, money, gateway.clock);
  countRequest(gateway, record, row);
  settleLimits(record, ending, measured, money);
  return gateway.till.settle({ row, chargedNano: money.chargedNano });
}

/** A promise only where something has to be counted. */
function measuredBy(
  { log }: Books,
  { call, endpoint, model }: CallRecord,
  request: ModelRequest,
  inputTokens: () => number,
  ending: Ending,
): Measured | Promise<Measured> {
  const { usage, images, isWhole, countOutput } = ending;
  const evidence = { usage, images, imageKind: kindOf(request, ending), isWhole, countOutput };
  const measured = measure(evidence, endpoint.name, request, model ?? NO_MODEL);
  if (!(measured instanceof Promise)) return measured;
  return measured.catch((error: unknown) => {
    // Whatever kept us from counting must not keep the money held, nor the row from being written.
    const reason = error instanceof Error ? error.message : "unknown";
    log.error("count_failed", { request_id: call.requestId, reason });
    return estimatedInput(inputTokens(), images);
  });
}

/** Of the pictures that were drawn. */
function kindOf(request: ModelRequest, { imageKind }: Ending): string | null {
  return drawnKind(request.imageKind, imageKind);
}

function moneyOf(
  record: CallRecord,
  request: ModelRequest,
  charge: Charge,
  measured: Measured,
  ending: Ending,
): UsageMoney {
  const { tariff, heldNano, payer } = charge;
  const wastedNano = wastedBy(record, request, tariff, () => charge.inputTokens);
  const { costNano, listNano } = ending.isServed
    ? costsFor(charge, measured, kindOf(request, ending))
    : NO_COSTS;
  const isOverrun = costNano > heldNano;
  return {
    costNano,
    chargedNano: isOverrun ? heldNano : costNano,
    upstreamNano: listNano + wastedNano,
    payer,
    tariffId: tariff.id,
    flags: flagsOf(measured, charge.isCapped, isOverrun),
  };
}

/** A count that cannot be true is worth what the request was expected to cost at most, and no more. */
function costsFor(
  { tariff, doubtNano }: Charge,
  { tokens, isAbsurd }: Measured,
  imageKind: string | null,
): Costs {
  return isAbsurd ? { costNano: doubtNano, listNano: doubtNano } : costsOf(tariff, tokens, imageKind);
}

function flagsOf({ flags }: Measured, isCapped: boolean, isOverrun: boolean): readonly UsageFlag[] {
  if (!isCapped && !isOverrun) return flags;
  const all: UsageFlag[] = [...flags];
  if (isCapped) all.push("capped");
  if (isOverrun) all.push("overrun");
  return all;
}

/** Failures after which an upstream may have done the work, and will ask for it: the input at least. */
const MAY_BE_CHARGED: ReadonlySet<string> = new Set(["timeout", "reset", "bad_answer", "too_large"]);

/** How many failed attempts an upstream may have worked on. */
export function workedInVain({ attempts }: Trace): number {
  let count = 0;
  for (const { failure } of attempts) if (failure !== null && MAY_BE_CHARGED.has(failure)) count++;
  return count;
}

/** What accounts will ask for attempts that failed: as they told it, or for the input where they may have worked. */
function wastedBy(
  { endpoint, model, trace }: CallRecord,
  request: ModelRequest,
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
  record: CallRecord,
  { tokens, flags, source, isAbsurd }: Measured,
  ending: Ending,
): UsageMoney {
  const { model, request } = record;
  const tariff = model?.tariff ?? null;
  if (tariff === null || request === null) return { ...NO_MONEY, flags };
  const wastedNano = wastedBy(record, request, tariff, () =>
    estimates.estimate(request.publicModel, request.inputSize()),
  );
  // A count that cannot be true is worth nothing where nobody holds money.
  const isKnown = !isAbsurd && (source !== "none" || tokens.images > 0);
  if (!isKnown) return { ...NO_MONEY, upstreamNano: wastedNano, flags };
  const { costNano, listNano } = costsOf(tariff, tokens, kindOf(request, ending));
  const upstreamNano = listNano + wastedNano;
  return { costNano, chargedNano: 0n, upstreamNano, payer: null, tariffId: null, flags };
}

/** An account whose counts cannot be true is used less, and after a few of them not at all for a while. */
function blame({ log, dispatcher }: Books, { call, trace }: CallRecord): void {
  log.warn("absurd_usage", { request_id: call.requestId, account_id: trace.route?.account.id ?? null });
  if (trace.route !== null) dispatcher.pool.brokeOff(trace.route, failed("bad_answer", "absurd usage"));
}
