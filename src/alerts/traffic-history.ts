/** Samples of the traffic counters, one per check, for as long as any rule looks back. */

import type { Traffic } from "../observe/traffic.ts";

export interface TrafficSample {
  readonly atMs: number;
  readonly requests: number;
  readonly errors: number;
  readonly fallbacks: number;
  readonly costNano: number;
}

export interface History {
  addSample(nowMs: number): void;
  /** The newest sample at or before this time; the oldest one if there is none. */
  sampleAt(atMs: number): TrafficSample;
  latest(): TrafficSample;
}

export function openHistory(traffic: Traffic, retentionMs: number, nowMs: number): History {
  const samples: TrafficSample[] = [takeSample(traffic, nowMs)];
  let latest = samples[0] ?? takeSample(traffic, nowMs);
  return {
    addSample(atMs) {
      latest = takeSample(traffic, atMs);
      samples.push(latest);
      // Keeps one older sample, so that there is always one to compare with.
      const tooOld = samples.findIndex((sample) => sample.atMs > atMs - retentionMs) - 1;
      if (tooOld > 0) samples.splice(0, tooOld);
    },
    sampleAt(atMs) {
      return samples.findLast((sample) => sample.atMs <= atMs) ?? samples[0] ?? latest;
    },
    latest: () => latest,
  };
}

function takeSample({ requests, errors, fallbacks, costNano }: Traffic, atMs: number): TrafficSample {
  return { atMs, requests, errors, fallbacks, costNano };
}
