/** What a process has set aside of each wallet, the requests that live on it, and the rows of those that have ended. */

import type { Nano } from "../../money/nano.ts";
import type { HoldProgress } from "../../store/money/holds.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { HoldFields, SharedHoldFields } from "../journal/hold-lines.ts";
import { RowBatch } from "./row-batch.ts";

/** A request, from its hold until it ends. */
export interface ReservedHold extends HoldFields {
  readonly lease: WalletReservation;
  /** Where the journal tells of it. */
  segment: number;
  readonly sinceMs: number;
  progress: HoldProgress;
  /** It went to an account, or came back from one, since the journal was told of it. */
  isChanged: boolean;
  /** False once it has ended, or is a row of the store. */
  isOpen: boolean;
  /** While it is on its way to be a row of the store. */
  moving: Promise<void> | null;
}

export interface WalletReservation {
  readonly userId: string;
  /** Set aside and in nobody's hold. */
  freeNano: Nano;
  /** How much to set aside next time: a user who comes back soon gets more. */
  nextNano: Nano;
  usedMs: number;
  /** It is being given back, and nothing is taken from it meanwhile. */
  isClosing: boolean;
  /** How many requests live on it and have not ended. */
  open: number;
  /** Those that have ended and wait to be booked; the next one is put into the last batch, if that takes more. */
  readonly ended: Set<RowBatch>;
  batch: RowBatch | null;
  /** How the journal tells of its holds. */
  told: SharedHoldFields | null;
}

/**
 * All that is in the express lane. Of each user the store's lease is what is free, what is held and what was spent and
 * is not booked yet.
 */
export interface ReservationState {
  readonly leases: Map<string, WalletReservation>;
  /** Those that somebody pays for, in the order in which they began; of those that have ended the batch they wait in. */
  readonly requests: Map<string, ReservedHold | RowBatch>;
  /** All rows that the store does not have yet. */
  readonly waiting: Set<RowBatch>;
  /** How many rows that are. */
  rows: number;
  /** By key: that its next row which nobody pays for is put into, if it takes more. */
  readonly unpaid: Map<string, RowBatch>;
  /** Of one batch. */
  readonly rowsMax: number;
}

export const emptyReservationState = (rowsMax: number): ReservationState => ({
  leases: new Map(),
  requests: new Map(),
  waiting: new Set(),
  rows: 0,
  unpaid: new Map(),
  rowsMax,
});

/** A multiple of the first request's hold: so many such requests can be served before the store is asked again. */
const FIRST_TIMES = 64n;

export function newReservation(userId: string, wantedNano: Nano): WalletReservation {
  return {
    userId,
    freeNano: 0n,
    nextNano: wantedNano * FIRST_TIMES,
    usedMs: 0,
    isClosing: false,
    open: 0,
    ended: new Set(),
    batch: null,
    told: null,
  };
}

/** A request that lives on what was set aside: it has not ended, and has no row in the store. */
export function heldAmount({ requests }: ReservationState, requestId: string): ReservedHold | null {
  const held = requests.get(requestId);
  return held === undefined || held instanceof RowBatch ? null : held;
}

export function startHold({ requests }: ReservationState, held: ReservedHold): void {
  const { asked, lease } = held;
  lease.freeNano -= asked.wantedNano;
  lease.usedMs = held.sinceMs;
  lease.open++;
  requests.set(asked.requestId, held);
}

/** The part that was not spent is free again. Returns where its row waits, which fits the store. */
export function endHold(lane: ReservationState, held: ReservedHold, row: UsageRow): RowBatch {
  const { asked, lease, segment } = held;
  close(held);
  lease.freeNano += asked.wantedNano - row.chargedNano;
  if (lease.batch === null || !takesMore(lane, lease.batch)) {
    lease.batch = startBatch(lane, new RowBatch(lease.userId, true, segment));
    lease.ended.add(lease.batch);
  }
  lease.batch.add(row, segment);
  lane.rows++;
  lane.requests.set(asked.requestId, lease.batch);
  return lease.batch;
}

/** A request that nobody pays for has ended, with a row that fits the store. */
export function endUnpaid(lane: ReservationState, row: UsageRow, segment: number): void {
  let batch = lane.unpaid.get(row.keyId);
  if (batch === undefined || !takesMore(lane, batch) || batch.userId !== row.userId) {
    batch = startBatch(lane, new RowBatch(row.userId, false, segment));
    lane.unpaid.set(row.keyId, batch);
  }
  batch.add(row, segment);
  lane.rows++;
}

const takesMore = ({ rowsMax }: ReservationState, batch: RowBatch) =>
  !batch.isClosed && batch.count < rowsMax;

function startBatch({ waiting }: ReservationState, batch: RowBatch): RowBatch {
  waiting.add(batch);
  return batch;
}

/** The row of a request that has ended. Slow, where nobody pays for it. */
export function endedRow({ requests, waiting }: ReservationState, requestId: string): UsageRow | null {
  const paid = requests.get(requestId);
  if (paid !== undefined) return paid instanceof RowBatch ? paid.find(requestId) : null;
  for (const batch of waiting) {
    const row = batch.isPaid ? null : batch.find(requestId);
    if (row !== null) return row;
  }
  return null;
}

/** The first segment of the journal that tells what the store does not have. */
export function neededSegment({ requests, waiting }: ReservationState): number {
  let needed = Number.POSITIVE_INFINITY;
  for (const { segment } of waiting) needed = Math.min(needed, segment);
  // The one that began first was told of first.
  for (const { segment } of requests.values()) return Math.min(needed, segment);
  return needed;
}

/** The store has it. */
export function forgetHold({ requests }: ReservationState, held: ReservedHold): void {
  requests.delete(held.asked.requestId);
  close(held);
}

function close(held: ReservedHold): void {
  held.isOpen = false;
  held.lease.open--;
}

/** All that live on these leases. Looks through every request there is, where any does. */
export function holdsOn(
  { requests }: ReservationState,
  leases: readonly WalletReservation[],
): ReservedHold[] {
  const found: ReservedHold[] = [];
  if (leases.every(({ open }) => open === 0)) return found;
  const meant = new Set(leases);
  for (const held of requests.values()) {
    if (!(held instanceof RowBatch) && meant.has(held.lease)) found.push(held);
  }
  return found;
}

/** The store has all of its rows, or somebody else sees to it. */
export function forgetBatch(lane: ReservationState, batch: RowBatch): void {
  if (!lane.waiting.delete(batch)) return;
  lane.rows -= batch.count;
  if (batch.isPaid) for (const id of batch.ids()) lane.requests.delete(id);
  letGo(lane, batch);
  batch.stored?.resolve();
}

/** Nothing more is put into it. */
function letGo(lane: ReservationState, batch: RowBatch): void {
  const lease = payingLease(lane, batch);
  lease?.ended.delete(batch);
  if (lease?.batch === batch) lease.batch = null;
  for (const { of } of batch.sums) if (lane.unpaid.get(of.keyId) === batch) lane.unpaid.delete(of.keyId);
}

function payingLease(
  { leases }: ReservationState,
  { isPaid, userId }: RowBatch,
): WalletReservation | undefined {
  return isPaid && userId !== null ? leases.get(userId) : undefined;
}

/** Two of half the size in its place. */
export function splitBatch(lane: ReservationState, batch: RowBatch): RowBatch[] {
  const { userId, isPaid, segment, stored } = batch;
  const rows = batch.rows();
  const half = Math.ceil(rows.length / 2);
  const halves = [rows.slice(0, half), rows.slice(half)].map((part) => {
    const made = startBatch(lane, new RowBatch(userId, isPaid, segment));
    for (const row of part) {
      made.add(row, segment);
      if (isPaid) lane.requests.set(row.requestId, made);
    }
    made.isClosed = true;
    payingLease(lane, made)?.ended.add(made);
    return made;
  });
  lane.waiting.delete(batch);
  letGo(lane, batch);
  if (stored !== null)
    void Promise.all(halves.map((made) => made.untilStored())).then(() => stored.resolve());
  return halves;
}
