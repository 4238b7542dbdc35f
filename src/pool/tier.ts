/**
 * The accounts of one priority that serve a request in the same way, natively or by translation, and the random choice
 * among them: two are drawn in proportion to weight and cost, and the less loaded one is taken. Shares are computed
 * once for as many choices as there are accounts, so a choice costs the same among ten and among a thousand accounts.
 */

import { isHealthy, type PoolSlot } from "./account-state.ts";
import { isFree, type SelectionRequest } from "./eligibility.ts";
import { computeScoreCost, isLighter } from "./score.ts";

export interface Tier {
  readonly priority: number;
  readonly slots: readonly PoolSlot[];
  /** Cumulative shares. */
  readonly sums: Float64Array;
  total: number;
  freshUntilMs: number;
  choicesLeft: number;
}

/** Best priority first; of one priority the accounts that serve the request without translation first. */
export function buildTiers(slots: readonly PoolSlot[]): Tier[] {
  const native = Map.groupBy(slots.filter(isNative), ({ route }) => route.account.priority);
  const translated = Map.groupBy(
    slots.filter((slot) => !isNative(slot)),
    ({ route }) => route.account.priority,
  );
  // The sort is stable, so the native accounts stay first.
  return [...native, ...translated]
    .sort(([a], [b]) => a - b)
    .map(([priority, members]) => ({
      priority,
      slots: members,
      sums: new Float64Array(members.length),
      total: 0,
      freshUntilMs: 0,
      choicesLeft: 0,
    }));
}

function isNative({ route }: PoolSlot): boolean {
  return route.translation === null;
}

const SHARES_FRESH_MS = 100;
const DRAWS_MAX = 8;

/** An account slot that can be taken, or null if this tier has none. */
export function choose(tier: Tier, selection: SelectionRequest, random: () => number): PoolSlot | null {
  const { slots } = tier;
  const { nowMs } = selection;
  const [only] = slots;
  if (only === undefined) return null;
  if (slots.length === 1) return isFree(only, selection) ? only : null;
  if (--tier.choicesLeft < 0 || nowMs >= tier.freshUntilMs) computeShares(tier, nowMs);
  let first: PoolSlot | null = null;
  for (let draws = 0; draws < DRAWS_MAX; draws++) {
    const drawn = draw(tier, random);
    if (drawn === null || !isFree(drawn, selection)) continue;
    if (first !== null) return pickLighter(first, drawn);
    first = drawn;
  }
  return first ?? chooseAmong(slots, selection, random);
}

function computeShares(tier: Tier, nowMs: number): void {
  const typicalMs = typicalLatency(tier.slots);
  let total = 0;
  let i = 0;
  for (const slot of tier.slots) {
    slot.model.typicalMs = typicalMs;
    if (isHealthy(slot, nowMs)) total += computeShare(slot, nowMs);
    tier.sums[i++] = total;
  }
  tier.total = total;
  tier.freshUntilMs = nowMs + SHARES_FRESH_MS;
  tier.choicesLeft = tier.slots.length;
}

const computeShare = ({ weight, model }: PoolSlot, nowMs: number) =>
  weight / computeScoreCost(model.gauge, model.typicalMs, nowMs);

/** The harmonic mean: one hanging account does not make the others look fast. */
function typicalLatency(slots: readonly PoolSlot[]): number {
  let measured = 0;
  let speed = 0;
  for (const { model } of slots) {
    if (model.gauge.latencyMs === 0) continue;
    measured++;
    speed += 1 / model.gauge.latencyMs;
  }
  return measured === 0 ? 0 : measured / speed;
}

/** Account slots with their cumulative shares. */
interface WeightedSlots {
  readonly slots: readonly PoolSlot[];
  readonly sums: ArrayLike<number>;
  readonly total: number;
}

function draw({ slots, sums, total }: WeightedSlots, random: () => number): PoolSlot | null {
  if (total === 0) return null;
  const target = random() * total;
  let low = 0;
  let high = sums.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sums[middle] ?? 0) > target) high = middle;
    else low = middle + 1;
  }
  return slots[low] ?? null;
}

/** The slow path, if the draws keep hitting accounts that cannot be taken. */
function chooseAmong(
  all: readonly PoolSlot[],
  selection: SelectionRequest,
  random: () => number,
): PoolSlot | null {
  const slots = all.filter((slot) => isFree(slot, selection));
  const sums: number[] = [];
  let total = 0;
  for (const slot of slots) {
    total += computeShare(slot, selection.nowMs);
    sums.push(total);
  }
  const first = draw({ slots, sums, total }, random);
  const second = draw({ slots, sums, total }, random);
  return first === null || second === null ? null : pickLighter(first, second);
}

function pickLighter(first: PoolSlot, second: PoolSlot): PoolSlot {
  const inFlight = first.accountState.inFlight;
  if (inFlight === 0) return first;
  const load = { inFlight: second.accountState.inFlight, weight: second.weight };
  return isLighter(load, { inFlight, weight: first.weight }) ? second : first;
}
