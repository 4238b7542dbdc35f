/**
 * Judges the work for a document by the CPU time of the gateway's process: it may grow by a factor of at most 2.6 when
 * the document doubles, and has a limit for each MiB. The least of several runs counts, because other work on the
 * machine can only make a run longer.
 */

import { measureSlowdown } from "../../support/machine-speed.ts";
import type { Result } from "./lab.ts";

/** The sizes are a quarter of this and the whole: two doublings. */
export const DOCUMENT_BYTES = 128 * 1024;
/** Requests over 256 KiB and whole responses over 1 MiB are handled in threads. */
export const LARGE_DOCUMENT_BYTES = 2 * 1024 * 1024;
const GROWTH_MAX = 2.6;
/** What a request costs at any size, and what else the process does meanwhile: timers, compilation, collection. */
const FLOOR_MS = 6;
/** Below this a cost can be a step: the walk that checks bounds begins at a number of values. */
const STEP_MS = 16;
/**
 * Runs of a document that exceeds a limit. The first runs of a kind of document include the compilation of its code;
 * work that grows too fast exceeds the limit in every run.
 */
const RUNS_MAX = 30;
/** The speed of the machine is measured again after so many runs. */
const RUNS_OF_A_SPEED = 6;

const MIB = 1024 * 1024;

export interface GrowthRun {
  /** What grows, for the message of a failure. */
  readonly name: string;
  /** CPU time that a MiB may cost. */
  readonly msPerMib: number;
  send(bytes: number): Promise<Result>;
}

export interface Verdict {
  /** Null if the work is within its limits. */
  readonly problem: string | null;
  readonly result: Result;
}

export async function judgeGrowth(run: GrowthRun, bytes = DOCUMENT_BYTES): Promise<Verdict> {
  const whole = new LeastCost(run, bytes);
  const small = new LeastCost(run, bytes / 4);
  let slowdown = 1;
  await whole.measure();
  const limit = () => limitMs(run, whole.last.bytes) * slowdown;
  for (let runs = 1; runs < RUNS_MAX && whole.ms > limit(); runs++) {
    if (runs % RUNS_OF_A_SPEED === 1) slowdown = measureSlowdown();
    await whole.measure();
  }
  const { last: result } = whole;
  if (whole.ms > limit())
    return {
      problem: describe(run, result, `${whole.ms.toFixed(1)} ms of at most ${limit().toFixed(1)} ms`),
      result,
    };
  if (whole.ms <= STEP_MS) return { problem: null, result };
  await small.measure();
  for (let runs = 1; runs < RUNS_MAX && growth(small.ms, whole.ms) > GROWTH_MAX; runs++) {
    if (runs % RUNS_OF_A_SPEED === 1) slowdown = measureSlowdown();
    await whole.measure();
    await small.measure();
  }
  const factor = growth(small.ms, whole.ms);
  if (factor <= GROWTH_MAX || whole.ms <= STEP_MS * slowdown) return { problem: null, result };
  const figures = `${small.ms.toFixed(1)} ms at a quarter, ${whole.ms.toFixed(1)} ms: × ${factor.toFixed(2)} a doubling`;
  return { problem: describe(run, result, figures), result };
}

/** The least CPU time of several runs of one size. */
class LeastCost {
  readonly #run: GrowthRun;
  readonly #size: number;
  #last: Result | null = null;
  ms = Number.POSITIVE_INFINITY;

  constructor(run: GrowthRun, size: number) {
    this.#run = run;
    this.#size = size;
  }

  get last(): Result {
    if (this.#last === null) throw new Error("nothing is measured yet");
    return this.#last;
  }

  async measure(): Promise<void> {
    this.#last = await this.#run.send(this.#size);
    this.ms = Math.min(this.ms, this.#last.cpuMs);
  }
}

function limitMs({ msPerMib }: GrowthRun, bytes: number): number {
  return FLOOR_MS + (msPerMib * bytes) / MIB;
}

/** The factor of one doubling, from two. */
function growth(smallMs: number, wholeMs: number): number {
  return Math.sqrt(wholeMs / Math.max(smallMs, FLOOR_MS / 4));
}

function describe({ name }: GrowthRun, { bytes, status }: Result, figures: string): string {
  return `${name}: ${figures} for ${(bytes / 1024).toFixed(0)} KiB (status ${status})`;
}

/** Judges all runs and prints one line. Returns the problems. */
export async function judgeAll(
  title: string,
  runs: readonly GrowthRun[],
  bytes = DOCUMENT_BYTES,
): Promise<string[]> {
  const problems: string[] = [];
  let cpuMs = 0;
  let rejected = 0;
  for (const run of runs) {
    const { problem, result } = await judgeGrowth(run, bytes);
    if (problem !== null) problems.push(problem);
    cpuMs += result.cpuMs;
    if (!result.isForwarded) rejected++;
  }
  const average = runs.length === 0 ? 0 : cpuMs / runs.length;
  console.log(
    `growth: ${title}: ${runs.length} documents of ${bytes / 1024} KiB, ${rejected} rejected, ` +
      `${average.toFixed(1)} ms of CPU on average, ${problems.length} over a limit`,
  );
  return problems;
}
