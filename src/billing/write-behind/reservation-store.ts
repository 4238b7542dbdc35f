/** Database operations of write-behind billing, one transaction at a time. */

import { type Db, transaction } from "../../store/engine/db.ts";
import { openQueue } from "../../store/engine/transaction.ts";
import type { Hold } from "../../store/money/holds.ts";
import { ReservationLost } from "../../store/money/wallet-reservations.ts";
import { buildHold, type HoldRequest } from "../engine/booking.ts";
import type { BillingLimits, DirectBilling, DirectBillingOptions } from "../engine/direct-billing.ts";
import { inParts } from "../engine/in-parts.ts";
import { errorReason, isPermanent } from "../engine/store-faults.ts";
import { openBatchBooking } from "./batch-booking.ts";
import type { Steps } from "./book-batches.ts";
import { moveToRows, releaseReservations, reserveFunds, sumByUser } from "./book-reservations.ts";
import type { RowBatch } from "./row-batch.ts";
import {
  forgetHold,
  holdsOn,
  newReservation,
  type ReservationState,
  type ReservedHold,
  type WalletReservation,
} from "./wallet-reservations.ts";

export interface ReservationLimits {
  /** How long finished requests wait to be booked: `bookMs` after a small round, `bookBusyMs` after a large one. */
  bookMs: number;
  bookBusyMs: number;
  /** Number of rows from which a round counts as large. */
  bookMany: number;
  /**
   * Maximum number of requests in one transaction; when this number waits, it starts at once. Few commits write each
   * page of the database less often.
   */
  bookTogether: number;
  /** Number of requests after which a transaction ends early if other work waits for it. */
  bookAtLeast: number;
  /** Requests per step of a transaction. It runs on the main thread, so everything else waits for a step. */
  bookAtOnce: number;
  /** Number of requests after which the WAL of the database is checkpointed. */
  moveLogAfter: number;
}

export interface ReservationStoreOptions
  extends Pick<DirectBillingOptions, "db" | "log" | "clock" | "incarnation"> {
  /** A second connection to the same database: a transaction of many steps then does not block readers. */
  books: Db;
  lane: ReservationState;
  plain: Pick<DirectBilling, "adopt" | "settle" | "disk">;
  limits: ReservationLimits & Pick<BillingLimits, "retryMs">;
  moveLog(): void;
}

export interface ReservationStore {
  /** Reserves money for these holds where the wallet has enough. */
  lend(asked: readonly HoldRequest[]): Promise<void>;
  isKept(tariffId: string): boolean;
  /**
   * Moves everything on these wallet reservations to the database: settlements, holds in flight and the free amount.
   */
  close(userIds: readonly string[]): Promise<void>;
  /** Books all usage of this user, paid or not. */
  bookRowsOf(userId: string): Promise<void>;
  /** Stores those of these holds that are still open. */
  move(holds: readonly ReservedHold[]): Promise<void>;
  /** Call when a row is waiting: it is booked soon. */
  ended(): void;
  /** True when all finished requests are booked, false when the database does not accept them. */
  bookAll(): Promise<boolean>;
  stop(): void;
}

/** Wallet reservations released in one transaction. */
const CLOSE_AT_ONCE = 16;

/** Maximum duration of a step, when other work took long in between. */
const STEP_MS_MAX = 20;

export function openReservationStore(options: ReservationStoreOptions): ReservationStore {
  const { db, log, clock, incarnation, lane, plain, limits } = options;
  const { leases } = lane;
  const kept = new Set<string>();
  const { inTurn, isAwaited } = openQueue();
  const booking = openBatchBooking({ ...options, together: limits.bookTogether, inTurn, stepsOf });
  /** Number of finished requests since the last round began. */
  let added = 0;
  let round: Promise<unknown> = Promise.resolve();
  let timer: ReturnType<typeof setTimeout> | null = null;
  let lastRound = 0;
  let bookedSinceCheckpoint = 0;
  let stepUntilMs = 0;
  let stopped = false;

  async function reserve(asked: readonly HoldRequest[]): Promise<void> {
    const neededByUser = sumByUser(asked.map(({ userId, wantedNano }) => [userId, wantedNano]));
    const reservationRequests = [...neededByUser].flatMap(([userId, nano]) => {
      const lease = leases.get(userId) ?? newReservation(userId, nano);
      const leastNano = nano - lease.freeNano;
      if (lease.isClosing || leastNano <= 0n) return [];
      return [{ lease, userId, leastNano, wantedNano: nano > lease.nextNano ? nano : lease.nextNano }];
    });
    const tariffs = new Map(
      asked.filter(({ tariff }) => !kept.has(tariff.id)).map(({ tariff }) => [tariff.id, tariff]),
    );
    if (reservationRequests.length === 0 && tariffs.size === 0) return;
    const reserved = await transaction(db, (tx) =>
      reserveFunds(tx, incarnation, reservationRequests, [...tariffs.values()]),
    );
    // The reservation must be durable before the journal lines that are paid from it.
    await plain.disk.committed();
    for (const id of tariffs.keys()) kept.add(id);
    for (const { lease, userId, wantedNano } of reservationRequests) {
      const nano = reserved.get(userId);
      if (nano === undefined) continue;
      lease.freeNano += nano;
      lease.nextNano = wantedNano * 2n;
      lease.usedMs = clock.monotonicMs();
      leases.set(userId, lease);
    }
  }

  const waiting = (matches: (batch: RowBatch) => boolean) => [...lane.waiting].filter(matches);
  const triedBatches = () => waiting(({ isClosed }) => isClosed);

  async function close(userIds: readonly string[]): Promise<void> {
    const closing = userIds.flatMap((userId) => leases.get(userId) ?? []);
    // Skips reservations that were abandoned meanwhile.
    const listRemaining = () => closing.filter((lease) => leases.get(lease.userId) === lease);
    for (const lease of closing) lease.isClosing = true;
    try {
      for (let remaining = listRemaining(); remaining.length > 0; remaining = listRemaining()) {
        const batches = remaining.flatMap(({ ended }) => [...ended]);
        if (batches.length > 0) await booking.bookNow(batches);
        else await release(remaining);
      }
    } finally {
      for (const lease of closing) lease.isClosing = false;
    }
  }

  /** A reservation that cannot be released does not block the others. */
  async function closeInParts(userIds: readonly string[], size: number): Promise<void> {
    let refused: unknown = null;
    for (const part of inParts(userIds, size)) {
      try {
        await inTurn(() => close(part));
      } catch (error) {
        if (!isPermanent(error)) throw error;
        if (part.length === 1) refused = error;
        else {
          await closeInParts(part, 1).catch((reason) => {
            refused = reason;
          });
        }
      }
      if (userIds.length > size) await pause();
    }
    if (refused !== null) throw refused;
  }

  async function release(closing: readonly WalletReservation[]): Promise<void> {
    try {
      await moveAll(holdsOn(lane, closing), closing);
      for (const { userId } of closing) leases.delete(userId);
    } catch (error) {
      // The failing reservation has been abandoned, and the others are unchanged.
      if (!(error instanceof ReservationLost)) throw error;
    }
  }

  function buildRow({ asked, atMs }: ReservedHold): Hold {
    return buildHold(asked, { amountNano: asked.wantedNano, subscriptionId: null }, incarnation, atMs);
  }

  /** Stores the holds and releases the free amount of `closing` in the same transaction. */
  async function moveAll(
    moved: readonly ReservedHold[],
    closing: readonly WalletReservation[],
  ): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    for (const held of moved) held.moving = promise;
    try {
      const before = moved.map(({ progress }) => progress);
      const rows = moved.map((held) => ({ ...buildRow(held), ...held.progress }));
      await transaction(db, async (tx) => {
        if (rows.length > 0) await moveToRows(tx, incarnation, rows);
        if (closing.length > 0) await releaseReservations(tx, incarnation, closing);
      });
      moved.forEach((held, index) => {
        forgetHold(lane, held);
        plain.adopt(held.asked.requestId, held.progress, held.progress !== before[index]);
      });
    } catch (error) {
      if (error instanceof ReservationLost) await booking.abandon(error.userIds);
      throw error;
    } finally {
      for (const held of moved) held.moving = null;
      resolve();
    }
  }

  /**
   * Yields to other work. If that work took long, the next step may take half as long: steps of a few rows could not
   * keep up with the requests that finish meanwhile.
   */
  async function pause(): Promise<void> {
    const yieldedAtMs = clock.monotonicMs();
    if (yieldedAtMs < stepUntilMs) return;
    await new Promise<void>((resolve) => setImmediate(resolve));
    const resumedAtMs = clock.monotonicMs();
    stepUntilMs = resumedAtMs + Math.min(STEP_MS_MAX, (resumedAtMs - yieldedAtMs) / 2);
  }

  function stepsOf(tx: Db): Steps {
    return {
      size: limits.bookAtOnce,
      pause,
      isEnough: (rows) => rows >= limits.bookAtLeast && (isAwaited() || tx.isAwaited()),
    };
  }

  function scheduleBooking(): void {
    if (stopped) return;
    timer ??= setTimeout(
      () => {
        timer = null;
        void bookAll();
      },
      lastRound > limits.bookMany ? limits.bookBusyMs : limits.bookMs,
    );
  }

  function bookAll(): Promise<boolean> {
    const thisRound = round.then(bookRound);
    round = thisRound.catch(() => {});
    return thisRound;
  }

  async function bookRound(): Promise<boolean> {
    added = 0;
    if (timer !== null) clearTimeout(timer);
    timer = null;
    lastRound = lane.rows;
    try {
      await booking.book([...lane.waiting]);
      // If the database rejected a row, books the parts its batch was split into.
      for (let parts = triedBatches(); parts.length > 0; parts = triedBatches()) await booking.book(parts);
      checkpointIfDue();
      return true;
    } catch (error) {
      log.error("till_write_failed", { rows: lane.rows, reason: errorReason(error) });
      scheduleBooking();
      await Bun.sleep(limits.retryMs);
      return false;
    }
  }

  /** Checkpoints before a commit would have to do it. */
  function checkpointIfDue(): void {
    bookedSinceCheckpoint += lastRound;
    if (bookedSinceCheckpoint < limits.moveLogAfter) return;
    bookedSinceCheckpoint = 0;
    options.moveLog();
  }

  return {
    lend: (asked) => inTurn(() => reserve(asked)),
    isKept: (tariffId) => kept.has(tariffId),
    close: (userIds) => closeInParts(userIds, CLOSE_AT_ONCE),
    bookRowsOf: (userId) => booking.book(waiting((batch) => batch.userId === userId)),
    async move(wanted) {
      for (let start = 0; start < wanted.length; start += limits.bookAtOnce) {
        await inTurn(async () => {
          const part = wanted.slice(start, start + limits.bookAtOnce);
          const open = part.filter(({ isOpen }) => isOpen);
          if (open.length > 0) await moveAll(open, []);
        });
      }
    },
    ended() {
      if (++added === limits.bookTogether) void bookAll();
      else scheduleBooking();
    },
    bookAll,
    stop() {
      stopped = true;
      if (timer !== null) clearTimeout(timer);
    },
  };
}
