/** Builds the timeline of one request from its trace, in milliseconds since the request arrived. */

import type { DispatchTrace } from "../../gateway/request/trace.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";

type TimelineStep = { fromMs: number; toMs: number } & (
  | { kind: "checks" }
  | { kind: "wait" }
  /** Until the first byte, or until the failure. */
  | { kind: "attempt"; number: number; status: number | null; failure: string | null }
  /** From the first byte on. */
  | { kind: "response" }
);

export interface Attempt {
  number: number;
  accountId: string | null;
  accountName: string | null;
  upstreamModel: string | null;
  startedMs: number;
  firstByteMs: number | null;
  endedMs: number | null;
  status: number | null;
  failure: string | null;
  reason: string | null;
}

export function readTrace({ trace }: Pick<UsageRow, "trace">): DispatchTrace | null {
  return trace === null ? null : JSON.parse(trace);
}

/** A request with a single successful attempt has no stored trace. Its usage row contains everything. */
export function readAttempts(row: UsageRow, trace: DispatchTrace | null): Attempt[] {
  if (trace !== null) return trace.attempts.map((attempt, i) => ({ number: i + 1, ...attempt }));
  if (row.attempts === 0) return [];
  const { accountId, upstreamModel, firstByteMs, waitMs, durationMs, status } = row;
  return [
    {
      number: 1,
      accountId,
      accountName: null,
      upstreamModel,
      startedMs: waitMs,
      firstByteMs,
      endedMs: durationMs,
      status: firstByteMs === null ? status : 200,
      failure: null,
      reason: null,
    },
  ];
}

/**
 * Each step begins where the previous one ended. Only the total waiting time is known. It is assigned to the
 * pauses before the attempts from the last one backwards, because the first pause also contains the checks.
 */
export function buildTimeline(
  row: Pick<UsageRow, "durationMs" | "waitMs">,
  attempts: readonly Attempt[],
): TimelineStep[] {
  const last = attempts.at(-1);
  const pauses = attempts.map(({ startedMs }, i) => {
    const before = attempts[i - 1];
    return { fromMs: before === undefined ? 0 : (before.endedMs ?? startedMs), toMs: startedMs };
  });
  // Rejected while waiting: the last pause is not followed by an attempt.
  const lastEndMs = last === undefined ? 0 : last.failure === null ? null : last.endedMs;
  if (lastEndMs !== null) pauses.push({ fromMs: lastEndMs, toMs: row.durationMs });
  let waitLeftMs = row.waitMs;
  const filled = pauses.toReversed().map((pause) => {
    const waitedMs = Math.min(waitLeftMs, Math.max(0, pause.toMs - pause.fromMs));
    waitLeftMs -= waitedMs;
    return { ...pause, waitedMs };
  });
  const steps: TimelineStep[] = [];
  for (const [i, { fromMs, toMs, waitedMs }] of filled.toReversed().entries()) {
    if (i === 0) steps.push({ kind: "checks", fromMs, toMs: toMs - waitedMs });
    if (waitedMs > 0) steps.push({ kind: "wait", fromMs: toMs - waitedMs, toMs });
    const attempt = attempts[i];
    if (attempt !== undefined) steps.push(...attemptSteps(attempt, row.durationMs));
  }
  return steps;
}

function attemptSteps(attempt: Attempt, durationMs: number): TimelineStep[] {
  const { number, startedMs, firstByteMs, endedMs, status, failure } = attempt;
  const untilMs = failure === null ? (firstByteMs ?? durationMs) : (endedMs ?? durationMs);
  const step = { kind: "attempt", number, status, failure, fromMs: startedMs, toMs: untilMs } as const;
  if (failure !== null || firstByteMs === null) return [step];
  return [step, { kind: "response", fromMs: firstByteMs, toMs: durationMs }];
}
