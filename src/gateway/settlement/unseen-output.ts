/**
 * Estimates the output that a client did not receive because it disconnected: reasoning by past responses, images by
 * the requested number. Upstreams bill both, and a cancelled upstream does not report how much there was.
 */

import { affordableOutput, type Tariff } from "../../money/tariff.ts";
import type { TokenCounts } from "../../money/token-counts.ts";
import type { RequestCharge } from "../charging/charge.ts";
import type { MeasuredUsage } from "../metering/meter.ts";
import type { CountedOutput } from "../metering/output-counter.ts";
import type { ReasoningEstimates, ReasoningSubject } from "../metering/reasoning-estimate.ts";
import type { PaidRequest } from "../request-context.ts";
import type { RequestEnding } from "./request-ending.ts";

interface MeasuredEnding {
  readonly ending: RequestEnding;
  readonly measured: MeasuredUsage;
}

/**
 * Upstream counts differ from the estimate. If reasoning is not reported, only output far above what was shown is
 * considered reasoning.
 */
const UNSHOWN_RATIO = 1.5;
const UNSHOWN_TOKENS = 64;

/** Learns from a response that was complete and reported its usage. */
export function learnReasoning(
  estimates: ReasoningEstimates,
  context: PaidRequest,
  { ending, measured }: MeasuredEnding,
): void {
  const subject = ending.isWhole ? reasoningSubject(context) : null;
  if (subject === null) return;
  const unseen = unseenReasoning(measured.tokens, ending.estimateShown?.() ?? null);
  estimates.learn(subject, unseen / context.request.choices);
}

/** The number of images that an abandoned request requested: an upstream bills every image that it has begun. */
export function withRequestedImages(
  { endpoint, request }: PaidRequest,
  ending: RequestEnding,
): RequestEnding {
  if (!ending.isAbandoned || endpoint.output !== "image" || ending.usage !== null) return ending;
  return { ...ending, images: Math.max(ending.images, request.choices) };
}

/** Adds the reasoning that the client of an abandoned response did not receive, never more than the hold pays for. */
export function withUnseenReasoning(
  estimates: ReasoningEstimates,
  context: PaidRequest,
  { ending, measured }: MeasuredEnding,
): MeasuredUsage {
  if (!ending.isAbandoned || measured.source !== "partial") return measured;
  const { tokens } = measured;
  if (context.endpoint.output === "image") {
    return tokens.images > 0 && ending.images < tokens.images ? asEstimated(measured, tokens) : measured;
  }
  const subject = reasoningSubject(context);
  if (subject === null) return measured;
  const { choices } = context.request;
  return addUnseenReasoning(estimates, { subject, choices, ...context.charge }, measured);
}

/** A response that was stopped while it was reasoning, perhaps. */
export interface StoppedResponse extends Pick<RequestCharge, "tariff" | "heldNano" | "outputTokens"> {
  readonly subject: ReasoningSubject;
  readonly choices: number;
}

export function addUnseenReasoning(
  estimates: ReasoningEstimates,
  { subject, choices, tariff, heldNano, outputTokens }: StoppedResponse,
  measured: MeasuredUsage,
): MeasuredUsage {
  const { tokens } = measured;
  const shown = tokens.reasoningTokens / choices;
  const each = estimates.estimate(subject, shown, hasReasoningPrice(tariff));
  const input = { ...tokens, outputTokens: 0, reasoningTokens: 0, imageKind: null };
  const outputTokensMax = Math.min(outputTokens, affordableOutput(tariff, input, heldNano));
  const unseen = Math.min(Math.ceil(each * choices), outputTokensMax - tokens.outputTokens);
  if (unseen <= 0) return measured;
  return asEstimated(measured, {
    ...tokens,
    outputTokens: tokens.outputTokens + unseen,
    reasoningTokens: tokens.reasoningTokens + unseen,
  });
}

function asEstimated(measured: MeasuredUsage, tokens: TokenCounts): MeasuredUsage {
  return { ...measured, tokens, flags: [...measured.flags, "estimated"] };
}

/** Null for endpoints that show their reasoning, and without model text. */
function reasoningSubject({ endpoint, request, trace }: PaidRequest): ReasoningSubject | null {
  if (!endpoint.hidesReasoning || trace.route === null) return null;
  const { upstreamModel } = trace.route;
  return { upstreamModel, effort: request.reasoningEffort(), stream: request.stream };
}

/** `shown` is what the client received of a stream; null for a whole response, which shows nothing before its end. */
function unseenReasoning(
  { outputTokens, audioOutputTokens, reasoningTokens }: TokenCounts,
  shown: CountedOutput | null,
): number {
  if (shown === null) return reasoningTokens;
  if (reasoningTokens > 0) return Math.max(0, reasoningTokens - shown.reasoningTokens);
  const textTokens = outputTokens - audioOutputTokens;
  return textTokens > UNSHOWN_RATIO * shown.outputTokens + UNSHOWN_TOKENS
    ? textTokens - shown.outputTokens
    : 0;
}

/** The operator set a separate price for reasoning, so the model reasons. */
function hasReasoningPrice({ prices }: Tariff): boolean {
  const { reasoning, output } = prices.tokens;
  return reasoning !== output;
}
