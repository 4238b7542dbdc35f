/**
 * The in-memory state of write-behind billing: the wallet reservations of this process, the holds on them, and the
 * rows of finished requests.
 */

import type { Nano } from "../../money/nano.ts";
import type { HoldProgress } from "../../store/money/holds.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { JournaledHold } from "../journal/journal-events.ts";
import { RowBatch } from "./row-batch.ts";

/** A request from its hold until it ends. */
export interface ReservedHold extends JournaledHold {
  readonly reservation: WalletReservation;
  /** The journal segment that contains the hold. */
  segment: number;
  readonly sinceMs: number;
  progress: HoldProgress;
  /** The request was dispatched or undispatched since its last journal line. */
  isChanged: boolean;
  /** False once the request has ended or its hold is stored in the database. */
  isOpen: boolean;
  /** Set while the hold is being stored in the database. */
  storing: Promise<void> | null;
}

export interface WalletReservation {
  readonly userId: string;
  /** Reserved and not held. */
  freeNano: Nano;
  /** How much to reserve next time. It grows for users with many requests. */
  nextNano: Nano;
  lastUsedMs: number;
  /** The reservation is being released; nothing is held from it meanwhile. */
  isClosing: boolean;
  openHolds: number;
  /** Finished requests that wait to be booked. The next row goes into `batch` while that accepts more. */
  readonly endedBatches: Set<RowBatch>;
  batch: RowBatch | null;
}

/** The stored reservation equals the free amount, the open holds and the charges not booked yet. */
export interface ReservationState {
  readonly reservations: Map<string, WalletReservation>;
  /** Paid requests in the order of their start. A finished request refers to the batch that it waits in. */
  readonly requests: Map<string, ReservedHold | RowBatch>;
  /** All rows that the database does not have yet. */
  readonly waitingBatches: Set<RowBatch>;
  /** Number of rows in `waiting`. */
  rows: number;
  /** By key: the batch for its next unpaid row, while that accepts more. */
  readonly unpaidBatches: Map<string, RowBatch>;
  readonly rowsMax: number;
}

export const emptyReservationState = (rowsMax: number): ReservationState => ({
  reservations: new Map(),
  requests: new Map(),
  waitingBatches: new Set(),
  rows: 0,
  unpaidBatches: new Map(),
  rowsMax,
});

/** The first reservation is this multiple of the first hold: so many similar requests need no further reservation. */
const FIRST_RESERVATION_FACTOR = 64n;

export function newReservation(userId: string, wantedNano: Nano): WalletReservation {
  return {
    userId,
    freeNano: 0n,
    nextNano: wantedNano * FIRST_RESERVATION_FACTOR,
    lastUsedMs: 0,
    isClosing: false,
    openHolds: 0,
    endedBatches: new Set(),
    batch: null,
  };
}

/** The hold of a request that has not ended and is not stored in the database. */
export function findReservedHold({ requests }: ReservationState, requestId: string): ReservedHold | null {
  const held = requests.get(requestId);
  return held === undefined || held instanceof RowBatch ? null : held;
}

export function startHold({ requests }: ReservationState, held: ReservedHold): void {
  const { request, reservation } = held;
  reservation.freeNano -= request.wantedNano;
  reservation.lastUsedMs = held.sinceMs;
  reservation.openHolds++;
  requests.set(request.requestId, held);
}

/**
 * Frees the part of the hold that was not spent. The values of the row must fit the database. Returns the batch that
 * the row waits in.
 */
export function endHold(state: ReservationState, held: ReservedHold, row: UsageRow): RowBatch {
  const { request, reservation, segment } = held;
  closeHold(held);
  reservation.freeNano += request.wantedNano - row.chargedNano;
  if (reservation.batch === null || !acceptsMore(state, reservation.batch)) {
    reservation.batch = startBatch(state, new RowBatch(reservation.userId, true, segment));
    reservation.endedBatches.add(reservation.batch);
  }
  reservation.batch.add(row, segment);
  state.rows++;
  state.requests.set(request.requestId, reservation.batch);
  return reservation.batch;
}

/** Records the row of a finished unpaid request. Its values must fit the database. */
export function endUnpaid(state: ReservationState, row: UsageRow, segment: number): void {
  let batch = state.unpaidBatches.get(row.keyId);
  if (batch === undefined || !acceptsMore(state, batch) || batch.userId !== row.userId) {
    batch = startBatch(state, new RowBatch(row.userId, false, segment));
    state.unpaidBatches.set(row.keyId, batch);
  }
  batch.add(row, segment);
  state.rows++;
}

const acceptsMore = ({ rowsMax }: ReservationState, batch: RowBatch) =>
  !batch.isClosed && batch.count < rowsMax;

function startBatch({ waitingBatches: waiting }: ReservationState, batch: RowBatch): RowBatch {
  waiting.add(batch);
  return batch;
}

/** The row of a finished request. Slow for unpaid requests. */
export function findEndedRow(
  { requests, waitingBatches: waiting }: ReservationState,
  requestId: string,
): UsageRow | null {
  const paid = requests.get(requestId);
  if (paid !== undefined) return paid instanceof RowBatch ? paid.find(requestId) : null;
  for (const batch of waiting) {
    const row = batch.isPaid ? null : batch.find(requestId);
    if (row !== null) return row;
  }
  return null;
}

/** The first journal segment with content that the database does not have. */
export function findNeededSegment({ requests, waitingBatches: waiting }: ReservationState): number {
  let needed = Number.POSITIVE_INFINITY;
  for (const { segment } of waiting) needed = Math.min(needed, segment);
  // The oldest request is in the oldest segment.
  for (const { segment } of requests.values()) return Math.min(needed, segment);
  return needed;
}

/** The database has the hold. */
export function removeHold({ requests }: ReservationState, held: ReservedHold): void {
  requests.delete(held.request.requestId);
  closeHold(held);
}

function closeHold(held: ReservedHold): void {
  held.isOpen = false;
  held.reservation.openHolds--;
}

/** All holds on these reservations. If there are any, this iterates over every request. */
export function listHoldsOn(
  { requests }: ReservationState,
  reservations: readonly WalletReservation[],
): ReservedHold[] {
  const holds: ReservedHold[] = [];
  if (reservations.every(({ openHolds: open }) => open === 0)) return holds;
  const wanted = new Set(reservations);
  for (const held of requests.values()) {
    if (!(held instanceof RowBatch) && wanted.has(held.reservation)) holds.push(held);
  }
  return holds;
}

/** The database has all rows of the batch, or another component has taken them over. */
export function removeBatch(state: ReservationState, batch: RowBatch): void {
  if (!state.waitingBatches.delete(batch)) return;
  state.rows -= batch.count;
  if (batch.isPaid) for (const id of batch.ids()) state.requests.delete(id);
  detachBatch(state, batch);
  batch.stored?.resolve();
}

/** Removes the batch from its reservation and its key, so that nothing more is added to it. */
function detachBatch(state: ReservationState, batch: RowBatch): void {
  const reservation = findReservation(state, batch);
  reservation?.endedBatches.delete(batch);
  if (reservation?.batch === batch) reservation.batch = null;
  for (const { dimensions: of } of batch.sums)
    if (state.unpaidBatches.get(of.keyId) === batch) state.unpaidBatches.delete(of.keyId);
}

function findReservation(
  { reservations }: ReservationState,
  { isPaid, userId }: RowBatch,
): WalletReservation | undefined {
  return isPaid && userId !== null ? reservations.get(userId) : undefined;
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
    findReservation(state, newBatch)?.endedBatches.add(newBatch);
    return newBatch;
  });
  state.waitingBatches.delete(batch);
  detachBatch(state, batch);
  if (stored !== null)
    void Promise.all(halves.map((newBatch) => newBatch.untilStored())).then(() => stored.resolve());
  return halves;
}
