/** Settles requests that hold money of a wallet reservation: a journal line now, and the database in a batch. */

import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { isSharedServer } from "../../store/engine/dialect.ts";
import { clampCount, type UsageRow } from "../../store/usage/usage-row.ts";
import type { Settlement } from "../engine/booking.ts";
import { chargeHold } from "../engine/debt.ts";
import type { BillingLimits, DirectBilling } from "../engine/direct-billing.ts";
import type { Disk, Durability } from "../engine/disk.ts";
import { withTimeout } from "../engine/store-faults.ts";
import type { Journal } from "../journal/journal.ts";
import { settleOverrun } from "./overrun.ts";
import type { ReservationStore } from "./reservation-store.ts";
import { RowBatch } from "./row-batch.ts";
import { endHold, type ReservationState, type ReservedHold } from "./wallet-reservations.ts";

interface ReservedSettlementOptions {
  db: Db;
  log: Log;
  durability: Durability;
  journal: Pick<Journal, "appendSettlement">;
  disk: Disk;
  limits: BillingLimits;
  reservationState: ReservationState;
  reservationStore: Pick<ReservationStore, "rounds" | "storeHolds">;
  directBilling: Pick<DirectBilling, "settle" | "unsavedSettlements" | "isOpen">;
  onJournalFailure(error: unknown): void;
  isStopped(): boolean;
}

export class ReservedSettlements {
  readonly #options: ReservedSettlementOptions;

  constructor(options: ReservedSettlementOptions) {
    this.#options = options;
  }

  settle(settlement: Settlement): Promise<void> | null {
    const { reservationState, directBilling, disk, limits } = this.#options;
    const held = reservationState.requests.get(settlement.row.requestId);
    if (held === undefined) return directBilling.settle(settlement);
    if (held instanceof RowBatch) {
      if (held.stored === null) return disk.flushCommit();
      return withTimeout(held.untilStored(), limits.settlementTimeoutMs).catch(() => {});
    }
    if (held.storing !== null) return this.#settleAfter(held.storing, settlement);
    if (settlement.chargedNano > held.request.wantedNano)
      return settleOverrun(this.#options, held, settlement);
    return this.#settleReserved(held, settlement);
  }

  #settleReserved(held: ReservedHold, settlement: Settlement): Promise<void> | null {
    const { reservationState, reservationStore, journal, disk, onJournalFailure } = this.#options;
    const amountNano = held.request.wantedNano;
    const row = clampCount(chargeHold({ amountNano, subscriptionId: null }, settlement).row);
    const batch = endHold(reservationState, held, row);
    reservationStore.rounds.onRowWaiting();
    try {
      journal.appendSettlement(row);
    } catch (error) {
      const saved = this.#saveOrStore(batch, row);
      onJournalFailure(error);
      return saved;
    }
    return this.#waitsForStore(row) ? this.#untilStored(batch) : disk.flushCommit();
  }

  /** Other nodes find a stored response by its usage row. */
  #waitsForStore({ responseId, interface: family }: UsageRow): boolean {
    const { db, durability } = this.#options;
    return durability === "store" || (isSharedServer(db) && responseId !== null && family === "responses");
  }

  /** Settlements that wait share a transaction. After the timeout, the journal has to be enough. */
  #untilStored(batch: RowBatch): Promise<void> {
    const { reservationStore, limits } = this.#options;
    const stored = batch.untilStored();
    void reservationStore.rounds.bookAll();
    return withTimeout(stored, limits.settlementTimeoutMs).catch(() => {});
  }

  /**
   * The hold is being stored in the database; if that fails, it is still reserved here. If the database does not
   * respond, the settlement is saved on disk meanwhile.
   */
  #settleAfter(storing: Promise<void>, settlement: Settlement): Promise<void> {
    const { directBilling, limits } = this.#options;
    const settled = storing.then(() => this.settle(settlement) ?? undefined);
    return withTimeout(settled, limits.settlementTimeoutMs).catch(async () => {
      await directBilling.unsavedSettlements.save([settlement]);
      void settled.then(() => this.#markBooked(settlement.row.requestId));
    });
  }

  /** Direct billing marks its own settlements. */
  #markBooked(requestId: string): void {
    const { reservationState, directBilling } = this.#options;
    const { unsavedSettlements } = directBilling;
    const batch = reservationState.requests.get(requestId);
    if (batch instanceof RowBatch)
      void batch.untilStored().then(() => unsavedSettlements.markBooked(requestId));
    else if (!directBilling.isOpen(requestId)) unsavedSettlements.markBooked(requestId);
  }

  /** Waits for the database; after a timeout the settlement is saved, as in direct billing. */
  #saveOrStore(batch: RowBatch, row: UsageRow): Promise<void> {
    const { directBilling, limits } = this.#options;
    const { unsavedSettlements } = directBilling;
    const save = () => unsavedSettlements.save([{ row, chargedNano: row.chargedNano }]);
    const stored = batch.untilStored();
    void stored.then(() => unsavedSettlements.markBooked(row.requestId));
    return withTimeout(stored, limits.settlementTimeoutMs).catch(save);
  }
}
