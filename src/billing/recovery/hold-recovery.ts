/**
 * Settles the holds of dead processes by their last written progress, never above the hold, and the holds of this
 * process that billing does not know.
 */

import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { type Hold, listHolds } from "../../store/money/holds.ts";
import { readTerms } from "../../store/money/tariffs.ts";
import type { BillingEngine } from "../engine/billing-engine.ts";
import type { Settlement } from "../engine/booking.ts";
import { BillingUnavailable, errorReason } from "../engine/store-faults.ts";
import { buildHeldSettlement, estimateHeldUse, type HeldUse } from "./held-settlement.ts";

export interface HoldRecoveryOptions {
  db: Db;
  log: Log;
  clock: Clock;
  billingEngine: Pick<BillingEngine, "book" | "isOpen">;
  /** Id of this process. */
  selfId: string;
  limits: {
    holdsPerBatch: number;
    /** A hold of this process that billing does not know is released after this time. */
    orphanMs: number;
  };
}

export class HoldRecovery {
  readonly #options: HoldRecoveryOptions;
  /** Holds that this process could not settle. */
  readonly #unsettleable = new Set<string>();
  /** Holds of this process that billing did not know at the last check. */
  #suspected: ReadonlySet<string> = new Set();
  #isStopped = false;

  constructor(options: HoldRecoveryOptions) {
    this.#options = options;
  }

  stop(): void {
    this.#isStopped = true;
  }

  async settleProcessHolds(processId: string): Promise<void> {
    const { db, limits } = this.#options;
    for (;;) {
      const batch = await listHolds(db, processId, Number.MAX_SAFE_INTEGER, limits.holdsPerBatch);
      const holds = batch.filter(({ requestId }) => !this.#unsettleable.has(requestId));
      if (holds.length === 0 || this.#isStopped) return;
      await this.#settleHolds(holds, processId);
      if (batch.length < limits.holdsPerBatch) return;
    }
  }

  /** A transaction that timed out may have been committed anyway. */
  async settleOrphans(): Promise<void> {
    const { db, clock, limits, selfId, billingEngine } = this.#options;
    const holds = await listHolds(db, selfId, clock.nowMs() - limits.orphanMs, limits.holdsPerBatch);
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

  /** A hold that cannot be settled is left to the operator. It does not delay the others or the gateway's start. */
  async #settleHold(hold: Hold): Promise<Settlement | null> {
    const { clock, billingEngine, log } = this.#options;
    try {
      const settlement = buildHeldSettlement(hold, await this.#estimateUse(hold), clock.nowMs());
      await billingEngine.book(settlement);
      return settlement;
    } catch (error) {
      // The database is at fault, not the hold.
      if (error instanceof BillingUnavailable) throw error;
      this.#unsettleable.add(hold.requestId);
      log.error("hold_unrecoverable", { request_id: hold.requestId, reason: errorReason(error) });
      return null;
    }
  }

  async #estimateUse(hold: Hold): Promise<HeldUse> {
    const { db, log } = this.#options;
    if (hold.state === "admitted") return estimateHeldUse(hold, null);
    const terms = await readTerms(db, hold.tariffId);
    if (terms === null) log.error("tariff_missing", { request_id: hold.requestId, tariff: hold.tariffId });
    return estimateHeldUse(hold, terms);
  }
}
