/** Counts what request policies did to requests, for `/metrics`. All values only grow. */

type PolicyAction = "change" | "drop" | "reject";

interface PolicyActionSeries {
  readonly rule: string;
  readonly action: PolicyAction;
  count: number;
}

/** Rules and actions are few, and clients cannot add any. */
export class PolicyActions {
  readonly #series = new Map<string, PolicyActionSeries>();

  get series(): readonly PolicyActionSeries[] {
    return [...this.#series.values()];
  }

  add(rule: string, action: PolicyAction): void {
    const key = `${rule} ${action}`;
    const series = this.#series.get(key) ?? { rule, action, count: 0 };
    series.count++;
    this.#series.set(key, series);
  }
}
