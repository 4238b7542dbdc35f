/**
 * The in-memory state of write-behind billing: the wallet reservations of this process, the holds on them, and the
 * rows of finished requests.
 */

import type { Nano } from "../../money/nano.ts";
import type { HoldProgress } from "../../store/money/holds.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { HoldFields, SharedHoldFields } from "../journal/hold-lines.ts";
import { RowBatch } from "./row-batch.ts";

/** A request from its hold until it ends. */
export interface ReservedHold extends HoldFields {
  readonly lease: WalletReservation;
  /** The journal segment that contains the hold. */
  segment: number;
  readonly sinceMs: number;
  progress: HoldProgress;
  /** The request was dispatched or undispatched since its last journal line. */
  isChanged: boolean;
  /** False once the request has ended or its hold is stored in the database. */
  isOpen: boolean;
  /** Set while the hold is being stored in the database. */
  moving: Promise<void> | null;
}

export interface WalletReservation {
  readonly userId: string;
  /** Reserved and not held. */
  freeNano: Nano;
  /** How much to reserve next time. It grows for users with many requests. */
  nextNano: Nano;
  usedMs: number;
  /** The reservation is being released; nothing is held from it meanwhile. */
  isClosing: boolean;
  /** Number of holds on it that have not ended. */
  open: number;
  /** Finished requests that wait to be booked. The next row goes into `batch` while that accepts more. */
  readonly ended: Set<RowBatch>;
  batch: RowBatch | null;
  /** The shared fields of its latest journal line. */
  told: SharedHoldFields | null;
}

/**
 * The stored reservation of a user equals the free amount plus the open holds plus the charges that are not booked
 * yet.
 */
export interface ReservationState {
  readonly leases: Map<string, WalletReservation>;
  /** Paid requests in the order of their start. A finished request refers to the batch that it waits in. */
  readonly requests: Map<string, ReservedHold | RowBatch>;
  /** All rows that the database does not have yet. */
  readonly waiting: Set<RowBatch>;
  /** Number of rows in `waiting`. */
  rows: number;
  /** By key: the batch for its next unpaid row, while that accepts more. */
  readonly unpaid: Map<string, RowBatch>;
  /** Maximum number of rows in one batch. */
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

/** The first reservation is this multiple of the first hold: so many similar requests need no further reservation. */
const FIRST_RESERVATION_FACTOR = 64n;

export function newReservation(userId: string, wantedNano: Nano): WalletReservation {
  return {
    userId,
    freeNano: 0n,
    nextNano: wantedNano * FIRST_RESERVATION_FACTOR,
    usedMs: 0,
    isClosing: false,
    open: 0,
    ended: new Set(),
    batch: null,
    told: null,
  };
}

/** The hold of a request that has not ended and is not stored in the database. */
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

/**
 * Frees the part of the hold that was not spent. The values of the row must fit the database. Returns the batch that
 * the row waits in.
 */
export function endHold(state: ReservationState, held: ReservedHold, row: UsageRow): RowBatch {
  const { asked, lease, segment } = held;
  close(held);
  lease.freeNano += asked.wantedNano - row.chargedNano;
  if (lease.batch === null || !acceptsMore(state, lease.batch)) {
    lease.batch = startBatch(state, new RowBatch(lease.userId, true, segment));
    lease.ended.add(lease.batch);
  }
  lease.batch.add(row, segment);
  state.rows++;
  state.requests.set(asked.requestId, lease.batch);
  return lease.batch;
}

/** Records the row of a finished unpaid request. Its values must fit the database. */
export function endUnpaid(state: ReservationState, row: UsageRow, segment: number): void {
  let batch = state.unpaid.get(row.keyId);
  if (batch === undefined || !acceptsMore(state, batch) || batch.userId !== row.userId) {
    batch = startBatch(state, new RowBatch(row.userId, false, segment));
    state.unpaid.set(row.keyId, batch);
  }
  batch.add(row, segment);
  state.rows++;
}

const acceptsMore = ({ rowsMax }: ReservationState, batch: RowBatch) =>
  !batch.isClosed && batch.count < rowsMax;

function startBatch({ waiting }: ReservationState, batch: RowBatch): RowBatch {
  waiting.add(batch);
  return batch;
}

/** The row of a finished request. Slow for unpaid requests. */
export function endedRow({ requests, waiting }: ReservationState, requestId: string): UsageRow | null {
  const paid = requests.get(requestId);
  if (paid !== undefined) return paid instanceof RowBatch ? paid.find(requestId) : null;
  for (const batch of waiting) {
    const row = batch.isPaid ? null : batch.find(requestId);
    if (row !== null) return row;
  }
  return null;
}

/** The first journal segment with content that the database does not have. */
export function neededSegment({ requests, waiting }: ReservationState): number {
  let needed = Number.POSITIVE_INFINITY;
  for (const { segment } of waiting) needed = Math.min(needed, segment);
  // The oldest request is in the oldest segment.
  for (const { segment } of requests.values()) return Math.min(needed, segment);
  return needed;
}

/** The database has the hold. */
export function forgetHold({ requests }: ReservationState, held: ReservedHold): void {
  requests.delete(held.asked.requestId);
  close(held);
}

function close(held: ReservedHold): void {
  held.isOpen = false;
  held.lease.open--;
}

/** All holds on these reservations. If there are any, this iterates over every request. */
export function holdsOn(
  { requests }: ReservationState,
  leases: readonly WalletReservation[],
): ReservedHold[] {
  const holds: ReservedHold[] = [];
  if (leases.every(({ open }) => open === 0)) return holds;
  const wanted = new Set(leases);
  for (const held of requests.values()) {
    if (!(held instanceof RowBatch) && wanted.has(held.lease)) holds.push(held);
  }
  return holds;
}

/** The database has all rows of the batch, or another component has taken them over. */
export function forgetBatch(state: ReservationState, batch: RowBatch): void {
  if (!state.waiting.delete(batch)) return;
  state.rows -= batch.count;
  if (batch.isPaid) for (const id of batch.ids()) state.requests.delete(id);
  detachBatch(state, batch);
  batch.stored?.resolve();
}

/** Removes the batch from its reservation and its key, so that nothing more is added to it. */
function detachBatch(state: ReservationState, batch: RowBatch): void {
  const lease = findReservation(state, batch);
  lease?.ended.delete(batch);
  if (lease?.batch === batch) lease.batch = null;
  for (const { of } of batch.sums) if (state.unpaid.get(of.keyId) === batch) state.unpaid.delete(of.keyId);
}

function findReservation(
  { leases }: ReservationState,
  { isPaid, userId }: RowBatch,
): WalletReservation | undefined {
  return isPaid && userId !== null ? leases.get(userId) : undefined;
}

/** Replaces the batch by two of half the size. */
export function splitBatch(state: ReservationState, batch: RowBatch): RowBatch[] {
  const { userId, isPaid, segment, stored } = batch;
  const rows = batch.rows();
  const half = Math.ceil(rows.length / 2);
  const halves = [rows.slice(0, half), rows.slice(half)].map((part) => {
    const newBatch = startBatch(state, new RowBatch(userId, isPaid, segment));
    for (const row of part) {
      newBatch.add(row, segment);
      if (isPaid) state.requests.set(row.requestId, newBatch);
    }
    newBatch.isClosed = true;
    findReservation(state, newBatch)?.ended.add(newBatch);
    return newBatch;
  });
  state.waiting.delete(batch);
  detachBatch(state, batch);
  if (stored !== null)
    void Promise.all(halves.map((newBatch) => newBatch.untilStored())).then(() => stored.resolve());
  return halves;
}
