/**
 * The accounts of one priority, and the drawing of lots among them: two are drawn in proportion to weight and
 * cost, and the less loaded is taken. Shares are worked out once for as many choices as there are accounts, so
 * that a choice costs the same among ten and among a thousand.
 */

import { isFree, type SelectionRequest } from "./eligibility.ts";
import { computeScoreCost, isLighter } from "./score.ts";
import { isHealthy, type PoolSlot } from "./standing.ts";

export interface Tier {
  readonly priority: number;
  readonly seats: readonly PoolSlot[];
  /** Shares, each added to those before it. */
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

/** A seat that can be taken, or null when there is none in this tier. */
export function choose(tier: Tier, asked: SelectionRequest, random: () => number): PoolSlot | null {
  const { seats } = tier;
  const { nowMs } = asked;
  const [only] = seats;
  if (only === undefined) return null;
  if (seats.length === 1) return isFree(only, asked) ? only : null;
  if (--tier.choicesLeft < 0 || nowMs >= tier.freshUntilMs) shareOut(tier, nowMs);
  let first: PoolSlot | null = null;
  for (let draws = 0; draws < DRAWS_MAX; draws++) {
    const drawn = draw(tier, random);
    if (drawn === null || !isFree(drawn, asked)) continue;
    if (first !== null) return lighter(first, drawn);
    first = drawn;
  }
  return first ?? chooseAmong(seats, asked, random);
}

function shareOut(tier: Tier, nowMs: number): void {
  const typicalMs = typicalLatency(tier.seats);
  let total = 0;
  let i = 0;
  for (const seat of tier.seats) {
    seat.lane.typicalMs = typicalMs;
    if (isHealthy(seat, nowMs)) total += shareOf(seat, nowMs);
    tier.sums[i++] = total;
  }
  tier.total = total;
  tier.freshUntilMs = nowMs + SHARES_FRESH_MS;
  tier.choicesLeft = tier.seats.length;
}

const shareOf = ({ weight, lane }: PoolSlot, nowMs: number) =>
  weight / computeScoreCost(lane.gauge, lane.typicalMs, nowMs);

/** The harmonic mean: one account that hangs does not make the others look quick. */
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

/** Seats with their shares, each added to those before it. */
interface Lots {
  readonly seats: readonly PoolSlot[];
  readonly sums: ArrayLike<number>;
  readonly total: number;
}

function draw({ seats, sums, total }: Lots, random: () => number): PoolSlot | null {
  if (total === 0) return null;
  const mark = random() * total;
  let low = 0;
  let high = sums.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sums[middle] ?? 0) > mark) high = middle;
    else low = middle + 1;
  }
  return seats[low] ?? null;
}

/** The slow way, for when lots keep falling on accounts that cannot be taken. */
function chooseAmong(
  all: readonly PoolSlot[],
  asked: SelectionRequest,
  random: () => number,
): PoolSlot | null {
  const seats = all.filter((seat) => isFree(seat, asked));
  const sums: number[] = [];
  let total = 0;
  for (const seat of seats) {
    total += shareOf(seat, asked.nowMs);
    sums.push(total);
  }
  const first = draw({ seats, sums, total }, random);
  const second = draw({ seats, sums, total }, random);
  return first === null || second === null ? null : lighter(first, second);
}

function lighter(first: PoolSlot, second: PoolSlot): PoolSlot {
  const inFlight = first.standing.inFlight;
  if (inFlight === 0) return first;
  const load = { inFlight: second.standing.inFlight, weight: second.weight };
  return isLighter(load, { inFlight, weight: first.weight }) ? second : first;
}
