/** What the counters said a while ago: one sample a look, for as long as any rule looks back. */

import type { Traffic } from "../observe/traffic.ts";

export interface TrafficSample {
  readonly atMs: number;
  readonly requests: number;
  readonly errors: number;
  readonly costNano: number;
}

export interface History {
  take(nowMs: number): void;
  /** The newest sample that is at least this old; the oldest of all where none is. */
  at(atMs: number): TrafficSample;
  latest(): TrafficSample;
}

export function openHistory(traffic: Traffic, keptMs: number, nowMs: number): History {
  const samples: TrafficSample[] = [sampleOf(traffic, nowMs)];
  let latest = samples[0] ?? sampleOf(traffic, nowMs);
  return {
    take(atMs) {
      latest = sampleOf(traffic, atMs);
      samples.push(latest);
      // One older sample is kept, so that there is always something to compare with.
      const tooOld = samples.findIndex((sample) => sample.atMs > atMs - keptMs) - 1;
      if (tooOld > 0) samples.splice(0, tooOld);
    },
    at(atMs) {
      return samples.findLast((sample) => sample.atMs <= atMs) ?? samples[0] ?? latest;
    },
    latest: () => latest,
  };
}

function sampleOf({ requests, errors, costNano }: Traffic, atMs: number): TrafficSample {
  return { atMs, requests, errors, costNano };
}
