/**
 * The express lane of the till, for the embedded store. While many requests are paid from wallets, a part of each
 * wallet is set aside once, and holds are taken from that part in memory. What is promised is a line of the journal
 * before anybody hears of it, and the store books what was spent a little later, many requests at once. A quiet
 * gateway, subscriptions, wallets with little left and requests that last are the plain till's: there a hold is a row.
 */

import type { Db } from "../store/db.ts";
import { UNSENT } from "../store/holds.ts";
import { storable } from "../store/usage-row.ts";
import { chargedWithin, type HoldAsked, type HoldResult, holdOf, type Settlement } from "./booking.ts";
import { openDisk } from "./disk.ts";
import type { Journal } from "./journal.ts";
import { type Ended, type ExpressHold, emptyLane, endHold, startHold, undoHold } from "./leases.ts";
import { type LendingLimits, openLending } from "./lending.ts";
import { openProgress } from "./progress.ts";
import { asError, inTime, isHopeless, reasonOf, TillUnavailable } from "./store-faults.ts";
import { openTill, type Till, type TillOptions } from "./till.ts";

export interface ExpressLimits extends LendingLimits {
  /** So many holds within a tenth of a second make the lane worth its while. */
  busyHolds: number;
  /** A hold that lasts becomes a row, so that the journal may forget it. */
  moveAfterMs: number;
  /** What is set aside goes back when its user has been quiet for so long. */
  idleMs: number;
  lookMs: number;
}

export interface ExpressOptions extends TillOptions {
  journal: Journal;
  /** A second connection to the same store. */
  books: Db;
  express: ExpressLimits;
}

interface Wish {
  asked: HoldAsked;
  resolve(result: HoldResult | PromiseLike<HoldResult>): void;
  reject(error: Error): void;
}

/** Somebody who waits for the journal. */
type Waiter = { kind: "held"; held: ExpressHold; wish: Wish } | { kind: "ended"; ended: Ended };

const BUSY_SPAN_MS = 100;

export function openExpressTill(options: ExpressOptions): Till {
  const { db, log, clock, incarnation, journal, express, limits } = options;
  const plain = openTill(options);
  const disk = openDisk({ ...options, db: { engine: "sqlite", flush: journal.sync } });
  const lane = emptyLane();
  const progress = openProgress(limits, writeProgress, clock.monotonicMs);
  const lending = openLending({
    ...options,
    lane,
    plain,
    progress,
    limits: { ...limits, ...express },
    writeJournal: write,
  });
  const { leases, holds, ending } = lane;
  /** Users who have too little to set some of it aside, until somebody looks again. */
  const poor = new Set<string>();
  /** Users whose holds are asked of the store at this moment: nothing is set aside under them. */
  const exact = new Map<string, number>();
  /** Users who wait for something to be set aside, and how many of their requests. */
  const borrowers = new Map<string, number>();
  let wishes: Wish[] = [];
  let waiters: Waiter[] = [];
  let isWriting = false;
  let isTidying = false;
  let spanMs = 0;
  let spanHolds = 0;
  let lastSpanHolds = 0;
  let brokenUntilMs = Number.NEGATIVE_INFINITY;
  let stopped = false;
  const looking = setInterval(look, express.lookMs);
  looking.unref();

  function isBusy(): boolean {
    const nowMs = clock.monotonicMs();
    if (nowMs - spanMs >= BUSY_SPAN_MS) {
      lastSpanHolds = nowMs - spanMs < 2 * BUSY_SPAN_MS ? spanHolds : 0;
      spanHolds = 0;
      spanMs = nowMs;
    }
    spanHolds++;
    return nowMs >= brokenUntilMs && Math.max(spanHolds, lastSpanHolds) >= express.busyHolds;
  }

  function hold(asked: HoldAsked): Promise<HoldResult> {
    if (asked.charge !== "balance" || stopped) return plain.hold(asked);
    const { userId } = asked;
    const mayBorrow = isBusy() && !poor.has(userId);
    if (asked.isLasting || exact.has(userId) || !(mayBorrow || isLent(userId))) return exactly(asked);
    const { promise, resolve, reject } = Promise.withResolvers<HoldResult>();
    const wish = { asked, resolve, reject };
    if (isCovered(asked)) grant(wish);
    else {
      if (wishes.length === 0) setImmediate(lend);
      wishes.push(wish);
      add(borrowers, userId, 1);
    }
    return promise;
  }

  const isLent = (userId: string) => leases.has(userId) || borrowers.has(userId);

  function isCovered({ userId, wantedNano, tariff }: HoldAsked): boolean {
    const lease = leases.get(userId);
    return (
      lease !== undefined &&
      !lease.isClosing &&
      lease.freeNano >= wantedNano &&
      lending.isKept(tariff.id) &&
      clock.monotonicMs() >= brokenUntilMs
    );
  }

  async function lend(): Promise<void> {
    const asked = wishes;
    wishes = [];
    let isAway = false;
    try {
      const lent = lending.lend(asked.map((wish) => wish.asked).filter(({ userId }) => !exact.has(userId)));
      await inTime(lent, limits.holdPatienceMs);
    } catch (error) {
      isAway = error instanceof TillUnavailable;
      log.error("lease_failed", { reason: reasonOf(error) });
    }
    for (const wish of asked) add(borrowers, wish.asked.userId, -1);
    for (const wish of asked) {
      if (isCovered(wish.asked)) grant(wish);
      else if (isAway) wish.reject(new TillUnavailable("the store took too long"));
      else {
        if (wish.asked.wantedNano > 0n) poor.add(wish.asked.userId);
        wish.resolve(exactly(wish.asked));
      }
    }
  }

  function grant(wish: Wish): void {
    const { asked } = wish;
    const terms = { amountNano: asked.wantedNano, subscriptionId: null };
    const hold = holdOf(asked, terms, incarnation, clock.nowMs());
    const held = { hold, segment: journal.segment, sinceMs: clock.monotonicMs(), moving: null };
    startHold(lane, held);
    progress.open(asked.requestId, UNSENT);
    journal.held(hold);
    waiters.push({ kind: "held", held, wish });
    writeSoon();
  }

  /** By the store alone, which knows all that the user has while nothing is set aside. */
  async function exactly(asked: HoldAsked): Promise<HoldResult> {
    const { userId } = asked;
    add(exact, userId, 1);
    try {
      if (isLent(userId)) await inTime(close(userId), limits.holdPatienceMs);
      return await plain.hold(asked);
    } finally {
      add(exact, userId, -1);
    }
  }

  async function close(userId: string): Promise<void> {
    try {
      await lending.close(userId);
    } catch (error) {
      throw isHopeless(error) ? asError(error) : new TillUnavailable(reasonOf(error));
    }
  }

  /** How far those have come that have not ended: what a successor settles by. */
  function writeProgress(): void {
    const due = progress.take(Number.POSITIVE_INFINITY);
    for (const [requestId, now] of due) journal.progressed(requestId, now);
    if (!write()) progress.putBack(due);
  }

  function settle(settlement: Settlement): Promise<void> {
    const { requestId } = settlement.row;
    const known = ending.get(requestId);
    if (known !== undefined) return known.promise;
    const held = holds.get(requestId);
    if (held === undefined) return plain.settle(settlement);
    // It becomes a row; if it does not, it is still here.
    if (held.moving !== null) return held.moving.then(() => settle(settlement));
    const charged = chargedWithin(held.hold, settlement);
    const ended: Ended = {
      row: storable(charged.row),
      chargedNano: charged.chargedNano,
      hold: held.hold,
      segment: journal.segment,
      isBooked: false,
      ...Promise.withResolvers<void>(),
    };
    endHold(lane, held, ended);
    progress.close(requestId);
    journal.settled(ended);
    lending.add(ended);
    waiters.push({ kind: "ended", ended });
    writeSoon();
    return ended.promise;
  }

  /** Everything asked in this turn of the event loop shares one write. */
  function writeSoon(): void {
    if (isWriting) return;
    isWriting = true;
    setImmediate(write);
  }

  /** False if the disk does not take it. */
  function write(): boolean {
    isWriting = false;
    const waiting = waiters;
    waiters = [];
    try {
      journal.write();
    } catch (error) {
      refuse(waiting, error);
      return false;
    }
    const flushed = waiting.length === 0 ? null : disk.committed();
    if (flushed === null) answer(waiting);
    else void flushed.then(() => answer(waiting));
    return true;
  }

  function answer(waiting: readonly Waiter[]): void {
    for (const waiter of waiting) {
      if (waiter.kind === "ended") waiter.ended.resolve();
      else {
        const { amountNano } = waiter.held.hold;
        waiter.wish.resolve({ kind: "held", amountNano, subscriptionId: null });
      }
    }
  }

  /** The disk takes nothing: what was promised is taken back, and what has ended waits for the store. */
  function refuse(waiting: readonly Waiter[], error: unknown): void {
    log.error("journal_failed", { reason: reasonOf(error) });
    brokenUntilMs = clock.monotonicMs() + limits.retryMs;
    for (const waiter of waiting) {
      if (waiter.kind === "ended") continue;
      undoHold(lane, waiter.held);
      progress.close(waiter.held.hold.requestId);
      waiter.wish.reject(new TillUnavailable("the journal cannot be written"));
    }
    void lending.bookAll();
  }

  function look(): void {
    poor.clear();
    if (isTidying) return;
    isTidying = true;
    void tidy(clock.monotonicMs()).finally(() => {
      isTidying = false;
    });
  }

  async function tidy(nowMs: number): Promise<void> {
    const grumble = (error: unknown) => log.error("lease_failed", { reason: reasonOf(error) });
    for (const { userId, usedMs } of [...leases.values()]) {
      if (nowMs - usedMs >= express.idleMs) await lending.close(userId).catch(grumble);
    }
    const lasting = [...holds.values()].filter(({ sinceMs }) => nowMs - sinceMs >= express.moveAfterMs);
    await lending.move(lasting).catch(grumble);
    await forget().catch(grumble);
  }

  async function forget(): Promise<void> {
    const needed = neededSegment();
    if (!journal.hasBefore(needed)) return;
    // What the store has must be on the disk before the journal forgets it.
    await db.flush();
    journal.forgetBefore(Math.min(needed, neededSegment()));
  }

  function neededSegment(): number {
    let needed = waiters.length > 0 ? journal.segment : journal.segment + 1;
    for (const { segment } of holds.values()) needed = Math.min(needed, segment);
    for (const { segment } of ending.values()) needed = Math.min(needed, segment);
    return needed;
  }

  /** What does not go back now goes back at the next start. */
  async function closeAll(): Promise<void> {
    try {
      for (const userId of [...leases.keys()]) await lending.close(userId);
    } catch (error) {
      log.error("lease_failed", { reason: reasonOf(error) });
    }
  }

  return {
    hold,
    dispatched(requestId, accountId, upstreamModel) {
      if (holds.has(requestId)) progress.set(requestId, { state: "dispatched", accountId, upstreamModel });
      else plain.dispatched(requestId, accountId, upstreamModel);
    },
    undispatched(requestId) {
      if (holds.has(requestId)) progress.set(requestId, UNSENT);
      else plain.undispatched(requestId);
    },
    checkpoint(requestId, outputTokens) {
      if (holds.has(requestId)) progress.count(requestId, outputTokens);
      else plain.checkpoint(requestId, outputTokens);
    },
    settle,
    async book(settlement) {
      const { requestId, userId } = settlement.row;
      if (!holds.has(requestId) && !ending.has(requestId)) return plain.book(settlement);
      await settle(settlement);
      if (userId !== null) await close(userId);
    },
    push: plain.push,
    async settleUp(userId) {
      await close(userId);
      await plain.settleUp(userId);
    },
    async flush() {
      write();
      if (!(await lending.bookAll())) throw new TillUnavailable("the store takes nothing");
      await plain.flush();
    },
    unbooked: (requestId) => ending.get(requestId)?.row ?? null,
    hasRoom: () => plain.hasRoom() && ending.size < limits.waitingMax,
    isOpen: (requestId) => holds.has(requestId) || ending.has(requestId) || plain.isOpen(requestId),
    async stop() {
      stopped = true;
      clearInterval(looking);
      progress.stop();
      lending.stop();
      write();
      await closeAll();
      disk.stop();
      await db.flush().catch(() => {});
      await journal.close(holds.size + ending.size === 0);
      await plain.stop();
    },
  };
}

function add(counts: Map<string, number>, name: string, many: 1 | -1): void {
  const sum = (counts.get(name) ?? 0) + many;
  if (sum === 0) counts.delete(name);
  else counts.set(name, sum);
}
