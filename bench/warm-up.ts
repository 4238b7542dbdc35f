/**
 * Load until the runtime has compiled the code that serves it. In the same program a request costs twice as much at
 * first, and a tenth more after a hundred thousand requests: a long-running process pays for that once.
 */

import { compilerThreads, cpuMicrosBetween, microsBetween, readCpu } from "./measure.ts";

export interface WarmUp {
  atLeastMs: number;
  atMostMs: number;
}

/** The rounds of a measurement, and the load before them. */
export interface RoundPlan {
  readonly rounds: number;
  readonly roundMs: number;
  readonly warmUp: WarmUp;
}

const SPAN_MS = 5_000;
/** Of all that the process does. The compiler comes back now and then, so it has to be quiet for two spans. */
const QUIET_SHARE = 0.005;
const QUIET_SPANS = 2;

/** Describes how long it took, and the compiler's share of the last span. */
export async function warmUp(
  pid: number,
  { atLeastMs, atMostMs }: WarmUp,
  applyLoad: (ms: number) => Promise<unknown>,
): Promise<string> {
  let quiet = 0;
  for (let ms = 0; ; ) {
    const spanMs = Math.min(SPAN_MS, atMostMs - ms);
    const compilerBefore = compilerThreads(pid);
    const before = readCpu(pid);
    await applyLoad(spanMs);
    ms += spanMs;
    const all = cpuMicrosBetween(before, readCpu(pid));
    const compilerShare = microsBetween(compilerBefore, compilerThreads(pid)) / all;
    quiet = compilerShare < QUIET_SHARE ? quiet + 1 : 0;
    if (ms >= atMostMs || (ms >= atLeastMs && quiet >= QUIET_SPANS)) {
      return `warmed up for ${ms / 1_000} s, ${(100 * compilerShare).toFixed(1)} % of it the compiler's at last`;
    }
  }
}
