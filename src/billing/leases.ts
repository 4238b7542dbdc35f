/** What a process has set aside of each wallet, and the requests that live on it. */

import type { Nano } from "../money/nano.ts";
import type { Hold, HoldProgress } from "../store/holds.ts";
import type { UsageRow } from "../store/usage-row.ts";
import type { Spent } from "./book-spent.ts";
import { BATCH_ROWS_MAX, RowBatch } from "./row-batch.ts";

/** A request, from its hold until the store has it. */
export interface ExpressHold {
  readonly hold: Hold;
  readonly lease: Lease;
  /** Where the journal tells of it. */
  readonly segment: number;
  readonly sinceMs: number;
  progress: HoldProgress;
  /** While it is on its way to be a row of the store. */
  moving: Promise<void> | null;
  ended: Ended | null;
}

/** A request that has ended, and waits to be booked. */
export interface Ended extends Spent {
  readonly lease: Lease;
  isBooked: boolean;
  /** The journal could not take it: whoever asked waits for the store. */
  unwritten: PromiseWithResolvers<void> | null;
}

export interface Lease {
  readonly userId: string;
  /** Set aside and in nobody's hold. */
  freeNano: Nano;
  /** How much to set aside next time: a user who comes back soon gets more. */
  nextNano: Nano;
  usedMs: number;
  /** It is being given back, and nothing is taken from it meanwhile. */
  isClosing: boolean;
  /** Requests that live on it and have not ended. */
  readonly holds: Set<ExpressHold>;
  readonly ended: Ended[];
}

/**
 * All that is in the express lane. Of each user the store's lease is what is free, what is held and what was spent and
 * is not booked yet.
 */
export interface Lane {
  readonly leases: Map<string, Lease>;
  /** In the order in which they began. */
  readonly requests: Map<string, ExpressHold>;
  /** How many of them have ended. */
  ended: number;
  /** Rows that nobody pays for and the store does not have yet, in the order in which they ended. */
  readonly unpaid: RowBatch[];
  /** How many rows that are. */
  unpaidRows: number;
}

export const emptyLane = (): Lane => ({
  leases: new Map(),
  requests: new Map(),
  ended: 0,
  unpaid: [],
  unpaidRows: 0,
});

/** A multiple of the first request's hold: so many such requests can be served before the store is asked again. */
const FIRST_TIMES = 64n;

export function newLease(userId: string, wantedNano: Nano): Lease {
  return {
    userId,
    freeNano: 0n,
    nextNano: wantedNano * FIRST_TIMES,
    usedMs: 0,
    isClosing: false,
    holds: new Set(),
    ended: [],
  };
}

/** A request that lives on what was set aside: it has not ended, and has no row in the store. */
export function heldOf({ requests }: Lane, requestId: string): ExpressHold | null {
  const held = requests.get(requestId);
  return held === undefined || held.ended !== null ? null : held;
}

export function startHold({ requests }: Lane, held: ExpressHold): void {
  const { hold, lease } = held;
  lease.freeNano -= hold.amountNano;
  lease.usedMs = held.sinceMs;
  lease.holds.add(held);
  requests.set(hold.requestId, held);
}

/** The part that was not spent is free again. */
export function endHold(lane: Lane, held: ExpressHold, ended: Ended): void {
  const { hold, lease } = held;
  held.ended = ended;
  lane.ended += 1;
  lease.holds.delete(held);
  lease.freeNano += hold.amountNano - ended.chargedNano;
  lease.ended.push(ended);
}

/** A request that nobody pays for has ended, with a row that the store can take. */
export function endUnpaid(lane: Lane, row: UsageRow, segment: number): void {
  let batch = lane.unpaid.at(-1);
  if (batch === undefined || batch.isClosed || batch.count === BATCH_ROWS_MAX) {
    batch = new RowBatch(segment);
    lane.unpaid.push(batch);
  }
  batch.add(row);
  lane.unpaidRows++;
}

export function unpaidRow({ unpaid }: Lane, requestId: string): UsageRow | null {
  for (const batch of unpaid) {
    const row = batch.find(requestId);
    if (row !== null) return row;
  }
  return null;
}

/** The store has them. */
export function forgetBatches(lane: Lane, batches: readonly RowBatch[]): void {
  for (const batch of batches) {
    const at = lane.unpaid.indexOf(batch);
    if (at === -1) continue;
    lane.unpaid.splice(at, 1);
    lane.unpaidRows -= batch.count;
  }
}

/** The first segment of the journal that tells what the store does not have. */
export function neededSegment({ requests, unpaid }: Lane): number {
  const needed = unpaid[0]?.segment ?? Number.POSITIVE_INFINITY;
  for (const { segment } of requests.values()) return Math.min(needed, segment);
  return needed;
}

/** The store has it. */
export function forgetHold({ requests }: Lane, held: ExpressHold): void {
  requests.delete(held.hold.requestId);
  held.lease.holds.delete(held);
}

/** The store has them. */
export function forgetEnded(lane: Lane, ends: readonly Ended[]): void {
  const leases = new Set<Lease>();
  for (const ended of ends) {
    ended.isBooked = true;
    lane.requests.delete(ended.row.requestId);
    lane.ended -= 1;
    leases.add(ended.lease);
    ended.unwritten?.resolve();
  }
  for (const { ended } of leases) dropBooked(ended);
}

/** Requests are nearly always booked in order; one that was booked early is dropped when its turn comes. */
function dropBooked(ended: Ended[]): void {
  const open = ended.findIndex(({ isBooked }) => !isBooked);
  ended.splice(0, open === -1 ? ended.length : open);
}
