/**
 * The accounts of one priority, and the random choice among them: two are drawn in proportion to weight and cost, and
 * the less loaded one is taken. Shares are computed once for as many choices as there are accounts, so a choice costs
 * the same among ten and among a thousand accounts.
 */

import { isFree, type SelectionRequest } from "./eligibility.ts";
import { computeScoreCost, isLighter } from "./score.ts";
import { isHealthy, type PoolSlot } from "./standing.ts";

export interface Tier {
  readonly priority: number;
  readonly seats: readonly PoolSlot[];
  /** Cumulative shares. */
  readonly sums: Float64Array;
  total: number;
  freshUntilMs: number;
  choicesLeft: number;
}

/** Best priority first. */
export function buildTiers(seats: readonly PoolSlot[]): Tier[] {
  const byPriority = Map.groupBy(seats, ({ route }) => route.account.priority);
  return [...byPriority]
    .sort(([a], [b]) => a - b)
    .map(([priority, members]) => ({
      priority,
      seats: members,
      sums: new Float64Array(members.length),
      total: 0,
      freshUntilMs: 0,
      choicesLeft: 0,
    }));
}

const SHARES_FRESH_MS = 100;
const DRAWS_MAX = 8;

/** An account slot that can be taken, or null if this tier has none. */
export function choose(tier: Tier, selection: SelectionRequest, random: () => number): PoolSlot | null {
  const { seats } = tier;
  const { nowMs } = selection;
  const [only] = seats;
  if (only === undefined) return null;
  if (seats.length === 1) return isFree(only, selection) ? only : null;
  if (--tier.choicesLeft < 0 || nowMs >= tier.freshUntilMs) computeShares(tier, nowMs);
  let first: PoolSlot | null = null;
  for (let draws = 0; draws < DRAWS_MAX; draws++) {
    const drawn = draw(tier, random);
    if (drawn === null || !isFree(drawn, selection)) continue;
    if (first !== null) return pickLighter(first, drawn);
    first = drawn;
  }
  return first ?? chooseAmong(seats, selection, random);
}

function computeShares(tier: Tier, nowMs: number): void {
  const typicalMs = typicalLatency(tier.seats);
  let total = 0;
  let i = 0;
  for (const slot of tier.seats) {
    slot.lane.typicalMs = typicalMs;
    if (isHealthy(slot, nowMs)) total += computeShare(slot, nowMs);
    tier.sums[i++] = total;
  }
  tier.total = total;
  tier.freshUntilMs = nowMs + SHARES_FRESH_MS;
  tier.choicesLeft = tier.seats.length;
}

const computeShare = ({ weight, lane }: PoolSlot, nowMs: number) =>
  weight / computeScoreCost(lane.gauge, lane.typicalMs, nowMs);

/** The harmonic mean: one hanging account does not make the others look fast. */
function typicalLatency(seats: readonly PoolSlot[]): number {
  let measured = 0;
  let speed = 0;
  for (const { lane } of seats) {
    if (lane.gauge.latencyMs === 0) continue;
    measured++;
    speed += 1 / lane.gauge.latencyMs;
  }
  return measured === 0 ? 0 : measured / speed;
}

/** Account slots with their cumulative shares. */
interface WeightedSlots {
  readonly seats: readonly PoolSlot[];
  readonly sums: ArrayLike<number>;
  readonly total: number;
}

function draw({ seats, sums, total }: WeightedSlots, random: () => number): PoolSlot | null {
  if (total === 0) return null;
  const target = random() * total;
  let low = 0;
  let high = sums.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sums[middle] ?? 0) > target) high = middle;
    else low = middle + 1;
  }
  return seats[low] ?? null;
}

/** The slow path, if the draws keep hitting accounts that cannot be taken. */
function chooseAmong(
  all: readonly PoolSlot[],
  selection: SelectionRequest,
  random: () => number,
): PoolSlot | null {
  const seats = all.filter((slot) => isFree(slot, selection));
  const sums: number[] = [];
  let total = 0;
  for (const slot of seats) {
    total += computeShare(slot, selection.nowMs);
    sums.push(total);
  }
  const first = draw({ seats, sums, total }, random);
  const second = draw({ seats, sums, total }, random);
  return first === null || second === null ? null : pickLighter(first, second);
}

function pickLighter(first: PoolSlot, second: PoolSlot): PoolSlot {
  const inFlight = first.standing.inFlight;
  if (inFlight === 0) return first;
  const load = { inFlight: second.standing.inFlight, weight: second.weight };
  return isLighter(load, { inFlight, weight: first.weight }) ? second : first;
}
