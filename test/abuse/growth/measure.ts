/**
 * Judges the work for a document by the CPU time of the gateway's process: it may grow by a factor of at most 2.6 when
 * the document doubles, and has a limit for each MiB. The gateway itself must not log a turn of its event loop for the
 * document as slow. The least of several runs counts, because other work on the machine can only make a run longer. A
 * document over a limit is measured again later, by the speed of the machine then.
 */

import { measureSlowdown } from "../../support/machine-speed.ts";
import { TURN_MS_MAX } from "../attack-setup.ts";
import type { Result } from "./lab.ts";

/** The sizes are a quarter of this, a half and the whole. */
export const DOCUMENT_BYTES = 128 * 1024;
/** Documents over 256 KiB are handled in threads. */
export const LARGE_DOCUMENT_BYTES = 2 * 1024 * 1024;
const GROWTH_MAX = 2.6;
/** What a request costs at any size, and what else the process does meanwhile: timers, compilation, collection. */
const FLOOR_MS = 6;
/**
 * Below this a cost can be a step: the walk that checks bounds begins at a number of values, and a collection of garbage
 * takes 4 to 6 ms in whichever run it falls. On a busy machine, of 8,155 documents 220 grow too fast in their first run
 * with 6 ms here, and 61 with 8 ms, nearly all by such a collection: the repeats clear those within the same time.
 */
const STEP_MS = 8;
/** Larger documents leave so much garbage that a collection falls into each run of a size. */
const COLLECTION_MS = 6;
/**
 * Runs of a document that exceeds a limit, each after the runs of all others and a pause. The first runs of a kind of
 * document include the compilation of its code; work that grows too fast exceeds the limit in every run.
 */
const REPEATS_MAX = 12;
/** The gateway logs a slow turn a moment after it. */
const PAUSE_MS = 100;

const MIB = 1024 * 1024;

export interface GrowthRun {
  /** What grows, for the message of a failure. */
  readonly name: string;
  /** CPU time that a MiB may cost. */
  readonly msPerMib: number;
  send(bytes: number): Promise<Result>;
}

/** One document in three sizes, with the least CPU time of each. */
class Measurement {
  readonly #run: GrowthRun;
  readonly #whole: LeastCost;
  readonly #half: LeastCost;
  readonly #quarter: LeastCost;
  readonly #collectionMs: number;
  #rounds = 0;

  constructor(run: GrowthRun, bytes: number) {
    this.#run = run;
    this.#whole = new LeastCost(run, bytes);
    this.#half = new LeastCost(run, bytes / 2);
    this.#quarter = new LeastCost(run, bytes / 4);
    this.#collectionMs = bytes > DOCUMENT_BYTES ? COLLECTION_MS : 0;
  }

  get last(): Result {
    return this.#whole.last;
  }

  /** Of all sizes, beginning with the first run. */
  get results(): readonly Result[] {
    return this.#sizes.toReversed().flatMap((size) => size.results);
  }

  /** The smaller sizes only where a cost can be more than a step. Their order changes, as collections follow a rhythm. */
  async measure(): Promise<void> {
    await this.#whole.measure();
    if (this.#whole.ms <= STEP_MS) return;
    const smaller = [this.#half, this.#quarter];
    for (const size of this.#rounds++ % 2 === 0 ? smaller : smaller.toReversed()) await size.measure();
  }

  /** Null if the work is within its limits on a machine that is slower than a quiet one by this factor. */
  findProblem(slowdown: number): string | null {
    const problem = this.#findExcess(slowdown) ?? this.#findGrowth(slowdown);
    return problem === null ? null : describe(this.#run, this.#whole.last, problem);
  }

  #findExcess(slowdown: number): string | null {
    const { ms, last } = this.#whole;
    const limit = limitMs(this.#run, last.bytes) * slowdown;
    if (ms > limit) return `${ms.toFixed(1)} ms of at most ${limit.toFixed(1)} ms`;
    const turnMs = Math.max(...this.#sizes.map((size) => size.slowTurnMs));
    return turnMs > TURN_MS_MAX * slowdown ? `a turn of the event loop of ${turnMs} ms` : null;
  }

  get #sizes(): readonly LeastCost[] {
    return [this.#quarter, this.#half, this.#whole];
  }

  /** Of each doubling, and of two: a step in the middle hides neither. A cost that can be a step does not count. */
  #findGrowth(slowdown: number): string | null {
    const [quarterMs = 0, measuredHalfMs = 0, wholeMs = 0] = this.#sizes.map((size) => size.ms);
    // The whole may have been measured more often. A half that costs more was measured in a busy moment.
    const halfMs = Math.min(measuredHalfMs, wholeMs);
    const growth = (smallMs: number, largeMs: number) =>
      largeMs <= STEP_MS * slowdown ? 1 : (largeMs - this.#collectionMs) / Math.max(smallMs, FLOOR_MS / 4);
    const isSteep =
      growth(halfMs, wholeMs) > GROWTH_MAX ||
      growth(quarterMs, halfMs) > GROWTH_MAX ||
      Math.sqrt(growth(quarterMs, wholeMs)) > GROWTH_MAX;
    if (!isSteep) return null;
    const figures = this.#sizes.map(({ ms }) => `${ms.toFixed(1)} ms`).join(", ");
    return `${figures}, at a quarter, a half and the whole,`;
  }
}

/** The least CPU time and the least slow turn of several runs of one size. */
class LeastCost {
  readonly #run: GrowthRun;
  readonly #size: number;
  readonly results: Result[] = [];
  ms = Number.POSITIVE_INFINITY;

  constructor(run: GrowthRun, size: number) {
    this.#run = run;
    this.#size = size;
  }

  get last(): Result {
    const last = this.results.at(-1);
    if (last === undefined) throw new Error("nothing is measured yet");
    return last;
  }

  /** 0 if a run had none, or if nothing is measured. */
  get slowTurnMs(): number {
    if (this.results.length === 0) return 0;
    return Math.min(...this.results.map((result) => result.slowTurnMs()));
  }

  async measure(): Promise<void> {
    const result = await this.#run.send(this.#size);
    this.results.push(result);
    this.ms = Math.min(this.ms, result.cpuMs);
  }
}

function limitMs({ msPerMib }: GrowthRun, bytes: number): number {
  return FLOOR_MS + (msPerMib * bytes) / MIB;
}

function describe({ name }: GrowthRun, { bytes, status }: Result, figures: string): string {
  return `${name}: ${figures} for ${kib(bytes)} KiB (status ${status})`;
}

/** Judges all runs and prints one line. Returns the problems. */
export async function judgeAll(
  title: string,
  runs: readonly GrowthRun[],
  bytes = DOCUMENT_BYTES,
): Promise<string[]> {
  const measurements = runs.map((run) => new Measurement(run, bytes));
  for (const measurement of measurements) await measurement.measure();
  await Bun.sleep(PAUSE_MS);
  const problems = await repeatSlow(measurements);
  console.log(reportLine(title, measurements, problems.length));
  return problems;
}

function reportLine(title: string, measurements: readonly Measurement[], problems: number): string {
  const results = measurements.flatMap((measurement) => measurement.results);
  const last = measurements.map((measurement) => measurement.last);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const cpuMs = sum(results.map((result) => result.cpuMs));
  const turnMs = Math.max(0, ...results.map((result) => result.slowTurnMs()));
  const memory = {
    before: results[0]?.memory.before ?? 0,
    peak: Math.max(0, ...results.map((result) => result.memory.peak)),
    after: results.at(-1)?.memory.after ?? 0,
  };
  const figures = [
    `${measurements.length} documents, the largest of ${kib(Math.max(0, ...last.map(({ bytes }) => bytes)))} KiB`,
    `sent ${mib(sum(results.map(({ bytes }) => bytes)))} MiB in ${results.length} runs`,
    `${last.filter(({ isForwarded }) => !isForwarded).length} rejected`,
    `CPU ${cpuMs.toFixed(0)} ms, ${(cpuMs / Math.max(1, results.length)).toFixed(1)} ms on average`,
    `worst turn ${turnMs === 0 ? `under ${TURN_MS_MAX}` : turnMs} ms`,
    `memory ${mib(memory.before)} MiB before, ${mib(memory.peak)} peak, ${mib(memory.after)} after`,
    `${problems} over a limit`,
  ];
  return `growth: ${title}: ${figures.join(", ")}`;
}

const kib = (bytes: number) => (bytes / 1024).toFixed(0);
const mib = (bytes: number) => (bytes / MIB).toFixed(1);

/** Measures again what was over a limit: other work of the machine ends, but work that grows too fast stays. */
async function repeatSlow(measurements: readonly Measurement[]): Promise<string[]> {
  let slowdown = 1;
  const isSlow = (measurement: Measurement) => measurement.findProblem(slowdown) !== null;
  let slow = measurements.filter(isSlow);
  for (let repeats = 0; repeats < REPEATS_MAX && slow.length > 0; repeats++) {
    slowdown = measureSlowdown();
    for (const measurement of slow) await measurement.measure();
    await Bun.sleep(PAUSE_MS);
    slow = slow.filter(isSlow);
  }
  return slow.flatMap((measurement) => measurement.findProblem(slowdown) ?? []);
}
