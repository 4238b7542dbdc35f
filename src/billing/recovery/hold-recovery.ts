/**
 * Settles the holds of dead processes by their last written progress, never above the hold, and the holds of this
 * process that billing does not know.
 */

import type { Clock } from "../../base/clock.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { CorruptRow } from "../../store/engine/row.ts";
import { findHolds, type Hold, listHoldIds, listHolds } from "../../store/money/holds.ts";
import { readTerms } from "../../store/money/tariffs.ts";
import type { BillingEngine } from "../engine/billing-engine.ts";
import type { Settlement } from "../engine/booking.ts";
import { BillingUnavailable, withBillingErrors } from "../engine/store-faults.ts";
import { buildHeldSettlement, estimateHeldUse, type HeldUse } from "./held-settlement.ts";
import { HoldFailures } from "./hold-failures.ts";

interface HoldRecoveryOptions {
  db: Db;
  log: Log;
  clock: Clock;
  billingEngine: Pick<BillingEngine, "book" | "isOpen">;
  selfId: string;
  faults: BillingFaults;
  limits: {
    holdsPerBatch: number;
    holdAttemptsMax: number;
    /** A hold of this process that billing does not know is released after this time. */
    orphanMs: number;
  };
}

export class HoldRecovery {
  readonly #options: HoldRecoveryOptions;
  readonly #failures: HoldFailures;
  /** Holds of this process that billing did not know at the last check. */
  #suspected: ReadonlySet<string> = new Set();
  #isStopped = false;

  constructor(options: HoldRecoveryOptions) {
    this.#options = options;
    this.#failures = new HoldFailures(options);
  }

  stop(): void {
    this.#isStopped = true;
  }

  async settleProcessHolds(processId: string): Promise<void> {
    const { limits } = this.#options;
    const tried = new Set<string>();
    for (;;) {
      const batch = await this.#listHolds(processId, Number.MAX_SAFE_INTEGER);
      const holds = batch.filter(({ requestId }) => !tried.has(requestId));
      if (holds.length === 0 || this.#isStopped) return;
      for (const { requestId } of holds) tried.add(requestId);
      await this.#settleHolds(holds, processId);
      if (batch.length < limits.holdsPerBatch) return;
    }
  }

  /** A row that this version cannot read does not hide the others. */
  async #listHolds(processId: string, beforeMs: number): Promise<Hold[]> {
    const { db, limits } = this.#options;
    try {
      return await listHolds(db, processId, beforeMs, limits.holdsPerBatch);
    } catch (error) {
      if (!(error instanceof CorruptRow)) throw error;
    }
    const readable: Hold[] = [];
    for (const requestId of await listHoldIds(db, processId, limits.holdsPerBatch)) {
      try {
        const hold = (await findHolds(db, [requestId])).get(requestId);
        if (hold !== undefined && hold.atMs < beforeMs) readable.push(hold);
      } catch (error) {
        if (!(error instanceof CorruptRow)) throw error;
        await this.#failures.note({ requestId, processId }, error);
      }
    }
    return readable;
  }

  /** A transaction that timed out may have been committed anyway. */
  async settleOrphans(): Promise<void> {
    const { clock, limits, selfId, billingEngine } = this.#options;
    const holds = await this.#listHolds(selfId, clock.nowMs() - limits.orphanMs);
    const orphans = holds.filter(({ requestId }) => !billingEngine.isOpen(requestId));
    // An orphan that was seen only once may be a hold whose commit is just being acknowledged, and a changed clock
    // can make it look old.
    const confirmed = orphans.filter(({ requestId }) => this.#suspected.has(requestId));
    this.#suspected = new Set(orphans.map(({ requestId }) => requestId));
    if (confirmed.length > 0) await this.#settleHolds(confirmed, selfId);
  }

  async #settleHolds(holds: readonly Hold[], processId: string): Promise<void> {
    const settlements = await Promise.all(holds.map((hold) => this.#settleHold(hold)));
    const booked = settlements.filter((settlement) => settlement !== null);
    const chargedNano = booked.reduce((sum, settlement) => sum + settlement.chargedNano, 0n);
    this.#options.log.warn("holds_recovered", {
      holds: booked.length,
      charged_nano: chargedNano.toString(),
      process_id: processId,
    });
  }

  /** A hold that cannot be settled does not delay the others or the gateway's start. */
  async #settleHold(hold: Hold): Promise<Settlement | null> {
    const { clock, billingEngine } = this.#options;
    try {
      const settlement = buildHeldSettlement(hold, await this.#estimateUse(hold), clock.nowMs());
      await billingEngine.book(settlement);
      return settlement;
    } catch (error) {
      // The database is at fault, not the hold.
      if (error instanceof BillingUnavailable) throw error;
      await this.#failures.note(hold, error);
      return null;
    }
  }

  async #estimateUse(hold: Hold): Promise<HeldUse> {
    const { db, log } = this.#options;
    if (hold.state === "admitted") return estimateHeldUse(hold, null);
    // A failure of the database must not count as one of the hold.
    const terms = await withBillingErrors(readTerms(db, hold.tariffId));
    if (terms === null) log.error("tariff_missing", { request_id: hold.requestId, tariff: hold.tariffId });
    return estimateHeldUse(hold, terms);
  }
}
