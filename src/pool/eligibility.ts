/** Decides whether a request can use an account now, and if not, why and until when. */

import type { EstimatedUse, Limiter, Shortage } from "../limits/limiter-types.ts";
import type { AccountRoute } from "../policy/snapshot.ts";
import { type AccountState, isHealthy, type PoolSlot } from "./account-state.ts";
import type { Cause } from "./cool-down.ts";
import {
  type Circuit,
  hasFailedProbe,
  isFaulty,
  isOpen,
  isParked,
  needsAttention,
  usableInMs,
} from "./health.ts";
import { computeScore, computeScoreCost } from "./score.ts";
import { NO_OBSTACLES, type Obstacles, soonest } from "./wait-decision.ts";

/** Accounts that are disabled, or lack the model or the interface, are not candidates: the snapshot omits them. */
export type IneligibleReason = "cooling" | "parked" | "at_capacity" | "rate_limited" | "tried";

export interface Candidate {
  accountId: string;
  accountName: string;
  upstreamModel: string;
  priority: number;
  /** Load, latency and errors in one number; lower is better. Null if the account is not eligible. */
  score: number | null;
  reason: IneligibleReason | null;
  /** The failure that caused the cool-down or parking. */
  cause?: Cause;
  /** Time until the account may be eligible again, if known. */
  freesInMs: number | null;
}

/** What the selection needs to know about one request. */
export interface SelectionRequest {
  readonly tried: readonly AccountRoute[];
  /** What the limits of the accounts count. */
  readonly estimate: EstimatedUse;
  readonly nowMs: number;
  /** Accounts whose own limits rejected this request. */
  refused: Map<PoolSlot, Shortage> | null;
  /** Ids of the accounts whose limits this request has tried to borrow. */
  readonly asked?: ReadonlySet<string> | undefined;
}

/** Null if the slot can be taken. On the path of every choice, so it allocates nothing. */
function findObstacle(slot: PoolSlot, selection: SelectionRequest): IneligibleReason | null {
  const { nowMs } = selection;
  if (selection.tried.length > 0 && isTried(slot, selection.tried)) return "tried";
  if (!isHealthy(slot, nowMs)) return isParked(slot.health.circuit) ? "parked" : "cooling";
  if (nowMs < slot.model.gauge.exhaustedUntilMs) return "rate_limited";
  if (slot.limited === null) return null;
  const { accountState } = slot;
  const { concurrency } = slot.route.account.limits;
  if (concurrency !== null && accountState.inFlight >= concurrency) return "at_capacity";
  if (nowMs < accountState.shortUntilMs && isShortFor(accountState, selection)) return "rate_limited";
  const shortage = selection.refused?.get(slot);
  return shortage === undefined ? null : toReason(shortage);
}

export function isFree(slot: PoolSlot, selection: SelectionRequest): boolean {
  return findObstacle(slot, selection) === null;
}

/** Compares accounts and not routes: another name for the same model is the same account. */
export function isTried({ route }: PoolSlot, tried: readonly AccountRoute[]): boolean {
  for (const { account } of tried) if (account.id === route.account.id) return true;
  return false;
}

function isShortFor({ shortUnit, shortAmount }: AccountState, { estimate }: SelectionRequest): boolean {
  return shortUnit === "requests" || (estimate[shortUnit] ?? 0) >= shortAmount;
}

/** Remembers that the account's own limits rejected the request, until time or a smaller request can help. */
export function noteRejection(slot: PoolSlot, shortage: Shortage, selection: SelectionRequest): void {
  selection.refused ??= new Map();
  selection.refused.set(slot, shortage);
  if (shortage.freesInMs === null) return;
  const { accountState } = slot;
  accountState.shortUntilMs = selection.nowMs + shortage.freesInMs;
  accountState.shortUnit = shortage.unit;
  accountState.shortAmount = shortage.unit === "requests" ? 1 : (selection.estimate[shortage.unit] ?? 0);
}

const toReason = ({ kind }: Shortage): IneligibleReason =>
  kind === "concurrency" ? "at_capacity" : "rate_limited";

/** Time until the obstacle may be gone; null if time alone does not remove it. */
function clearsInMs(
  slot: PoolSlot,
  obstacle: IneligibleReason,
  { nowMs, refused }: SelectionRequest,
): number | null {
  const { health, model, accountState } = slot;
  if (obstacle === "cooling") {
    const account = isOpen(health.circuit, nowMs) ? usableInMs(health.circuit, nowMs) : 0;
    return Math.max(account, isOpen(model.circuit, nowMs) ? usableInMs(model.circuit, nowMs) : 0);
  }
  if (obstacle !== "rate_limited") return null;
  const untilMs = Math.max(model.gauge.exhaustedUntilMs, accountState.shortUntilMs);
  return untilMs > nowMs ? untilMs - nowMs : (refused?.get(slot)?.freesInMs ?? null);
}

export interface Unavailability {
  /** True if some candidate is only busy or cooling down, so that waiting can help. */
  mayFree: boolean;
  /** Time until the first of them may be eligible; null if only a release helps. */
  freesInMs: number | null;
  /** The obstacles by kind; `decideWait` (`wait-decision.ts`) reads them. */
  obstacles: Obstacles;
}

/** Why no account is available now, and whether waiting can help. */
export function computeUnavailability(
  slots: Iterable<PoolSlot>,
  selection: SelectionRequest,
): Unavailability {
  const obstacles: Obstacles = { ...NO_OBSTACLES };
  let mayFree = false;
  let soonestMs: number | null = null;
  for (const slot of slots) {
    const obstacle = findObstacle(slot, selection);
    if (obstacle === null || obstacle === "tried") continue;
    const clearsMs = clearsInMs(slot, obstacle, selection);
    addObstacle(obstacles, slot, obstacle, clearsMs, selection.nowMs);
    // A limit that time does not clear is smaller than the request, or zero.
    if (obstacle === "parked" || (clearsMs === null && obstacle === "rate_limited")) continue;
    mayFree = true;
    soonestMs = soonest(soonestMs, clearsMs);
  }
  return { mayFree, freesInMs: soonestMs, obstacles };
}

function addObstacle(
  to: Obstacles,
  slot: PoolSlot,
  obstacle: Exclude<IneligibleReason, "tried">,
  clearsMs: number | null,
  nowMs: number,
): void {
  if (obstacle === "at_capacity") to.busy = true;
  else if (obstacle === "rate_limited") {
    if (clearsMs === null) to.neverFits = true;
    else to.limitedMs = soonest(to.limitedMs, clearsMs);
  } else addOpenCircuits(to, openCircuits(slot, nowMs), clearsMs);
}

function addOpenCircuits(to: Obstacles, open: readonly Circuit[], clearsMs: number | null): void {
  const faulty = open.filter(isFaulty);
  if (clearsMs === null || open.some(needsAttention)) to.outOfOrder = true;
  else if (faulty.length > 0) {
    to.failingMs = soonest(to.failingMs, clearsMs);
    if (!faulty.some(hasFailedProbe)) to.firstProbeMs = soonest(to.firstProbeMs, clearsMs);
  } else if (open.some(({ cause }) => cause === "rate_limited")) {
    to.limitedMs = soonest(to.limitedMs, clearsMs);
  } else to.overloadedMs = soonest(to.overloadedMs, clearsMs);
}

function openCircuits({ health, model }: PoolSlot, nowMs: number): Circuit[] {
  return [health.circuit, model.circuit].filter((circuit) => isOpen(circuit, nowMs));
}

/** The cause of the open circuit that blocks the account longer. */
function findCause(slot: PoolSlot, nowMs: number): Cause | null {
  const [first, second] = openCircuits(slot, nowMs);
  if (first === undefined || second === undefined) return first?.cause ?? null;
  return (usableInMs(second, nowMs) > usableInMs(first, nowMs) ? second : first).cause;
}

export function buildCandidate(slot: PoolSlot, selection: SelectionRequest, limiter: Limiter): Candidate {
  const { limited } = slot;
  let reason = findObstacle(slot, selection);
  let freesInMs = reason === null ? null : clearsInMs(slot, reason, selection);
  const shortage =
    reason === null && limited !== null ? limiter.checkShortage(limited[0], selection.estimate) : null;
  if (shortage !== null) {
    reason = toReason(shortage);
    freesInMs = shortage.freesInMs;
  }
  const score =
    reason === null
      ? computeScore(slot.accountState.inFlight, slot.weight, scoreCost(slot, selection))
      : null;
  const cause = reason === "cooling" || reason === "parked" ? findCause(slot, selection.nowMs) : null;
  const result = candidate(slot, score, reason, freesInMs);
  return cause === null ? result : { ...result, cause };
}

/** The candidate that was taken, with its score before this request. */
export function chosenCandidate(slot: PoolSlot, selection: SelectionRequest): Candidate {
  const others = Math.max(0, slot.accountState.inFlight - 1);
  const score = computeScore(others, slot.weight, scoreCost(slot, selection));
  return candidate(slot, score, null, null);
}

const scoreCost = ({ model }: PoolSlot, { nowMs }: SelectionRequest) =>
  computeScoreCost(model.gauge, model.typicalMs, nowMs);

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
