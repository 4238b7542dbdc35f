/** Whether a request can have an account now, and if not, why and until when. */

import type { Limiter, Shortage } from "../limits/limiter.ts";
import type { AccountRoute } from "../policy/snapshot.ts";
import {
  type Cause,
  type Circuit,
  hasFailedProbe,
  isFaulty,
  isOpen,
  isParked,
  needsAttention,
  opensInMs,
} from "./health.ts";
import { NO_OBSTACLES, type Obstacles, soonest } from "./outlook.ts";
import { computeScore, computeScoreCost } from "./score.ts";
import { isHealthy, type PoolSlot } from "./standing.ts";

/** Accounts that are disabled, or lack the model or the interface, are no candidates: the snapshot leaves them out. */
export type IneligibleReason = "cooling" | "parked" | "at_capacity" | "rate_limited" | "tried";

export interface Candidate {
  accountId: string;
  accountName: string;
  upstreamModel: string;
  priority: number;
  /** Load, latency and errors in one: lower is better. Null when it is not eligible. */
  score: number | null;
  reason: IneligibleReason | null;
  /** The failure that it cools down after, or is parked for. */
  cause?: Cause;
  /** Until it may be eligible again, if that is known. */
  freesInMs: number | null;
}

/** One request's view of the accounts. */
export interface SelectionRequest {
  readonly tried: readonly AccountRoute[];
  readonly tokens: number;
  readonly nowMs: number;
  /** Accounts whose own limits have refused this request. */
  refused: Map<PoolSlot, Shortage> | null;
}

/** Null if the seat can be taken. The way of every choice: allocates nothing. */
function obstacleOf(seat: PoolSlot, asked: SelectionRequest): IneligibleReason | null {
  const { nowMs } = asked;
  if (asked.tried.length > 0 && isTried(seat, asked.tried)) return "tried";
  if (!isHealthy(seat, nowMs)) return isParked(seat.health.circuit) ? "parked" : "cooling";
  if (nowMs < seat.lane.gauge.exhaustedUntilMs) return "rate_limited";
  if (seat.limited === null) return null;
  const { standing } = seat;
  const { concurrency } = seat.route.account.limits;
  if (concurrency !== null && standing.inFlight >= concurrency) return "at_capacity";
  if (nowMs < standing.shortUntilMs && asked.tokens >= standing.shortTokens) return "rate_limited";
  const shortage = asked.refused?.get(seat);
  return shortage === undefined ? null : reasonOf(shortage);
}

export function isFree(seat: PoolSlot, asked: SelectionRequest): boolean {
  return obstacleOf(seat, asked) === null;
}

/** By account, not by route alone: another name for the same model is no other account. */
export function isTried({ route }: PoolSlot, tried: readonly AccountRoute[]): boolean {
  for (const { account } of tried) if (account.id === route.account.id) return true;
  return false;
}

/** The account's own limits said no. Until time or a lower count helps, it need not be asked again. */
export function noteRefusal(seat: PoolSlot, shortage: Shortage, asked: SelectionRequest): void {
  asked.refused ??= new Map();
  asked.refused.set(seat, shortage);
  if (shortage.freesInMs === null) return;
  seat.standing.shortUntilMs = asked.nowMs + shortage.freesInMs;
  seat.standing.shortTokens = shortage.unit === "tokens" ? asked.tokens : 0;
}

const reasonOf = ({ kind }: Shortage): IneligibleReason =>
  kind === "concurrency" ? "at_capacity" : "rate_limited";

/** Until the obstacle may be gone; null if time alone does not remove it. */
function clearsInMs(
  seat: PoolSlot,
  obstacle: IneligibleReason,
  { nowMs, refused }: SelectionRequest,
): number | null {
  const { health, lane, standing } = seat;
  if (obstacle === "cooling") {
    const account = isOpen(health.circuit, nowMs) ? opensInMs(health.circuit, nowMs) : 0;
    return Math.max(account, isOpen(lane.circuit, nowMs) ? opensInMs(lane.circuit, nowMs) : 0);
  }
  if (obstacle !== "rate_limited") return null;
  const untilMs = Math.max(lane.gauge.exhaustedUntilMs, standing.shortUntilMs);
  return untilMs > nowMs ? untilMs - nowMs : (refused?.get(seat)?.freesInMs ?? null);
}

export interface Outlook {
  /** True if some candidate is only busy or cooling, so that waiting can help. */
  mayFree: boolean;
  /** Until the first of them may be eligible; null if only a release helps. */
  freesInMs: number | null;
  /** What stands in the way, by kind: `decide` (`outlook.ts`) reads it. */
  obstacles: Obstacles;
}

/** What waiting can bring when nothing can be taken now. */
export function computeOutlook(seats: Iterable<PoolSlot>, asked: SelectionRequest): Outlook {
  const obstacles: Obstacles = { ...NO_OBSTACLES };
  let mayFree = false;
  let soonestMs: number | null = null;
  for (const seat of seats) {
    const obstacle = obstacleOf(seat, asked);
    if (obstacle === null || obstacle === "tried") continue;
    const clearsMs = clearsInMs(seat, obstacle, asked);
    addObstacle(obstacles, seat, obstacle, clearsMs, asked.nowMs);
    // A limit that time does not clear is smaller than the request, or zero.
    if (obstacle === "parked" || (clearsMs === null && obstacle === "rate_limited")) continue;
    mayFree = true;
    soonestMs = soonest(soonestMs, clearsMs);
  }
  return { mayFree, freesInMs: soonestMs, obstacles };
}

function addObstacle(
  to: Obstacles,
  seat: PoolSlot,
  obstacle: Exclude<IneligibleReason, "tried">,
  clearsMs: number | null,
  nowMs: number,
): void {
  if (obstacle === "at_capacity") to.busy = true;
  else if (obstacle === "rate_limited") {
    if (clearsMs === null) to.neverFits = true;
    else to.limitedMs = soonest(to.limitedMs, clearsMs);
  } else addIllness(to, openCircuits(seat, nowMs), clearsMs);
}

function addIllness(to: Obstacles, open: readonly Circuit[], clearsMs: number | null): void {
  const faulty = open.filter(isFaulty);
  if (clearsMs === null || open.some(needsAttention)) to.outOfOrder = true;
  else if (faulty.length > 0) {
    to.failingMs = soonest(to.failingMs, clearsMs);
    if (!faulty.some(hasFailedProbe)) to.firstProbeMs = soonest(to.firstProbeMs, clearsMs);
  } else if (open.some(({ cause }) => cause === "rate_limited")) {
    to.limitedMs = soonest(to.limitedMs, clearsMs);
  } else to.overloadedMs = soonest(to.overloadedMs, clearsMs);
}

function openCircuits({ health, lane }: PoolSlot, nowMs: number): Circuit[] {
  return [health.circuit, lane.circuit].filter((circuit) => isOpen(circuit, nowMs));
}

/** Of two open circuits the one that keeps the account away longer. */
function causeOf(seat: PoolSlot, nowMs: number): Cause | null {
  const [first, second] = openCircuits(seat, nowMs);
  if (first === undefined || second === undefined) return first?.cause ?? null;
  return (opensInMs(second, nowMs) > opensInMs(first, nowMs) ? second : first).cause;
}

export function buildCandidate(seat: PoolSlot, asked: SelectionRequest, limiter: Limiter): Candidate {
  const { limited } = seat;
  let reason = obstacleOf(seat, asked);
  let freesInMs = reason === null ? null : clearsInMs(seat, reason, asked);
  const shortage =
    reason === null && limited !== null ? limiter.shortageOf(limited[0], asked.tokens, 0) : null;
  if (shortage !== null) {
    reason = reasonOf(shortage);
    freesInMs = shortage.freesInMs;
  }
  const score =
    reason === null ? computeScore(seat.standing.inFlight, seat.weight, costIn(seat, asked)) : null;
  const cause = reason === "cooling" || reason === "parked" ? causeOf(seat, asked.nowMs) : null;
  const found = candidate(seat, score, reason, freesInMs);
  return cause === null ? found : { ...found, cause };
}

/** The one that was taken, as it stood before it held this request. */
export function chosenCandidate(seat: PoolSlot, asked: SelectionRequest): Candidate {
  const others = Math.max(0, seat.standing.inFlight - 1);
  const score = computeScore(others, seat.weight, costIn(seat, asked));
  return candidate(seat, score, null, null);
}

const costIn = ({ lane }: PoolSlot, { nowMs }: SelectionRequest) =>
  computeScoreCost(lane.gauge, lane.typicalMs, nowMs);

function candidate(
  { route: { account, upstreamModel } }: PoolSlot,
  score: number | null,
  reason: IneligibleReason | null,
  freesInMs: number | null,
): Candidate {
  return {
    accountId: account.id,
    accountName: account.name,
    upstreamModel,
    priority: account.priority,
    score,
    reason,
    freesInMs,
  };
}
