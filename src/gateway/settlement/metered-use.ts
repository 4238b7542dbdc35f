/**
 * Meters the use of a request that has ended: as it was reported, counted where it was not, and bounded. It is read once;
 * the charge, the usage row, the limits, the spans and the alerts all read the result.
 */

import { isPending, type MaybePromise } from "../../base/maybe-promise.ts";
import type { ReportedTier } from "../../money/token-counts.ts";
import type { Log } from "../../observe/log.ts";
import type { UsagePass } from "../../protocols/shared/usage.ts";
import type { InputCounter } from "../metering/count-input.ts";
import { estimateInput, type InputEstimates } from "../metering/input-estimate.ts";
import {
  asReported,
  estimatedInput,
  type MeasuredUsage,
  measure,
  measureReported,
  reportsAll,
} from "../metering/meter.ts";
import type { ReasoningEstimates } from "../metering/reasoning-estimate.ts";
import { countUnpaidSearches } from "../metering/usage-bounds.ts";
import { traceLogId } from "../request/log-ids.ts";
import type { BatchedWork } from "../request/trace.ts";
import {
  type AuthenticatedRequest,
  isPaid,
  isRead,
  type PaidRequest,
  type ReadRequest,
} from "../request-context.ts";
import type { RequestEnding } from "./request-ending.ts";
import { withRequestedImages, withUnseenReasoning } from "./unseen-output.ts";
import { measureWastedAttempts, type WastedAttempt } from "./wasted-attempts.ts";

export interface MeteredUse extends MeasuredUsage {
  /** Limits are settled to these tokens. If false, the estimates of the limits remain. */
  readonly isCounted: boolean;
  /** Reported searches above what was paid for: the cost of the operator. */
  readonly unpaidSearches: number;
  /** The passes that the tokens consist of; null if they are one pass, or were not reported. */
  readonly passes: readonly UsagePass[] | null;
  /** The service tier that the upstream reports; null if it reports none. */
  readonly tier: ReportedTier | null;
  /** The size and quality of the images that the upstream reports; null if it reports none. */
  readonly imageKind: string | null;
  readonly wasted: readonly WastedAttempt[];
}

/** A request that has ended, with its use. */
export interface MeteredEnding {
  readonly ending: RequestEnding;
  readonly use: MeteredUse;
}

interface MeteringServices {
  readonly log: Pick<Log, "error">;
  readonly estimates: Pick<InputEstimates, "estimate">;
  readonly reasoning: ReasoningEstimates;
  readonly inputCounter: Pick<InputCounter, "countRequest">;
}

/** Returns a promise only if something must be counted. */
export function meterUse(
  services: MeteringServices,
  context: AuthenticatedRequest,
  ending: RequestEnding,
): MaybePromise<MeteredUse> {
  const measured = isPaid(context)
    ? measurePaid(services, context, ending)
    : measureUnpaid(services, context, ending);
  if (!isPending(measured)) return buildUse(services, context, { ending, measured });
  return measured.then((counted) => buildUse(services, context, { ending, measured: counted }));
}

function buildUse(
  services: MeteringServices,
  context: AuthenticatedRequest,
  { ending, measured }: { readonly ending: RequestEnding; readonly measured: MeasuredUsage },
): MeteredUse {
  const { tokens, source, flags, isImplausible } = measured;
  const { usage, imageKind } = ending;
  // An implausible count must not use up a window, and a stream that was not counted must not be free.
  const isUncountedStream = context.request?.stream === true && hasNoTokenCount(context, ending);
  return {
    tokens,
    source,
    flags,
    isImplausible,
    isCounted: source !== "none" && !isImplausible && !isUncountedStream,
    unpaidSearches: isImplausible ? 0 : countUnpaidSearches(usage, tokens),
    passes: source === "upstream" ? (usage?.passes ?? null) : null,
    tier: usage?.tier ?? null,
    imageKind,
    wasted: isRead(context) ? measureWastedAttempts(services, context) : [],
  };
}

function measurePaid(
  services: MeteringServices,
  context: PaidRequest,
  ending: RequestEnding,
): MaybePromise<MeasuredUsage> {
  if (!ending.isServed) return asReported(null, 0);
  const measured = measureServed(services, context, withRequestedImages(context, ending));
  if (!isPending(measured)) return measured;
  return measured.then((counted) =>
    withUnseenReasoning(services.reasoning, context, { ending, measured: counted }),
  );
}

function measureUnpaid(
  services: MeteringServices,
  context: AuthenticatedRequest,
  ending: RequestEnding,
): MaybePromise<MeasuredUsage> {
  if (!isRead(context)) return asReported(ending.usage, ending.images);
  if (!isUnreported(context, ending)) return measureReported(context, ending);
  // Clients disconnect often, and counting their input would cost more than it is worth.
  if (hasNoTokenCount(context, ending))
    return estimatedInput(estimateInput(services.estimates, context), 0, "partial");
  return measureServed(services, context, ending);
}

/** The request was served, and a background response may still report the rest of its use. */
function isUnreported(
  { endpoint }: ReadRequest,
  { isServed, outcome, usage, images }: RequestEnding,
): boolean {
  if (!isServed || outcome === "pending" || endpoint.output === "count") return false;
  return !reportsAll(usage, images);
}

/** The request is unpaid, ended early, and its stream was not counted. */
function hasNoTokenCount(
  { charge }: AuthenticatedRequest,
  { outcome, usage, images, countOutput, batchedWork = null }: RequestEnding,
): boolean {
  if (batchedWork !== null) return false;
  return charge === null && isInterrupted(outcome) && usage === null && images === 0 && countOutput === null;
}

function isInterrupted(outcome: RequestEnding["outcome"]): boolean {
  return outcome === "client_gone" || outcome === "upstream_cut";
}

/** Use that the upstream did not report is counted, or estimated from its length. */
function measureServed(
  services: MeteringServices,
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
    return estimatedInput(estimateInput(services.estimates, context), images);
  });
}

/** The request failed, but some of its batches did not. */
function measureBatchedWork(context: ReadRequest, { usage, countedTokens }: BatchedWork): MeasuredUsage {
  if (countedTokens === 0) return measureReported(context, { usage, images: 0 });
  return estimatedInput((usage?.inputTokens ?? 0) + countedTokens, 0, "partial");
}
