/**
 * Measures the use of a request: as the upstream reports it, counted from the text if it reports none, and discarded if
 * it is implausible.
 */

import type { MaybePromise } from "../../base/maybe-promise.ts";
import { isPaidByPiece } from "../../money/tariff.ts";
import { NO_TOKENS, type TokenCounts } from "../../money/token-counts.ts";
import { resolveImageKind } from "../../protocols/shared/image-kind.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { UsageFlag, UsageSource } from "../../store/usage/usage-row.ts";
import { imageOutputTokens } from "./media.ts";
import type { CountedOutput } from "./output-counter.ts";
import { type BoundedReport, boundReport, type MeteredModel, type MeteredRequest } from "./usage-bounds.ts";

/** What is known of the use at the end of a request. */
export interface UsageEvidence {
  usage: TokenUsage | null;
  images: number;
  /** Size and quality of those images, as the upstream reports them (`image-kind.ts`). */
  imageKind: string | null;
  /** The response was read to its end, with or without its client; false if it broke off. */
  isWhole: boolean;
  /** Counts the received text, for upstreams that report no usage; null for responses without text. */
  countOutput: (() => Promise<CountedOutput>) | null;
}

export interface MeasuredUsage {
  tokens: TokenCounts;
  source: UsageSource;
  flags: readonly UsageFlag[];
  /** The reported usage is implausible. */
  isImplausible: boolean;
}

/** Copies only these fields: keeping the `PublishedModel` would keep its whole policy snapshot alive. */
export function meteringTerms({ tariff, contextTokens, outputTokensMax }: MeteredModel): MeteredModel {
  return { tariff, contextTokens, outputTokensMax };
}

const NO_FLAGS: readonly UsageFlag[] = [];

/** The reported usage, or none. */
export function asReported(usage: TokenUsage | null, images: number): MeasuredUsage {
  const source = usage === null ? "none" : "upstream";
  return { tokens: toTokens(usage, images), source, flags: NO_FLAGS, isImplausible: false };
}

function toTokens(usage: TokenUsage | null, images: number): TokenCounts {
  if (usage === null) return { ...NO_TOKENS, images };
  return {
    inputTokens: usage.inputTokens,
    cachedTokens: usage.cachedTokens,
    cacheWriteTokens: usage.cacheWriteTokens,
    cacheWrite1hTokens: usage.cacheWrite1hTokens,
    outputTokens: usage.outputTokens,
    reasoningTokens: usage.reasoningTokens,
    imageInputTokens: usage.imageInputTokens,
    audioInputTokens: usage.audioInputTokens,
    audioOutputTokens: usage.audioOutputTokens,
    images,
    webSearches: usage.webSearches,
  };
}

/** Reported at the end of the response. Zeros, which some servers send instead of counts, are no report. */
export function isWholeCount({ missing, isEarly, inputTokens, outputTokens }: TokenUsage): boolean {
  return missing === null && !isEarly && inputTokens + outputTokens > 0;
}

/** Nothing is left to count. Images without output tokens were not counted by their upstream either. */
export function reportsAll(usage: TokenUsage | null, images: number): usage is TokenUsage {
  return usage !== null && isWholeCount(usage) && (images === 0 || usage.outputTokens > 0);
}

/** Returns a promise only if something must be counted. */
export function measure(
  metered: MeteredRequest,
  evidence: UsageEvidence,
  countInput: () => Promise<number>,
): MaybePromise<MeasuredUsage> {
  const report = boundReport(metered, evidence);
  if (report.verdict === "implausible" || reportsAll(report.usage, report.images)) return asBounded(report);
  const { usage, images } = report;
  const counted = countMissing(metered, { ...evidence, usage, images }, countInput);
  return report.verdict === "reduced" ? counted.then(asReduced) : counted;
}

/** What a report contains, within its bounds. Nothing is counted. */
export function measureReported(
  metered: MeteredRequest,
  { usage, images }: Pick<UsageEvidence, "usage" | "images">,
): MeasuredUsage {
  return usage === null ? asReported(null, images) : asBounded(boundReport(metered, { usage, images }));
}

/** A report that needs no further count. */
export function asBounded({ usage, images, verdict }: BoundedReport): MeasuredUsage {
  if (verdict === "implausible") return implausibleUsage(images);
  const measured = asReported(usage, images);
  return verdict === "reduced" ? asReduced(measured) : measured;
}

/** A count was reduced to what the request allowed. */
function asReduced(measured: MeasuredUsage): MeasuredUsage {
  return { ...measured, flags: [...measured.flags, "clamped"] };
}

/** An implausible count is not recorded: sums, charts and windows would repeat it. */
function implausibleUsage(images: number): MeasuredUsage {
  return { tokens: toTokens(null, images), source: "upstream", flags: ["clamped"], isImplausible: true };
}

/** If nothing could be counted: the input as estimated before the response began. */
export function estimatedInput(
  inputTokens: number,
  images: number,
  how: "estimated" | "partial" = "estimated",
): MeasuredUsage {
  return { tokens: { ...NO_TOKENS, inputTokens, images }, source: how, flags: [how], isImplausible: false };
}

async function countMissing(
  metered: MeteredRequest,
  evidence: UsageEvidence,
  countInput: () => Promise<number>,
): Promise<MeasuredUsage> {
  const { usage, images, isWhole } = evidence;
  const isZeroReport = usage !== null && usage.inputTokens + usage.outputTokens === 0;
  const isInputReported =
    usage !== null &&
    !isZeroReport &&
    usage.missing !== "input" &&
    !(usage.isEarly && usage.inputTokens === 0);
  const reportedOutput = usage !== null && usage.missing !== "output" ? usage : null;
  const [inputTokens, output] = await Promise.all([
    isInputReported ? usage.inputTokens : countInput(),
    // An early report is used only if no output followed, and a report of 0 only if no output arrived.
    reportedOutput === null || reportedOutput.isEarly || reportedOutput.outputTokens === 0
      ? countAtLeast(reportedOutput, metered, evidence)
      : reportedOutput,
  ]);
  // The output of an embedding has no text, but its input is never empty.
  const isZeroPlausible = isZeroReport && images === 0 && metered.endpoint.output !== "vector";
  if ((isInputReported || isZeroPlausible) && output === reportedOutput) return asReported(usage, images);
  const { outputTokens, reasoningTokens } = output;
  const how = isWhole ? "estimated" : "partial";
  return {
    tokens: { ...toTokens(usage, images), inputTokens, outputTokens, reasoningTokens },
    source: how,
    flags: [how],
    isImplausible: false,
  };
}

async function countAtLeast(
  reportedOutput: TokenUsage | null,
  metered: MeteredRequest,
  evidence: UsageEvidence,
): Promise<CountedOutput> {
  const isByTokens = (reportedOutput?.outputTokens ?? 0) > 0;
  const counted = (await evidence.countOutput?.()) ?? countImages(metered, evidence, { isByTokens });
  return reportedOutput !== null && reportedOutput.outputTokens >= counted.outputTokens
    ? reportedOutput
    : counted;
}

/** An upstream bills every image it has begun: by the piece if the tariff prices pieces, otherwise by tokens. */
function countImages(
  { request, model }: MeteredRequest,
  { images, imageKind }: UsageEvidence,
  { isByTokens }: { readonly isByTokens: boolean },
): CountedOutput {
  const tariff = model?.tariff ?? null;
  const kind = resolveImageKind(request.imageKind, imageKind);
  const isByPiece = !isByTokens && (tariff === null || isPaidByPiece(tariff, kind));
  return { outputTokens: isByPiece ? 0 : images * imageOutputTokens(kind), reasoningTokens: 0 };
}
