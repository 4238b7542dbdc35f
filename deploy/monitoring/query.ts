/** Pieces of Prometheus queries. Only metrics of the catalogue, with their own labels, can be named. */

import { METRICS, type MetricName } from "../../src/observe/metric-catalogue.ts";

type LabelOf<Name extends MetricName> = (typeof METRICS)[Name]["labels"][number];

/** Matchers by label, such as `=~"5.."`. */
type Matchers<Name extends MetricName> = Partial<Readonly<Record<LabelOf<Name>, string>>>;

/** How series are restricted: by the variables of a dashboard, or not at all in alert rules. */
export interface Selection {
  /** Matchers of labels that Prometheus adds, or that are variables of a dashboard. */
  readonly matchers: Readonly<Record<string, string>>;
  readonly range: string;
}

export class Queries {
  readonly #selection: Selection;

  constructor(selection: Selection) {
    this.#selection = selection;
  }

  /** The series of a counter or gauge. */
  series<Name extends MetricName>(name: Name, matchers: Matchers<Name> = {}): string {
    return this.#select(name, name, matchers);
  }

  /** The increase a second of a counter. */
  rate<Name extends MetricName>(name: Name, matchers: Matchers<Name> = {}): string {
    if (METRICS[name].type !== "counter") throw new Error(`${name} is not a counter`);
    return `rate(${this.#select(name, name, matchers)}[${this.#selection.range}])`;
  }

  sumRate<Name extends MetricName>(
    name: Name,
    by: readonly LabelOf<Name>[],
    matchers: Matchers<Name> = {},
  ): string {
    return `sum${grouping(by)} (${this.rate(name, matchers)})`;
  }

  quantile<Name extends MetricName>(quantile: number, name: Name, by: readonly LabelOf<Name>[] = []): string {
    if (METRICS[name].type !== "histogram") throw new Error(`${name} is not a histogram`);
    const buckets = this.#select(`${name}_bucket`, name, {});
    const rate = `rate(${buckets}[${this.#selection.range}])`;
    return `histogram_quantile(${quantile}, sum${grouping(["le", ...by])} (${rate}))`;
  }

  #select(text: string, name: MetricName, matchers: Readonly<Record<string, string | undefined>>): string {
    const labels: readonly string[] = METRICS[name].labels;
    const isApplied = (label: string) => label === "instance" || labels.includes(label);
    const own = Object.entries(matchers).flatMap(([label, matcher]) =>
      matcher === undefined ? [] : [`${label}${matcher}`],
    );
    const selected = Object.entries(this.#selection.matchers)
      .filter(([label]) => isApplied(label) && matchers[label] === undefined)
      .map(([label, matcher]) => `${label}${matcher}`);
    const all = [...selected, ...own];
    return all.length === 0 ? text : `${text}{${all.join(",")}}`;
  }
}

function grouping(labels: readonly string[]): string {
  return labels.length === 0 ? "" : ` by (${labels.join(", ")})`;
}
