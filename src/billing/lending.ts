/** What the express lane asks of the store, one transaction at a time. */

import { type Db, transaction } from "../store/db.ts";
import { LeaseLost } from "../store/leases.ts";
import { openQueue } from "../store/scope.ts";
import { giveBackLease, moveToRows, setAside, sumByUser } from "./book-lent.ts";
import { bookSpent, inParts } from "./book-spent.ts";
import type { HoldAsked } from "./booking.ts";
import { openDisk } from "./disk.ts";
import {
  type Ended,
  type ExpressHold,
  forgetEnded,
  forgetHold,
  heldOf,
  type Lane,
  type Lease,
  newLease,
} from "./leases.ts";
import { isHopeless, reasonOf } from "./store-faults.ts";
import type { PlainTill, TillLimits, TillOptions } from "./till.ts";

export interface LendingLimits {
  /** What has ended waits so long to be booked: where few came last time, and where many did. */
  bookMs: number;
  bookBusyMs: number;
  /** More than that are many. */
  bookMany: number;
  /** Requests of one transaction: few commits write each page of the store fewer times. */
  bookTogether: number;
  /** After so many it ends early, where others wait for its end. */
  bookAtLeast: number;
  /** Those of one step of it: it runs on the process's own thread, and everybody waits for it. */
  bookAtOnce: number;
  /** After so many the log of the store is moved into its file. */
  moveLogAfter: number;
}

export interface LendingOptions
  extends Pick<TillOptions, "db" | "log" | "clock" | "incarnation" | "durability"> {
  /** A connection of its own to the same store: a transaction of many steps then keeps nobody from reading. */
  books: Db;
  lane: Lane;
  plain: Pick<PlainTill, "adopt" | "settle">;
  limits: LendingLimits & Pick<TillLimits, "retryMs" | "flushMs">;
  moveLog(): void;
}

export interface Lending {
  /** Sets money aside where there is enough, so that these can be held. */
  lend(asked: readonly HoldAsked[]): Promise<void>;
  isKept(tariffId: string): boolean;
  /** All that the lane knows of a user goes to the store: ends, holds under way, and what is still free. */
  close(userId: string): Promise<void>;
  /** Those that are still under way become rows. */
  move(holds: readonly ExpressHold[]): Promise<void>;
  /** It is booked before long. */
  add(ended: Ended): void;
  /** True when all that was added is booked, false when the store does not take it. */
  bookAll(): Promise<boolean>;
  stop(): void;
}

/** Of requests that are booked: to forget one takes less than a microsecond. */
const FORGET_AT_ONCE = 200;

/** Of a step that goes on because the others took long. */
const STEP_MS_MAX = 20;

export function openLending(options: LendingOptions): Lending {
  const { db, log, clock, incarnation, lane, plain, limits } = options;
  const { leases } = lane;
  const kept = new Set<string>();
  const { inTurn, isAwaited } = openQueue();
  const disk = openDisk(options);
  /** Of those that something is to be booked for. */
  const due = new Set<Lease>();
  let round: Promise<unknown> = Promise.resolve();
  let timer: ReturnType<typeof setTimeout> | null = null;
  let lastRound = 0;
  let bookedSinceMove = 0;
  let stepUntilMs = 0;
  let stopped = false;

  async function lend(asked: readonly HoldAsked[]): Promise<void> {
    const needed = sumByUser(asked.map(({ userId, wantedNano }) => [userId, wantedNano]));
    const wishes = [...needed].flatMap(([userId, nano]) => {
      const lease = leases.get(userId) ?? newLease(userId, nano);
      const leastNano = nano - lease.freeNano;
      if (lease.isClosing || leastNano <= 0n) return [];
      return [{ lease, userId, leastNano, wantedNano: nano > lease.nextNano ? nano : lease.nextNano }];
    });
    const tariffs = new Map(
      asked.filter(({ tariff }) => !kept.has(tariff.id)).map(({ tariff }) => [tariff.id, tariff]),
    );
    if (wishes.length === 0 && tariffs.size === 0) return;
    const lent = await transaction(db, (tx) => setAside(tx, incarnation, wishes, [...tariffs.values()]));
    // A journal without the lease that its lines are paid from would be worth nothing.
    await disk.committed();
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

  async function close(userId: string): Promise<void> {
    const lease = leases.get(userId);
    if (lease === undefined) return;
    lease.isClosing = true;
    try {
      // One that was abandoned meanwhile is nobody's any more.
      while (leases.get(userId) === lease && lease.ended.length > 0) await book([...lease.ended]);
      await moveAll([...lease.holds], lease);
      leases.delete(userId);
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error;
    } finally {
      lease.isClosing = false;
    }
  }

  /** Nobody pays for what lives on it: its holds and ends find nothing to be paid from, and are recorded as such. */
  function abandon(userId: string): void {
    log.error("lease_lost", { user_id: userId });
    for (const held of leases.get(userId)?.holds ?? []) forgetHold(lane, held);
    leases.delete(userId);
  }

  /** With what is free of a lease, which goes back in the same transaction. */
  async function moveAll(moved: readonly ExpressHold[], closing: Lease | null): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    for (const held of moved) held.moving = promise;
    try {
      const before = moved.map(({ progress }) => progress);
      const rows = moved.map(({ hold, progress }) => ({ ...hold, ...progress }));
      await transaction(db, async (tx) => {
        if (rows.length > 0) await moveToRows(tx, incarnation, rows);
        if (closing !== null) await giveBackLease(tx, incarnation, closing.userId, closing.freeNano);
      });
      moved.forEach((held, index) => {
        forgetHold(lane, held);
        plain.adopt(held.hold.requestId, held.progress, held.progress !== before[index]);
      });
    } catch (error) {
      if (error instanceof LeaseLost) abandon(error.userId);
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

  /** One transaction's worth of them, those left out that another one has booked meanwhile. Returns the others. */
  async function book(ends: readonly Ended[]): Promise<Ended[]> {
    const unbooked = ends.filter(({ isBooked }) => !isBooked);
    const part = unbooked.slice(0, limits.bookTogether);
    if (part.length === 0) return [];
    let many: number;
    try {
      many = await transaction(options.books, (tx) =>
        bookSpent(tx, incarnation, part, clock.nowMs(), {
          size: limits.bookAtOnce,
          pause,
          isEnough: (rows) => rows >= limits.bookAtLeast && (isAwaited() || tx.isAwaited()),
        }),
      );
    } catch (error) {
      if (!isHopeless(error)) throw error;
      await bookApart(part, error);
      return unbooked.slice(part.length);
    }
    for (const step of inParts(part.slice(0, many), FORGET_AT_ONCE)) {
      forgetEnded(lane, step);
      await pause();
    }
    return unbooked.slice(many);
  }

  /** One that the store will not have must not spoil the others. */
  async function bookApart(part: readonly Ended[], error: unknown): Promise<void> {
    const [first] = part;
    if (first === undefined) return;
    if (part.length > 1) {
      const half = Math.ceil(part.length / 2);
      for (const ends of [part.slice(0, half), part.slice(half)]) {
        for (let left = await book(ends); left.length > 0; ) left = await book(left);
      }
      return;
    }
    log.error("express_refused", { reason: reasonOf(error), request_id: first.row.requestId });
    if (error instanceof LeaseLost) abandon(error.userId);
    else await holdAlone(first);
    // Nobody waits for it any more. What the plain till cannot book either it keeps on the disk, for the operator.
    void plain.settle(first).catch(() => {});
    forgetEnded(lane, [first]);
  }

  /** What it is charged, in a row of its own: the plain till then finds something to charge. */
  async function holdAlone({ hold, chargedNano, row }: Ended): Promise<void> {
    try {
      await transaction(db, (tx) => moveToRows(tx, incarnation, [{ ...hold, amountNano: chargedNano }]));
    } catch (error) {
      if (!isHopeless(error)) throw error;
      log.error("express_refused", { reason: reasonOf(error), request_id: row.requestId });
    }
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
    let ends = [...due].flatMap(({ ended }) => ended);
    due.clear();
    lastRound = ends.length;
    try {
      while (ends.length > 0) ends = await inTurn(() => book(ends));
      moveLogInTime();
      return true;
    } catch (error) {
      log.error("till_write_failed", { settlements: ends.length, reason: reasonOf(error) });
      for (const { lease } of ends) due.add(lease);
      bookSoon();
      await Bun.sleep(limits.retryMs);
      return false;
    }
  }

  /** Before it is so long that a commit has to. */
  function moveLogInTime(): void {
    bookedSinceMove += lastRound;
    if (bookedSinceMove < limits.moveLogAfter) return;
    bookedSinceMove = 0;
    options.moveLog();
  }

  return {
    lend: (asked) => inTurn(() => lend(asked)),
    isKept: (tariffId) => kept.has(tariffId),
    close: (userId) => inTurn(() => close(userId)),
    async move(wanted) {
      for (let start = 0; start < wanted.length; start += limits.bookAtOnce) {
        await inTurn(async () => {
          const part = wanted.slice(start, start + limits.bookAtOnce);
          const left = part.filter((held) => heldOf(lane, held.hold.requestId) === held);
          if (left.length > 0) await moveAll(left, null);
        });
      }
    },
    add(ended) {
      due.add(ended.lease);
      bookSoon();
    },
    bookAll,
    stop() {
      stopped = true;
      disk.stop();
      if (timer !== null) clearTimeout(timer);
    },
  };
}
