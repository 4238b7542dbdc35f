/** Builds metric families from the catalogue: only declared metrics, with their declared labels, can be written. */

import type { LabelledHistogram } from "../../observe/histogram.ts";
import { METRICS, type MetricName } from "../../observe/metric-catalogue.ts";
import type { Histogram, MetricFamily, MetricSample } from "../../observe/metrics-text.ts";

type LabelsOf<Name extends MetricName> = Readonly<Record<(typeof METRICS)[Name]["labels"][number], string>>;

/** One value, with the labels of its metric. */
export type SampleOf<Name extends MetricName> = readonly [labels: LabelsOf<Name>, value: number];

/** A counter or a gauge. */
export function samples<Name extends MetricName>(name: Name, list: readonly SampleOf<Name>[]): MetricFamily {
  const { type, help } = METRICS[name];
  if (type === "histogram") throw new Error(`${name} is a histogram`);
  return { name, help, type, samples: list.map(([labels, value]): MetricSample => ({ labels, value })) };
}

/** A counter or a gauge without labels. Null: the value is not known. */
export function single<Name extends MetricName>(name: Name, value: number | null): MetricFamily {
  const { type, help } = METRICS[name];
  if (type === "histogram") throw new Error(`${name} is a histogram`);
  return { name, help, type, samples: value === null ? [] : [{ value }] };
}

export function histogram<Name extends MetricName>(
  name: Name,
  bounds: readonly number[],
  list: readonly (readonly [labels: LabelsOf<Name>, counts: Omit<Histogram, "labels">])[],
): MetricFamily {
  const histograms = list.map(
    ([labels, { counts, sum, exemplars }]): Histogram => ({ labels, counts, sum, exemplars }),
  );
  return { name, help: METRICS[name].help, type: "histogram", bounds, histograms };
}

/** A histogram with one label. `readLabels` returns null for a value that is no longer published. */
export function labelledHistogram<Name extends MetricName>(
  name: Name,
  from: LabelledHistogram,
  readLabels: (label: string) => LabelsOf<Name> | null,
): MetricFamily {
  const list = [...from.entries()].flatMap(([label, counts]) => {
    const labels = readLabels(label);
    return labels === null ? [] : [[labels, counts] as const];
  });
  return histogram(name, from.bounds, list);
}
