/** Raw rounds → the numbers that are shown, and the goals they are held against. */

import type { BillingCost } from "./billing-cost.ts";
import budget from "./budget.json";
import type { DispatchCost } from "./dispatch-cost.ts";
import { type Load, type LoadRun, SUBJECTS, type SubjectName } from "./load.ts";
import { median, quantile } from "./measure.ts";
import { computeCapacity, findPhase, type NodePhase, type NodeResults, nodeCpuRatio } from "./nodes.ts";
import type { PolicyCost } from "./policy-cost.ts";
import type { MemoryReport, SequentialRound, StartupReport } from "./single-measures.ts";
import { addedTurnMs, eventRatio, paceRatio, type SocketResults } from "./sockets.ts";
import type { TelemetryResults } from "./telemetry.ts";
import type { TranslateCost } from "./translate-cost.ts";

export interface Results {
  loads: { load: Load; rounds: LoadRun[][] }[];
  eventsPerChunk: number | null;
  sequential: Partial<SequentialRound>[];
  memory: MemoryReport | null;
  startup: StartupReport | null;
  dispatch: DispatchCost | null;
  translate: TranslateCost | null;
  policy: PolicyCost | null;
  billing: BillingCost | null;
  sockets: SocketResults | null;
  nodes: NodeResults | null;
  telemetry: TelemetryResults | null;
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
  /** Whether the figure may not be above the limit, or not below it. */
  bound: "≤" | "≥";
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

type AddGoal = (
  title: BudgetTitle,
  measured: number | null | undefined,
  unit: string,
  bound?: Goal["bound"],
) => void;

export function goals(results: Results): Goal[] {
  const list: Goal[] = [];
  const add: AddGoal = (title, measured, unit, bound = "≤") => {
    if (measured === null || measured === undefined) return;
    const limit = budget[title];
    const met = bound === "≤" ? measured <= limit : measured >= limit;
    list.push({ title, limit, bound, measured, unit, met });
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
  const { policy } = results;
  add("request policy, rules on top-level members", policy?.topLevelMicros, "µs");
  add("request policy, inputs of 1 KB", policy?.inputsMicrosPerKb, "µs");
  add(
    "request policy, tools against a plain walk",
    policy && policy.toolsMicrosPerKb / policy.walkMicrosPerKb,
    "×",
  );
  add("request policy, a forced member in 90 KB", policy && policy.forcedMicros + policy.reopenMicros, "µs");
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
  if (results.nodes !== null) addNodeGoals(results.nodes, add);
  add("tracing of a request", results.telemetry?.cost.tracingMicros, "µs");
  return list;
}

function addNodeGoals(nodes: NodeResults, add: AddGoal): void {
  const [one, three] = [findPhase(nodes, 1), findPhase(nodes, 3)];
  add("paid request on PostgreSQL, CPU of the node against SQLite", one && nodeCpuRatio(one), "×");
  const settlementsMs = nodes.phases.map(({ settlementP99Ms }) => settlementP99Ms);
  add("settlement on PostgreSQL, p99", Math.max(...settlementsMs), "ms");
  if (one !== undefined && three !== undefined) {
    const capacity = (phase: NodePhase) => computeCapacity(nodes, phase, "paced").requestsPerSecond;
    // More than three times as much would be a difference between phases of the machine.
    const gain = Math.min(three.nodes, capacity(three) / capacity(one));
    add("three nodes against one, computed from CPU", gain, "×", "≥");
  }
  for (const { engine, even, oneSided, roundTripMs } of nodes.coordination) {
    const runs = [even, oneSided];
    const calls = runs.map(({ callsPerSecondAndNode }) => callsPerSecondAndNode);
    add(CALL_GOALS[engine], Math.max(...calls), "/s");
    if (engine !== "postgres") continue;
    add("wait for limits of other nodes, p50", Math.max(...runs.map(({ waitP50Ms }) => waitP50Ms)), "ms");
    const waitP99Ms = Math.max(...runs.map((run) => run.waitP99Ms));
    add("wait for limits of other nodes, p99, in round trips", waitP99Ms / roundTripMs, "×");
  }
}

const CALL_GOALS = {
  postgres: "coordinator calls of a node, PostgreSQL",
  redis: "coordinator calls of a node, Redis",
} as const;
