/** Every use of the nodes of a model, in real time. */

export interface ModelUse {
  readonly subject: string;
  readonly atMs: number;
  requests: number;
  tokens: number;
  nano: number;
  /** The time of its usage row, by the clock of the server; null before it is stored. */
  rowMs: number | null;
}

/** A use counts from its admission, with what the request has used in the end. */
export class UseOracle {
  readonly uses: ModelUse[] = [];
  readonly #inFlight = new Map<string, number>();
  readonly peaks = new Map<string, number>();

  admit(subject: string, use: Omit<ModelUse, "subject" | "rowMs">): ModelUse {
    const added = { subject, ...use, rowMs: null };
    this.uses.push(added);
    const inFlight = (this.#inFlight.get(subject) ?? 0) + 1;
    this.#inFlight.set(subject, inFlight);
    this.peaks.set(subject, Math.max(this.peaks.get(subject) ?? 0, inFlight));
    return added;
  }

  release(subject: string): void {
    this.#inFlight.set(subject, (this.#inFlight.get(subject) ?? 0) - 1);
  }

  /** The largest use in any window. */
  findPeak(subject: string, unit: "requests" | "tokens" | "nano", windowMs = 60_000): number {
    const uses = this.uses.filter((use) => use.subject === subject);
    let peak = 0;
    let sum = 0;
    let first = 0;
    for (const use of uses) {
      sum += use[unit];
      while ((uses[first]?.atMs ?? 0) + windowMs <= use.atMs) sum -= uses[first++]?.[unit] ?? 0;
      peak = Math.max(peak, sum);
    }
    return peak;
  }

  count(subject: string, fromMs = 0, toMs = Number.POSITIVE_INFINITY): number {
    return this.uses.filter((use) => use.subject === subject && use.atMs >= fromMs && use.atMs < toMs).length;
  }
}
