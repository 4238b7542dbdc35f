/**
 * Estimates the input tokens of a body from its size, for its hold. A hold that is too small is the operator's loss, so
 * the estimate is above what the model's settled requests showed, by twice their mean deviation, like the
 * retransmission timeout of TCP (RFC 6298).
 */

import type { InputSize } from "../../protocols/shared/input-size.ts";
import { MEDIA_TOKENS } from "../../protocols/shared/media-members.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";

export interface InputEstimates {
  estimate(model: string, size: InputSize): number;
  /** Learns from a settled request of this size with the input tokens that its upstream reported. */
  learn(model: string, size: InputSize, inputTokens: number): void;
}

/** A request, with its hold if it is paid. */
interface EstimatedRequest {
  readonly charge: { readonly inputTokens: number } | null;
  readonly request: Pick<ModelRequest, "publicModel" | "inputSize">;
}

/** The input as estimated before the response began. */
export function estimateInput(
  estimates: Pick<InputEstimates, "estimate">,
  { charge, request }: EstimatedRequest,
): number {
  return charge?.inputTokens ?? estimates.estimate(request.publicModel, request.inputSize());
}

export const BYTES_PER_TOKEN = 3;
/**
 * Tokens per three bytes. Text with one token per byte has 3; prose has about 0.7. The minimum keeps bodies with hardly
 * any tokens, such as long runs of spaces, from making the estimate for prose too low.
 */
export const RATIO_MIN = 0.5;
export const RATIO_MAX = 3;
const INITIAL = { ratio: 1, deviation: 0.25 };
const WEIGHT = 0.1;
/** Shorter bodies consist mostly of JSON structure and are a poor sample of the text. */
const FULL_WEIGHT_BYTES = 2_000;
const DEVIATIONS = 2;
/** The tokens of a call in addition to its text. */
export const OVERHEAD_TOKENS = 16;
const MODELS_MAX = 2_000;

interface LearntRatio {
  ratio: number;
  deviation: number;
  lastSample: number;
}

export function createInputEstimates(): InputEstimates {
  const models = new Map<string, LearntRatio>();
  let samples = 0;

  function createModel(model: string): LearntRatio {
    if (models.size >= MODELS_MAX) evictOldest();
    const created = { ...INITIAL, lastSample: 0 };
    models.set(model, created);
    return created;
  }

  function evictOldest(): void {
    let oldest: [model: string, lesson: number] | null = null;
    for (const [model, { lastSample: lesson }] of models) {
      if (oldest === null || lesson < oldest[1]) oldest = [model, lesson];
    }
    if (oldest !== null) models.delete(oldest[0]);
  }

  return {
    estimate(model, size) {
      const { ratio, deviation } = models.get(model) ?? INITIAL;
      const perPart = Math.min(RATIO_MAX, ratio + DEVIATIONS * deviation);
      const text = (Math.max(0, size.textBytes) / BYTES_PER_TOKEN) * perPart;
      return Math.ceil(text) + size.media * MEDIA_TOKENS + OVERHEAD_TOKENS;
    },
    learn(model, size, inputTokens) {
      // The tokens of media are not reported separately, and an invalid count teaches nothing.
      if (size.media > 0 || size.textBytes <= 0 || !Number.isSafeInteger(inputTokens) || inputTokens < 0)
        return;
      const observedRatio = inputTokens / (size.textBytes / BYTES_PER_TOKEN);
      // More tokens than bytes were not in this body: the upstream stores a conversation, or its count is wrong.
      if (observedRatio > RATIO_MAX) return;
      const learnt = models.get(model) ?? createModel(model);
      const weight = WEIGHT * Math.min(1, size.textBytes / FULL_WEIGHT_BYTES);
      const sample = Math.max(RATIO_MIN, observedRatio);
      const error = Math.abs(sample - learnt.ratio);
      learnt.ratio += weight * (sample - learnt.ratio);
      learnt.deviation += weight * (error - learnt.deviation);
      learnt.lastSample = ++samples;
    },
  };
}
