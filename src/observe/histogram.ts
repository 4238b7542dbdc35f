/** Histograms of durations and rates, for `/metrics`. Adding a value is a short search and two additions. */

/** The trace of a request whose value is in a histogram. */
export interface TraceReference {
  readonly traceId: string;
  readonly atMs: number;
}

/** An example of the values in a bucket: the latest one whose trace is exported. */
export interface Exemplar extends TraceReference {
  readonly value: number;
}

/** By bucket. Empty while no trace is exported. */
type Exemplars = (Exemplar | undefined)[];

export class HistogramCounts {
  readonly bounds: readonly number[];
  /** Number of values within each bound and above the previous one; the last entry is above all bounds. */
  readonly counts: number[];
  readonly exemplars: Exemplars = [];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  add(value: number, trace: TraceReference | null = null): void {
    const { bounds, counts } = this;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] ?? 0)) bucket++;
    counts[bucket] = (counts[bucket] ?? 0) + 1;
    this.sum += value;
    if (trace !== null) this.exemplars[bucket] = { ...trace, value };
  }
}

export class LabelledHistogram {
  readonly bounds: readonly number[];
  readonly #byLabel = new Map<string, HistogramCounts>();

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
  }

  add(label: string, value: number, trace: TraceReference | null = null): void {
    let histogram = this.#byLabel.get(label);
    if (histogram === undefined) {
      histogram = new HistogramCounts(this.bounds);
      this.#byLabel.set(label, histogram);
    }
    histogram.add(value, trace);
  }

  entries(): IterableIterator<[string, HistogramCounts]> {
    return this.#byLabel.entries();
  }
}

export class PairCounter {
  readonly #counts = new Map<string, Map<string, number>>();

  add(first: string, second: string): void {
    let inner = this.#counts.get(first);
    if (inner === undefined) {
      inner = new Map();
      this.#counts.set(first, inner);
    }
    inner.set(second, (inner.get(second) ?? 0) + 1);
  }

  /** `[first, second, count]` */
  list(): [string, string, number][] {
    return [...this.#counts].flatMap(([first, inner]) =>
      [...inner].map(([second, count]): [string, string, number] => [first, second, count]),
    );
  }

  forFirst(first: string): ReadonlyMap<string, number> {
    return this.#counts.get(first) ?? NO_COUNTS;
  }
}

const NO_COUNTS: ReadonlyMap<string, number> = new Map();
