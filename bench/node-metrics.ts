/** Histograms of the nodes' own metrics. */

import type { Installation } from "./paid-nodes.ts";

/** Values in the buckets of a histogram, by upper bound in seconds. */
export type Buckets = ReadonlyMap<number, number>;

/** Of all nodes together. */
export async function readBuckets({ nodes, token }: Installation, metric: string): Promise<Buckets> {
  const sums = new Map<number, number>();
  for (const { url } of nodes) {
    const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
    const text = await response.text();
    if (!response.ok) throw new Error(`/metrics returned ${response.status}: ${text.slice(0, 300)}`);
    let below = 0;
    for (const [, bound = "", count] of text.matchAll(
      new RegExp(`^${metric}_bucket\\{le="(.*?)"\\} (\\d+)`, "gm"),
    )) {
      const seconds = bound === "+Inf" ? Number.POSITIVE_INFINITY : Number(bound);
      sums.set(seconds, (sums.get(seconds) ?? 0) + Number(count) - below);
      below = Number(count);
    }
  }
  if (sums.size === 0) throw new Error(`/metrics has no ${metric}`);
  return sums;
}

export function bucketsBetween(before: Buckets, after: Buckets): Buckets {
  return new Map([...after].map(([bound, count]) => [bound, count - (before.get(bound) ?? 0)]));
}

export function countValues(buckets: Buckets): number {
  return [...buckets.values()].reduce((sum, count) => sum + count, 0);
}

/**
 * The upper bound of the bucket in which the quantile lies, in milliseconds: the true value is below it. Of `all` events
 * those without a value took no time.
 */
export function quantileMs(buckets: Buckets, share: number, all = countValues(buckets)): number {
  let rank = all * share - (all - countValues(buckets));
  if (rank <= 0) return 0;
  for (const [bound, count] of [...buckets].toSorted(([a], [b]) => a - b)) {
    rank -= count;
    if (rank <= 0) return bound * 1_000;
  }
  return Number.POSITIVE_INFINITY;
}
