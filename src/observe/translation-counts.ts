/** Counts translated requests and the fields that translations dropped, for `/metrics`. All values only grow. */

interface TranslatedSeries {
  readonly client: string;
  readonly upstream: string;
  requests: number;
}

/** Clients choose some of the names, so their number is bounded. Further names are counted as `other`. */
const FIELDS_MAX = 100;

export class TranslationCounts {
  readonly #series = new Map<string, TranslatedSeries>();
  readonly #fields = new Map<string, number>();

  get series(): readonly TranslatedSeries[] {
    return [...this.#series.values()];
  }

  get droppedFields(): ReadonlyMap<string, number> {
    return this.#fields;
  }

  add(client: string, upstream: string, dropped: readonly string[]): void {
    const key = `${client} ${upstream}`;
    const series = this.#series.get(key) ?? { client, upstream, requests: 0 };
    series.requests++;
    this.#series.set(key, series);
    for (const name of dropped) this.addDropped(name);
  }

  /** `path` may contain indexes. */
  addDropped(path: string): void {
    const name = path.replace(/\[\d+\]/g, "");
    const counted = this.#fields.has(name) || this.#fields.size < FIELDS_MAX ? name : "other";
    this.#fields.set(counted, (this.#fields.get(counted) ?? 0) + 1);
  }
}
