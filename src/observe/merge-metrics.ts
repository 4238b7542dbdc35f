/** Merges the metrics of several processes into one list, in which every value has the label `process`. */

import type { Labels, MetricFamily } from "./metrics-text.ts";

export interface ProcessMetrics {
  readonly process: number;
  /** As they were created, or from JSON. */
  readonly families: readonly MetricFamily[];
}

export function mergeMetrics(list: readonly ProcessMetrics[]): MetricFamily[] {
  const merged = new Map<string, MetricFamily>();
  for (const { process, families } of list) {
    for (const family of families) {
      const labelled = addLabel(family, { process: String(process) });
      const present = merged.get(family.name);
      merged.set(family.name, present === undefined ? labelled : join(present, labelled));
    }
  }
  return [...merged.values()];
}

function addLabel(family: MetricFamily, label: Labels): MetricFamily {
  if (family.type === "histogram") {
    const histograms = family.histograms.map(({ labels, exemplars, ...counts }) => ({
      ...counts,
      labels: { ...labels, ...label },
      // JSON has null for a bucket without one.
      exemplars: exemplars?.map((exemplar) => exemplar ?? undefined),
    }));
    return { ...family, histograms };
  }
  return {
    ...family,
    samples: family.samples.map(({ labels, value }) => ({ labels: { ...labels, ...label }, value })),
  };
}

/** During an upgrade two versions may disagree about a metric: the first one counts. */
function join(first: MetricFamily, second: MetricFamily): MetricFamily {
  if (first.type === "histogram") {
    if (second.type !== "histogram" || String(second.bounds) !== String(first.bounds)) return first;
    return { ...first, histograms: [...first.histograms, ...second.histograms] };
  }
  return second.type === "histogram" ? first : { ...first, samples: [...first.samples, ...second.samples] };
}
