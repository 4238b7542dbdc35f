/**
 * How many tokens a body will turn out to have, from its size: before a request goes out, a hold is made for so many.
 * A hold that is too small is the operator's loss, so the estimate lies above what the model's settled requests showed:
 * by twice their usual deviation, as a sender waits for a late answer (RFC 6298).
 */

import type { InputSize } from "../../protocols/shared/input-size.ts";
import { MEDIA_TOKENS } from "./media.ts";

export interface InputEstimates {
  estimate(model: string, size: InputSize): number;
  /** A request of this size was settled with so many input tokens, as its upstream told. */
  learn(model: string, size: InputSize, inputTokens: number): void;
}

export const BYTES_PER_TOKEN = 3;
/**
 * Tokens for each third byte. Text of one byte a token is 3; prose is near 0.7. Whoever sends much that is hardly any
 * tokens, as long runs of spaces, must not make the next one's prose look cheap.
 */
export const RATIO_MIN = 0.5;
export const RATIO_MAX = 3;
const FIRST = { ratio: 1, deviation: 0.25 };
const WEIGHT = 0.1;
/** Shorter bodies are mostly their own wrapping and tell little of the text. */
const TELLING_BYTES = 2_000;
const DEVIATIONS = 2;
/** What a call costs beside its text. */
export const OVERHEAD_TOKENS = 16;
const MODELS_MAX = 2_000;

interface Learnt {
  ratio: number;
  deviation: number;
  /** When it was last learnt from, as the number of that lesson. */
  lesson: number;
}

export function createInputEstimates(): InputEstimates {
  const models = new Map<string, Learnt>();
  let lessons = 0;

  function begin(model: string): Learnt {
    if (models.size >= MODELS_MAX) forgetOldest();
    const begun = { ...FIRST, lesson: 0 };
    models.set(model, begun);
    return begun;
  }

  /** The model heard of longest ago makes room. */
  function forgetOldest(): void {
    let oldest: [model: string, lesson: number] | null = null;
    for (const [model, { lesson }] of models) {
      if (oldest === null || lesson < oldest[1]) oldest = [model, lesson];
    }
    if (oldest !== null) models.delete(oldest[0]);
  }

  return {
    estimate(model, size) {
      const { ratio, deviation } = models.get(model) ?? FIRST;
      const perPart = Math.min(RATIO_MAX, ratio + DEVIATIONS * deviation);
      const text = (Math.max(0, size.textBytes) / BYTES_PER_TOKEN) * perPart;
      return Math.ceil(text) + size.media * MEDIA_TOKENS + OVERHEAD_TOKENS;
    },
    learn(model, size, inputTokens) {
      // What pictures took is not known apart, and nothing is learnt from a count that is none.
      if (size.media > 0 || size.textBytes <= 0 || !Number.isSafeInteger(inputTokens) || inputTokens < 0)
        return;
      const seen = inputTokens / (size.textBytes / BYTES_PER_TOKEN);
      // More tokens than bytes were not in this body: a conversation the upstream keeps, or a wrong count.
      if (seen > RATIO_MAX) return;
      const known = models.get(model) ?? begin(model);
      const weight = WEIGHT * Math.min(1, size.textBytes / TELLING_BYTES);
      const sample = Math.max(RATIO_MIN, seen);
      const offBy = Math.abs(sample - known.ratio);
      known.ratio += weight * (sample - known.ratio);
      known.deviation += weight * (offBy - known.deviation);
      known.lesson = ++lessons;
    },
  };
}
