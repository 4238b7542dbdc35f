/** Database operations of write-behind billing, one transaction at a time. */

import type { Nano } from "../../money/nano.ts";
import type { Tariff } from "../../money/tariff.ts";
import { type Db, isLockTimeout } from "../../store/engine/db.ts";
import { openQueue } from "../../store/engine/transaction.ts";
import type { HoldProgress } from "../../store/money/holds.ts";
import { FenceLost } from "../../store/money/reservation-fences.ts";
import { insertTariffs } from "../../store/money/tariffs.ts";
import type { HoldRequest } from "../engine/billing-types.ts";
import type { BillingLimits, DirectBilling } from "../engine/direct-billing.ts";
import type { EngineServices } from "../engine/engine-services.ts";
import { buildHold } from "../engine/hold-decisions.ts";
import { splitIntoChunks } from "../engine/split-into-chunks.ts";
import { isPermanent } from "../engine/store-faults.ts";
import { BatchBooking } from "./batch-booking.ts";
import {
  type ReservationRequest,
  releaseReservations,
  reserveFunds,
  storeReservedHolds,
  sumByUser,
} from "./book-reservations.ts";
import { BookingRounds } from "./booking-rounds.ts";
import { recoverOwnReservations } from "./own-recovery.ts";
import { ReservationFence } from "./reservation-fence.ts";
import type { ReservationLimits } from "./reservation-limits.ts";
import { StepPacer } from "./step-pacer.ts";
import {
  listHoldsOn,
  newReservation,
  type ReservationState,
  type ReservedHold,
  removeHold,
  type WalletReservation,
} from "./wallet-reservations.ts";

interface ReservationStoreOptions extends EngineServices {
  /** A second connection to the same database: a transaction of many steps then does not block readers. */
  bookingDb: Db;
  reservationState: ReservationState;
  directBilling: Pick<DirectBilling, "trackHold" | "trackChangedHold" | "settle" | "disk">;
  limits: ReservationLimits & Pick<BillingLimits, "retryMs" | "stalledAfterMs" | "holdTimeoutMs">;
  checkpointWal(): void;
  /** Called when the database has these holds, before anything else happens to them. */
  onHoldsStored(holds: readonly ReservedHold[]): void;
}

/** Wallet reservations released in one transaction. */
const CLOSE_AT_ONCE = 16;

/** Owns the order of these transactions, and which tariffs the database has. */
export class ReservationStore {
  /** When the rows that wait for the database are booked. */
  readonly rounds: BookingRounds;
  readonly #options: ReservationStoreOptions;
  readonly #storedTariffs = new Map<string, Tariff>();
  readonly #queue = openQueue();
  readonly #pacer: StepPacer;
  readonly #fence: ReservationFence;
  readonly #booking: BatchBooking;

  constructor(options: ReservationStoreOptions) {
    const { limits, clock } = options;
    this.#options = options;
    this.#pacer = new StepPacer(clock.monotonicMs);
    this.#fence = new ReservationFence({ ...options, retryMs: limits.retryMs });
    this.#booking = new BatchBooking({
      ...options,
      fence: this.#fence,
      recoverOwn: () => this.#recoverOwn(),
      onBooked: () => this.rounds.onBooked(),
      transactionRowsMax: limits.bookAtOnceMin,
      runInOrder: this.#queue.inTurn,
      buildSteps: (tx) => ({
        size: limits.bookStepRows,
        pause: () => this.#pacer.pause(),
        mayEnd: (rows) => rows >= limits.bookBeforeYieldMin && (this.#queue.isAwaited() || tx.isAwaited()),
      }),
    });
    this.rounds = new BookingRounds({ ...options, booking: this.#booking });
  }

  isTariffStored(tariffId: string): boolean {
    return this.#storedTariffs.has(tariffId);
  }

  /** Reserves money for these holds where the wallet has enough. */
  reserve(requests: readonly HoldRequest[]): Promise<void> {
    return this.#inTurn(() => this.#reserveNow(requests));
  }

  /** Checks that the reservations still belong to this process. If not, everything on them moves to the database. */
  verify(): Promise<void> {
    return this.#inTurn(() => this.#fence.run(async () => {}));
  }

  /** The database may have lost tariffs and numbers that it had, and commits on the reservations. */
  async handleStoreReplaced(): Promise<void> {
    this.#booking.forgetNumbers();
    await insertTariffs(this.#options.db, [...this.#storedTariffs.values()]);
    await this.verify();
  }

  /** Call after `close`, when nothing is reserved any more. */
  async stop(): Promise<void> {
    this.#fence.stop();
    if (this.#options.reservationState.reservations.size === 0) await this.#fence.release();
  }

  /** Moves all of these wallet reservations to the database: settlements, holds, the free amount. */
  close(userIds: readonly string[]): Promise<void> {
    return this.#closeInParts(userIds, CLOSE_AT_ONCE);
  }

  /** A node that stopped responding may have locked the wallet, until the server ends its transaction. */
  async closeUnlocked(userId: string): Promise<void> {
    const { clock, limits } = this.#options;
    const untilMs = clock.monotonicMs() + limits.holdTimeoutMs;
    for (;;) {
      try {
        return await this.close([userId]);
      } catch (error) {
        if (!isLockTimeout(error) || clock.monotonicMs() >= untilMs) throw error;
      }
    }
  }

  /** Books all usage of this user, paid or not. */
  bookUserRows(userId: string): Promise<void> {
    const { waitingBatches } = this.#options.reservationState;
    return this.#booking.book([...waitingBatches].filter((batch) => batch.userId === userId));
  }

  /** Stores those of these holds that are still open. */
  async storeHolds(holds: readonly ReservedHold[]): Promise<void> {
    for (const part of splitIntoChunks(holds, this.#options.limits.bookStepRows)) {
      await this.#inTurn(async () => {
        const open = part.filter(({ isOpen }) => isOpen);
        if (open.length > 0) await this.#storeAndRelease(open, []);
      });
    }
  }

  /** One transaction at a time. If the reservations are lost, everything on them is in the database afterwards. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    return this.#queue.inTurn(async () => {
      try {
        await work();
      } catch (error) {
        if (!(error instanceof FenceLost)) throw error;
        await this.#recoverOwn();
      }
    });
  }

  async #recoverOwn(): Promise<void> {
    await recoverOwnReservations({
      ...this.#options,
      passToDirectBilling: (held, progress) => this.#passToDirectBilling(held, progress),
    });
    this.#fence.renew();
  }

  async #reserveNow(requests: readonly HoldRequest[]): Promise<void> {
    const { processId, directBilling } = this.#options;
    const wanted = this.#listWanted(requests);
    const tariffs = new Map(
      requests
        .filter(({ tariff }) => !this.#storedTariffs.has(tariff.id))
        .map(({ tariff }) => [tariff.id, tariff]),
    );
    if (wanted.length === 0 && tariffs.size === 0) return;
    const reserved = await this.#fence.run((tx) =>
      reserveFunds(tx, processId, wanted, [...tariffs.values()]),
    );
    // The reservation must be durable before the journal lines that are paid from it.
    await directBilling.disk.flushCommit();
    for (const [id, tariff] of tariffs) this.#storedTariffs.set(id, tariff);
    for (const request of wanted) this.#addReserved(request, reserved.get(request.userId));
  }

  /** What to reserve for each user whose free amount does not cover these holds. */
  #listWanted(requests: readonly HoldRequest[]): WantedReservation[] {
    const { reservations } = this.#options.reservationState;
    const neededByUser = sumByUser(requests.map(({ userId, wantedNano }) => [userId, wantedNano]));
    return [...neededByUser].flatMap(([userId, neededNano]) => {
      const reservation = reservations.get(userId) ?? newReservation(userId, neededNano);
      const leastNano = neededNano - reservation.freeNano;
      if (reservation.isClosing || leastNano <= 0n) return [];
      const { nextNano } = reservation;
      return [{ reservation, userId, leastNano, wantedNano: neededNano > nextNano ? neededNano : nextNano }];
    });
  }

  #addReserved({ reservation, userId, wantedNano }: WantedReservation, nano: Nano | undefined): void {
    if (nano === undefined) return;
    reservation.freeNano += nano;
    reservation.nextNano = wantedNano * 2n;
    reservation.lastUsedMs = this.#options.clock.monotonicMs();
    this.#options.reservationState.reservations.set(userId, reservation);
  }

  /** A reservation that cannot be released does not block the others. */
  async #closeInParts(userIds: readonly string[], size: number): Promise<void> {
    let refused: unknown = null;
    for (const part of splitIntoChunks(userIds, size)) {
      try {
        await this.#inTurn(() => this.#closeNow(part));
      } catch (error) {
        if (!isPermanent(error)) throw error;
        if (part.length === 1) refused = error;
        else {
          await this.#closeInParts(part, 1).catch((reason) => {
            refused = reason;
          });
        }
      }
      if (userIds.length > size) await this.#pacer.pause();
    }
    if (refused !== null) throw refused;
  }

  async #closeNow(userIds: readonly string[]): Promise<void> {
    const { reservations } = this.#options.reservationState;
    const closing = userIds.flatMap((userId) => reservations.get(userId) ?? []);
    // Skips reservations that were recovered by another process meanwhile.
    const listRemaining = () =>
      closing.filter((reservation) => reservations.get(reservation.userId) === reservation);
    for (const reservation of closing) reservation.isClosing = true;
    try {
      for (let remaining = listRemaining(); remaining.length > 0; remaining = listRemaining()) {
        const batches = remaining.flatMap(({ endedBatches }) => [...endedBatches]);
        if (batches.length > 0) await this.#booking.bookNow(batches);
        else await this.#release(remaining);
      }
    } finally {
      for (const reservation of closing) reservation.isClosing = false;
    }
  }

  async #release(closing: readonly WalletReservation[]): Promise<void> {
    const { reservationState } = this.#options;
    await this.#storeAndRelease(listHoldsOn(reservationState, closing), closing);
    for (const { userId } of closing) reservationState.reservations.delete(userId);
  }

  /** Stores the holds and releases the free amount of `closing` in the same transaction. */
  async #storeAndRelease(
    holds: readonly ReservedHold[],
    closing: readonly WalletReservation[],
  ): Promise<void> {
    const { processId, onHoldsStored } = this.#options;
    const { promise, resolve } = Promise.withResolvers<void>();
    for (const held of holds) held.storing = promise;
    try {
      const storedProgress = holds.map(({ progress }) => progress);
      const rows = holds.map(({ request, atMs }, index) => {
        const amount = { amountNano: request.wantedNano, subscriptionId: null };
        return { ...buildHold(request, amount, processId, atMs), ...storedProgress[index] };
      });
      await this.#fence.run(async (tx) => {
        if (rows.length > 0) await storeReservedHolds(tx, processId, rows);
        if (closing.length > 0) await releaseReservations(tx, processId, closing);
      });
      if (holds.length > 0) onHoldsStored(holds);
      for (const [index, held] of holds.entries()) this.#passToDirectBilling(held, storedProgress[index]);
    } finally {
      for (const held of holds) held.storing = null;
      resolve();
    }
  }

  #passToDirectBilling(held: ReservedHold, storedProgress: HoldProgress | undefined): void {
    const { reservationState, directBilling } = this.#options;
    const { request, progress } = held;
    removeHold(reservationState, held);
    if (progress === storedProgress) directBilling.trackHold(request.requestId, progress);
    else directBilling.trackChangedHold(request.requestId, progress);
  }
}

interface WantedReservation extends ReservationRequest {
  reservation: WalletReservation;
}
