/**
 * Judges the work for a document by the CPU time of the gateway's process: it may grow by a factor of at most 2.6 when
 * the document doubles, and has a limit for each MiB. The least of several runs counts, because other work on the
 * machine can only make a run longer. A document over a limit is measured again later, by the speed of the machine then.
 */

import { measureSlowdown } from "../../support/machine-speed.ts";
import type { Result } from "./lab.ts";

/** The sizes are a quarter of this and the whole: two doublings. */
export const DOCUMENT_BYTES = 128 * 1024;
/** Documents over 256 KiB are handled in threads. */
export const LARGE_DOCUMENT_BYTES = 2 * 1024 * 1024;
const GROWTH_MAX = 2.6;
/** What a request costs at any size, and what else the process does meanwhile: timers, compilation, collection. */
const FLOOR_MS = 6;
/** Below this a cost can be a step: the walk that checks bounds begins at a number of values. */
const STEP_MS = 16;
/**
 * Runs of a document that exceeds a limit, each after the runs of all others and a pause. The first runs of a kind of
 * document include the compilation of its code; work that grows too fast exceeds the limit in every run.
 */
const REPEATS_MAX = 12;
const PAUSE_MS = 100;

const MIB = 1024 * 1024;

export interface GrowthRun {
  /** What grows, for the message of a failure. */
  readonly name: string;
  /** CPU time that a MiB may cost. */
  readonly msPerMib: number;
  send(bytes: number): Promise<Result>;
}

/** One document in two sizes, with the least CPU time of each. */
class Measurement {
  readonly #run: GrowthRun;
  readonly #whole: LeastCost;
  readonly #small: LeastCost;

  constructor(run: GrowthRun, bytes: number) {
    this.#run = run;
    this.#whole = new LeastCost(run, bytes);
    this.#small = new LeastCost(run, bytes / 4);
  }

  get last(): Result {
    return this.#whole.last;
  }

  /** The smaller size only where a cost can be more than a step. */
  async measure(): Promise<void> {
    await this.#whole.measure();
    if (this.#whole.ms > STEP_MS) await this.#small.measure();
  }

  /** Null if the work is within its limits on a machine that is slower than a quiet one by this factor. */
  findProblem(slowdown: number): string | null {
    const { ms, last } = this.#whole;
    const limit = limitMs(this.#run, last.bytes) * slowdown;
    if (ms > limit) return describe(this.#run, last, `${ms.toFixed(1)} ms of at most ${limit.toFixed(1)} ms`);
    const factor = growth(this.#small.ms, ms);
    if (ms <= STEP_MS * slowdown || factor <= GROWTH_MAX) return null;
    const small = this.#small.ms.toFixed(1);
    const figures = `${small} ms at a quarter, ${ms.toFixed(1)} ms: × ${factor.toFixed(2)} a doubling`;
    return describe(this.#run, last, figures);
  }
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
  const measurements = runs.map((run) => new Measurement(run, bytes));
  for (const measurement of measurements) await measurement.measure();
  const problems = await repeatSlow(measurements);
  const results = measurements.map(({ last }) => last);
  const cpuMs = results.reduce((sum, result) => sum + result.cpuMs, 0);
  const average = runs.length === 0 ? 0 : cpuMs / runs.length;
  const rejected = results.filter(({ isForwarded }) => !isForwarded).length;
  console.log(
    `growth: ${title}: ${runs.length} documents of ${bytes / 1024} KiB, ${rejected} rejected, ` +
      `${average.toFixed(1)} ms of CPU on average, ${problems.length} over a limit`,
  );
  return problems;
}

/** Measures again what was over a limit: other work of the machine ends, but work that grows too fast stays. */
async function repeatSlow(measurements: readonly Measurement[]): Promise<string[]> {
  let slowdown = 1;
  const isSlow = (measurement: Measurement) => measurement.findProblem(slowdown) !== null;
  let slow = measurements.filter(isSlow);
  for (let repeats = 0; repeats < REPEATS_MAX && slow.length > 0; repeats++) {
    await Bun.sleep(PAUSE_MS);
    slowdown = measureSlowdown();
    for (const measurement of slow) await measurement.measure();
    slow = slow.filter(isSlow);
  }
  return slow.flatMap((measurement) => measurement.findProblem(slowdown) ?? []);
}
