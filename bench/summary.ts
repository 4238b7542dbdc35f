/** Raw rounds → the numbers that are shown, and the goals they are held against. */

import type { BillingCost } from "./billing-cost.ts";
import budget from "./budget.json";
import type { DispatchCost } from "./dispatch-cost.ts";
import { type Load, type LoadRun, SUBJECTS, type SubjectName } from "./load.ts";
import { median, quantile } from "./measure.ts";
import type { MemoryReport, SequentialRound, StartupReport } from "./single-measures.ts";
import { addedTurnMs, eventRatio, paceRatio, type SocketResults } from "./sockets.ts";
import type { TranslateCost } from "./translate-cost.ts";

export interface Results {
  loads: { load: Load; rounds: LoadRun[][] }[];
  eventsPerChunk: number | null;
  sequential: Partial<SequentialRound>[];
  memory: MemoryReport | null;
  startup: StartupReport | null;
  dispatch: DispatchCost | null;
  translate: TranslateCost | null;
  billing: BillingCost | null;
  sockets: SocketResults | null;
}

export interface LoadRow {
  load: Load["id"];
  title: string;
  subject: SubjectName;
  requestsPerSecond: number;
  p50Ms: number;
  p90Ms: number;
  p99Ms: number;
  /** Per event for streams, per request otherwise. */
  unit: "request" | "event";
  process: {
    cpuMicros: number;
    cpuMicrosPerRequest: number;
    ratio: number;
    /** Between these lies half of the rounds. */
    ratioQuartiles: readonly [number, number];
    busyShare: number;
    rssBytes: number;
  } | null;
}

export interface SequentialRow {
  subject: SubjectName;
  p50Ms: number;
  p99Ms: number;
  /** Against direct in the same round; null for direct. */
  addedP50Ms: number | null;
  addedP99Ms: number | null;
}

export interface Goal {
  title: string;
  limit: number;
  measured: number;
  unit: string;
  met: boolean;
}

/**
 * The median (or another quantile) of one number over the rounds; ratios are taken within a round, since machines are
 * noisy between them.
 */
function over<Round>(
  rounds: readonly Round[],
  pick: (round: Round) => number | undefined,
  share = 0.5,
): number {
  return quantile(
    rounds.map(pick).filter((value) => value !== undefined),
    share,
  );
}

export function loadRows({ load, rounds }: Results["loads"][number]): LoadRow[] {
  const unit = load.streaming ? "event" : "request";
  const cost = (run: LoadRun | undefined) =>
    unit === "event" ? run?.process?.cpuMicrosPerEvent : run?.process?.cpuMicrosPerRequest;
  return SUBJECTS.map((subject) => {
    const of = (round: LoadRun[], name: SubjectName = subject) => round.find((run) => run.subject === name);
    const ratio = (round: LoadRun[]) => {
      const [mine, floor] = [cost(of(round)), cost(of(round, "nginx"))];
      return mine === undefined || floor === undefined ? undefined : mine / floor;
    };
    return {
      load: load.id,
      title: load.title,
      subject,
      requestsPerSecond: over(rounds, (round) => of(round)?.requestsPerSecond),
      p50Ms: over(rounds, (round) => of(round)?.latencyMs.p50),
      p90Ms: over(rounds, (round) => of(round)?.latencyMs.p90),
      p99Ms: over(rounds, (round) => of(round)?.latencyMs.p99),
      unit,
      process:
        subject === "direct"
          ? null
          : {
              cpuMicros: over(rounds, (round) => cost(of(round))),
              cpuMicrosPerRequest: over(rounds, (round) => of(round)?.process?.cpuMicrosPerRequest),
              ratio: over(rounds, ratio),
              ratioQuartiles: [over(rounds, ratio, 0.25), over(rounds, ratio, 0.75)],
              busyShare: over(rounds, (round) => of(round)?.process?.busyShare),
              rssBytes: Math.max(...rounds.map((round) => of(round)?.process?.rssBytes ?? 0)),
            },
    };
  });
}

export function sequentialRows(rounds: readonly Partial<SequentialRound>[]): SequentialRow[] {
  if (rounds.length === 0) return [];
  const added = (round: Partial<SequentialRound>, subject: SubjectName, at: "p50Ms" | "p99Ms") => {
    const [mine, floor] = [round[subject]?.[at], round.direct?.[at]];
    return mine === undefined || floor === undefined ? undefined : mine - floor;
  };
  return SUBJECTS.map((subject) => ({
    subject,
    p50Ms: over(rounds, (round) => round[subject]?.p50Ms),
    p99Ms: over(rounds, (round) => round[subject]?.p99Ms),
    addedP50Ms: subject === "direct" ? null : over(rounds, (round) => added(round, subject, "p50Ms")),
    addedP99Ms: subject === "direct" ? null : over(rounds, (round) => added(round, subject, "p99Ms")),
  }));
}

/** The committed budget: a figure above it is a regression, one below it is no reason for tuning. */
type BudgetTitle = keyof typeof budget;

export function goals(results: Results): Goal[] {
  const list: Goal[] = [];
  const add = (title: BudgetTitle, measured: number | null | undefined, unit: string) => {
    if (measured === null || measured === undefined) return;
    const limit = budget[title];
    list.push({ title, limit, measured, unit, met: measured <= limit });
  };
  const rows = results.loads.flatMap(loadRows).filter((row) => row.subject === "gateway");
  const ratio = (load: Load["id"]) => rows.find((row) => row.load === load)?.process?.ratio;
  add("unary 1 KB, CPU against nginx", ratio("unary-1k"), "×");
  add("unary 20 KB, CPU against nginx", ratio("unary-20k"), "×");
  add("unary 200 KB, CPU against nginx", ratio("unary-200k"), "×");
  add("chat event, CPU against nginx", ratio("sse-chat"), "×");
  add("responses event, CPU against nginx", ratio("sse-responses"), "×");
  const lone = sequentialRows(results.sequential).find((row) => row.subject === "gateway");
  add("added latency of a lone request, p50", lone?.addedP50Ms, "ms");
  const { memory, startup } = results;
  add("memory with 1,000 open streams", memory && memory.openBytes / 1e6, "MB");
  add("ready with 10,000 keys", startup && median(startup.storedMs), "ms");
  add("admission and dispatch, 1,000 accounts", results.dispatch?.microsPerRequest, "µs");
  const { translate } = results;
  add("translated request of 20 KB", translate?.requestMicros, "µs");
  add(
    "translated event, CPU against a passed one",
    translate && translate.translatedEventMicros / translate.passedEventMicros,
    "×",
  );
  add("translation up to the first content", translate && translate.firstContentMicros / 1_000, "ms");
  add("hold and settle", results.billing?.holdAndSettleMicros, "µs");
  const { sockets } = results;
  if (sockets !== null) {
    add("memory with 10,000 idle sockets", sockets.idle.openBytes / 1e6, "MB");
    add("turn on a warm socket, added p50, upstream by HTTP", addedTurnMs(sockets, "bridge"), "ms");
    add("turn on a warm socket, added p50, upstream socket", addedTurnMs(sockets, "native"), "ms");
    add("socket event, CPU against an SSE event", eventRatio(sockets, "bridge"), "×");
    add("socket event, upstream socket, CPU against SSE", eventRatio(sockets, "native"), "×");
    add("1,000 busy sockets, p99 of a turn against direct", paceRatio(sockets, "bridge"), "×");
    add("the same with upstream sockets", paceRatio(sockets, "native"), "×");
  }
  return list;
}
