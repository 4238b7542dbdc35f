/**
 * How many tokens of reasoning an answer has that its client never sees, learnt from answers that ended with usage. It
 * is charged where an answer ends without usage because its client left.
 */

/** What an answer was asked of. Answers that differ in one of these reason differently. */
export interface ReasoningSubject {
  readonly upstreamModel: string;
  /** As the request asks for it; null where it does not. */
  readonly effort: string | null;
  /** Streams may show some of the reasoning while it is made; of a whole answer a client that left has seen nothing. */
  readonly stream: boolean;
}

/** The share of a new answer in the mean and in the deviation: those of RFC 6298, for the same purpose. */
const MEAN_WEIGHT = 1 / 8;
const DEVIATION_WEIGHT = 1 / 4;
/** After a single answer, as a part of its reasoning. */
const FIRST_DEVIATION = 1 / 4;
/** More is taken for a wrong count. */
const TOKENS_MAX = 10_000_000;
const SUBJECTS_MAX = 2_000;

/** Of models that nothing is known of yet, by the effort that the request asks for. */
const TOKENS_BY_EFFORT: ReadonlyMap<string, number> = new Map([
  ["none", 0],
  ["minimal", 64],
  ["low", 512],
  ["medium", 2_048],
  ["high", 8_192],
  ["xhigh", 16_384],
]);
/** Of medium effort, which most models have where a request asks for none. */
const TOKENS_USUAL = 2_048;

interface LearntReasoning {
  mean: number;
  deviation: number;
}

export class ReasoningEstimates {
  /** In the order in which they were last learnt from. */
  private readonly subjects = new Map<string, LearntReasoning>();

  /** An answer ended with usage, and so many of its tokens were reasoning that its client did not see. */
  learn(subject: ReasoningSubject, unseenTokens: number): void {
    if (!(unseenTokens >= 0 && unseenTokens <= TOKENS_MAX)) return;
    const key = subjectKey(subject);
    const known = this.subjects.get(key);
    if (known === undefined) {
      this.makeRoom();
      this.subjects.set(key, { mean: unseenTokens, deviation: unseenTokens * FIRST_DEVIATION });
      return;
    }
    const offBy = unseenTokens - known.mean;
    known.deviation += DEVIATION_WEIGHT * (Math.abs(offBy) - known.deviation);
    known.mean += MEAN_WEIGHT * offBy;
    this.subjects.delete(key);
    this.subjects.set(key, known);
  }

  /**
   * The mean and one deviation: clients choose which answers they leave. `shownTokens` is the reasoning that this client
   * has seen, `reasons` whether the model is known to reason even if nothing was learnt of it.
   */
  estimate(subject: ReasoningSubject, shownTokens: number, reasons: boolean): number {
    const learnt = this.subjects.get(subjectKey(subject));
    // What was learnt from streams is without what they show.
    if (learnt !== undefined) return upperTokens(learnt);
    const other = this.subjects.get(subjectKey({ ...subject, stream: !subject.stream }));
    const tokens = other === undefined ? presumedTokens(subject.effort, reasons) : upperTokens(other);
    return Math.max(0, tokens - shownTokens);
  }

  private makeRoom(): void {
    if (this.subjects.size < SUBJECTS_MAX) return;
    const oldest = this.subjects.keys().next();
    if (!oldest.done) this.subjects.delete(oldest.value);
  }
}

function upperTokens({ mean, deviation }: LearntReasoning): number {
  return Math.round(mean + deviation);
}

function presumedTokens(effort: string | null, reasons: boolean): number {
  if (effort === null) return reasons ? TOKENS_USUAL : 0;
  return TOKENS_BY_EFFORT.get(effort) ?? TOKENS_USUAL;
}

/** Clients choose the effort, so unknown words share one place: they must not push models out. */
function subjectKey({ upstreamModel, effort, stream }: ReasoningSubject): string {
  const known = effort === null ? "" : TOKENS_BY_EFFORT.has(effort) ? effort : "other";
  return `${stream ? "stream" : "whole"} ${known} ${upstreamModel}`;
}
