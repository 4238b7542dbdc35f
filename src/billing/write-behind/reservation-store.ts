/** What the express lane asks of the store, one transaction at a time. */

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
  /** What has ended waits so long to be booked: where few came last time, and where many did. */
  bookMs: number;
  bookBusyMs: number;
  /** From here on they count as many. */
  bookMany: number;
  /** Requests of one transaction: few commits write each page of the store fewer times. So many wait no longer. */
  bookTogether: number;
  /** After so many it ends early, where others wait for its end. */
  bookAtLeast: number;
  /** Those of one step of it: it runs on the process's own thread, and everybody waits for it. */
  bookAtOnce: number;
  /** After so many the log of the store is moved into its file. */
  moveLogAfter: number;
}

export interface ReservationStoreOptions
  extends Pick<DirectBillingOptions, "db" | "log" | "clock" | "incarnation"> {
  /** A connection of its own to the same store: a transaction of many steps then keeps nobody from reading. */
  books: Db;
  lane: ReservationState;
  plain: Pick<DirectBilling, "adopt" | "settle" | "disk">;
  limits: ReservationLimits & Pick<BillingLimits, "retryMs">;
  moveLog(): void;
}

export interface ReservationStore {
  /** Sets money aside where there is enough, so that these can be held. */
  lend(asked: readonly HoldRequest[]): Promise<void>;
  isKept(tariffId: string): boolean;
  /** What is set aside of these wallets goes to the store: ends, holds under way, and what is still free. */
  close(userIds: readonly string[]): Promise<void>;
  /** Books what this user's requests have used, whoever pays. */
  bookRowsOf(userId: string): Promise<void>;
  /** Those that are still under way become rows. */
  move(holds: readonly ReservedHold[]): Promise<void>;
  /** A row more waits: it is booked before long. */
  ended(): void;
  /** True when all that has ended is booked, false when the store does not take it. */
  bookAll(): Promise<boolean>;
  stop(): void;
}

/** Leases that are given back in one transaction. */
const CLOSE_AT_ONCE = 16;

/** The longest step, where the steps of others took long. */
const STEP_MS_MAX = 20;

export function openReservationStore(options: ReservationStoreOptions): ReservationStore {
  const { db, log, clock, incarnation, lane, plain, limits } = options;
  const { leases } = lane;
  const kept = new Set<string>();
  const { inTurn, isAwaited } = openQueue();
  const booking = openBatchBooking({ ...options, together: limits.bookTogether, inTurn, stepsOf });
  /** How many have ended since the last round began. */
  let added = 0;
  let round: Promise<unknown> = Promise.resolve();
  let timer: ReturnType<typeof setTimeout> | null = null;
  let lastRound = 0;
  let bookedSinceMove = 0;
  let stepUntilMs = 0;
  let stopped = false;

  async function lend(asked: readonly HoldRequest[]): Promise<void> {
    const needed = sumByUser(asked.map(({ userId, wantedNano }) => [userId, wantedNano]));
    const wishes = [...needed].flatMap(([userId, nano]) => {
      const lease = leases.get(userId) ?? newReservation(userId, nano);
      const leastNano = nano - lease.freeNano;
      if (lease.isClosing || leastNano <= 0n) return [];
      return [{ lease, userId, leastNano, wantedNano: nano > lease.nextNano ? nano : lease.nextNano }];
    });
    const tariffs = new Map(
      asked.filter(({ tariff }) => !kept.has(tariff.id)).map(({ tariff }) => [tariff.id, tariff]),
    );
    if (wishes.length === 0 && tariffs.size === 0) return;
    const lent = await transaction(db, (tx) => reserveFunds(tx, incarnation, wishes, [...tariffs.values()]));
    // A journal without the lease that its lines are paid from would be worth nothing.
    await plain.disk.committed();
    for (const id of tariffs.keys()) kept.add(id);
    for (const { lease, userId, wantedNano } of wishes) {
      const nano = lent.get(userId);
      if (nano === undefined) continue;
      lease.freeNano += nano;
      lease.nextNano = wantedNano * 2n;
      lease.usedMs = clock.monotonicMs();
      leases.set(userId, lease);
    }
  }

  const waiting = (isMeant: (batch: RowBatch) => boolean) => [...lane.waiting].filter(isMeant);
  const tried = () => waiting(({ isClosed }) => isClosed);

  async function close(userIds: readonly string[]): Promise<void> {
    const closing = userIds.flatMap((userId) => leases.get(userId) ?? []);
    // One that was abandoned meanwhile is nobody's any more.
    const left = () => closing.filter((lease) => leases.get(lease.userId) === lease);
    for (const lease of closing) lease.isClosing = true;
    try {
      for (let some = left(); some.length > 0; some = left()) {
        const batches = some.flatMap(({ ended }) => [...ended]);
        if (batches.length > 0) await booking.bookNow(batches);
        else await giveBack(some);
      }
    } finally {
      for (const lease of closing) lease.isClosing = false;
    }
  }

  /** A lease that cannot be given back does not keep the others from it. */
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

  async function giveBack(closing: readonly WalletReservation[]): Promise<void> {
    try {
      await moveAll(holdsOn(lane, closing), closing);
      for (const { userId } of closing) leases.delete(userId);
    } catch (error) {
      // The failing lease has been abandoned, and the others are as they were.
      if (!(error instanceof ReservationLost)) throw error;
    }
  }

  function rowOf({ asked, atMs }: ReservedHold): Hold {
    return buildHold(asked, { amountNano: asked.wantedNano, subscriptionId: null }, incarnation, atMs);
  }

  /** With what is free of some leases, which goes back in the same transaction. */
  async function moveAll(
    moved: readonly ReservedHold[],
    closing: readonly WalletReservation[],
  ): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    for (const held of moved) held.moving = promise;
    try {
      const before = moved.map(({ progress }) => progress);
      const rows = moved.map((held) => ({ ...rowOf(held), ...held.progress }));
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
   * Everybody has a turn. Where their turn took long the next step may take half as long: one of a few rows would never
   * keep up with what ends meanwhile.
   */
  async function pause(): Promise<void> {
    const leftMs = clock.monotonicMs();
    if (leftMs < stepUntilMs) return;
    await new Promise<void>((resolve) => setImmediate(resolve));
    const backMs = clock.monotonicMs();
    stepUntilMs = backMs + Math.min(STEP_MS_MAX, (backMs - leftMs) / 2);
  }

  function stepsOf(tx: Db): Steps {
    return {
      size: limits.bookAtOnce,
      pause,
      isEnough: (rows) => rows >= limits.bookAtLeast && (isAwaited() || tx.isAwaited()),
    };
  }

  function bookSoon(): void {
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
    const mine = round.then(bookRound);
    round = mine.catch(() => {});
    return mine;
  }

  async function bookRound(): Promise<boolean> {
    added = 0;
    if (timer !== null) clearTimeout(timer);
    timer = null;
    lastRound = lane.rows;
    try {
      await booking.book([...lane.waiting]);
      // Where the store refused a row, what was put in the place of its batch.
      for (let parts = tried(); parts.length > 0; parts = tried()) await booking.book(parts);
      moveLogInTime();
      return true;
    } catch (error) {
      log.error("till_write_failed", { rows: lane.rows, reason: errorReason(error) });
      bookSoon();
      await Bun.sleep(limits.retryMs);
      return false;
    }
  }

  /** Earlier than a commit would have to do it. */
  function moveLogInTime(): void {
    bookedSinceMove += lastRound;
    if (bookedSinceMove < limits.moveLogAfter) return;
    bookedSinceMove = 0;
    options.moveLog();
  }

  return {
    lend: (asked) => inTurn(() => lend(asked)),
    isKept: (tariffId) => kept.has(tariffId),
    close: (userIds) => closeInParts(userIds, CLOSE_AT_ONCE),
    bookRowsOf: (userId) => booking.book(waiting((batch) => batch.userId === userId)),
    async move(wanted) {
      for (let start = 0; start < wanted.length; start += limits.bookAtOnce) {
        await inTurn(async () => {
          const part = wanted.slice(start, start + limits.bookAtOnce);
          const left = part.filter(({ isOpen }) => isOpen);
          if (left.length > 0) await moveAll(left, []);
        });
      }
    },
    ended() {
      if (++added === limits.bookTogether) void bookAll();
      else bookSoon();
    },
    bookAll,
    stop() {
      stopped = true;
      if (timer !== null) clearTimeout(timer);
    },
  };
}
