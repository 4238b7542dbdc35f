/**
 * Estimates the reasoning tokens that a client does not see, learnt from responses that ended with usage. They are
 * charged if a response ends without usage because its client disconnected.
 */

/** The properties of a request that its amount of reasoning depends on. */
export interface ReasoningSubject {
  readonly upstreamModel: string;
  /** As the request sets it; null if it does not. */
  readonly effort: string | null;
  /** A stream may show reasoning. Of a whole response a client that disconnected has seen nothing. */
  readonly stream: boolean;
}

/** The weight of a new sample in the mean and in the deviation, as in RFC 6298. */
const MEAN_WEIGHT = 1 / 8;
const DEVIATION_WEIGHT = 1 / 4;
/** The deviation after the first sample, as a fraction of it. */
const FIRST_DEVIATION = 1 / 4;
/** Larger samples are considered wrong. */
const TOKENS_MAX = 10_000_000;
const SUBJECTS_MAX = 2_000;

/** For models without samples, by the requested effort. */
const TOKENS_BY_EFFORT: ReadonlyMap<string, number> = new Map([
  ["none", 0],
  ["minimal", 64],
  ["low", 512],
  ["medium", 2_048],
  ["high", 8_192],
  ["xhigh", 16_384],
]);
/** Medium effort, which is the default of most models. */
const TOKENS_USUAL = 2_048;

interface LearntReasoning {
  mean: number;
  deviation: number;
}

export class ReasoningEstimates {
  /** Ordered by their last sample. */
  readonly #subjects = new Map<string, LearntReasoning>();

  /** Learns from a response with usage: this many tokens were reasoning that the client did not see. */
  learn(subject: ReasoningSubject, unseenTokens: number): void {
    if (!(unseenTokens >= 0 && unseenTokens <= TOKENS_MAX)) return;
    const key = subjectKey(subject);
    const known = this.#subjects.get(key);
    if (known === undefined) {
      this.#evictOldest();
      this.#subjects.set(key, { mean: unseenTokens, deviation: unseenTokens * FIRST_DEVIATION });
      return;
    }
    const error = unseenTokens - known.mean;
    known.deviation += DEVIATION_WEIGHT * (Math.abs(error) - known.deviation);
    known.mean += MEAN_WEIGHT * error;
    this.#subjects.delete(key);
    this.#subjects.set(key, known);
  }

  /**
   * The mean plus one deviation, because clients choose which responses they abandon. `shownTokens` is the reasoning
   * that this client has seen. `reasons`: the model is known to reason, even without samples.
   */
  estimate(subject: ReasoningSubject, shownTokens: number, reasons: boolean): number {
    const learnt = this.#subjects.get(subjectKey(subject));
    // Samples of streams already exclude the reasoning that was shown.
    if (learnt !== undefined) return upperTokens(learnt);
    const other = this.#subjects.get(subjectKey({ ...subject, stream: !subject.stream }));
    const tokens = other === undefined ? presumedTokens(subject.effort, reasons) : upperTokens(other);
    return Math.max(0, tokens - shownTokens);
  }

  #evictOldest(): void {
    if (this.#subjects.size < SUBJECTS_MAX) return;
    const oldest = this.#subjects.keys().next();
    if (!oldest.done) this.#subjects.delete(oldest.value);
  }
}

function upperTokens({ mean, deviation }: LearntReasoning): number {
  return Math.round(mean + deviation);
}

function presumedTokens(effort: string | null, reasons: boolean): number {
  if (effort === null) return reasons ? TOKENS_USUAL : 0;
  return TOKENS_BY_EFFORT.get(effort) ?? TOKENS_USUAL;
}

/** Clients choose the effort, so unknown values share one entry: they must not evict models. */
function subjectKey({ upstreamModel, effort, stream }: ReasoningSubject): string {
  const known = effort === null ? "" : TOKENS_BY_EFFORT.has(effort) ? effort : "other";
  return `${stream ? "stream" : "whole"} ${known} ${upstreamModel}`;
}
