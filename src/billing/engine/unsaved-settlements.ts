/**
 * Settlements that the database did not accept in time. Each is saved until the database has it, so that its request
 * can continue: on disk if possible, otherwise only in memory. While any is only in memory, no new hold is made.
 */

import type { BillingMetrics } from "../../observe/billing-metrics.ts";
import type { Log } from "../../observe/log.ts";
import type { Settlement } from "./booking.ts";
import type { SettlementSpool } from "./settlement-spool.ts";
import { errorReason } from "./store-faults.ts";

interface UnsavedSettlementsOptions {
  spool: SettlementSpool;
  log: Log;
  retryMs: number;
  metrics?: Pick<BillingMetrics, "overdueSettlements"> | undefined;
}

export class UnsavedSettlements {
  readonly #options: UnsavedSettlementsOptions;
  /** Saved, or about to be saved, and not booked. */
  readonly #unbooked = new Set<string>();
  readonly #inMemory = new Map<string, Settlement>();
  /** The spool contains a settlement for the operator, so it is not cleared. */
  #hasRejected = false;
  #retry: ReturnType<typeof setTimeout> | null = null;

  constructor(options: UnsavedSettlementsOptions) {
    this.#options = options;
  }

  /** Resolves when the settlements are saved, on disk or in memory. */
  async save(settlements: readonly Settlement[]): Promise<void> {
    for (const { row } of settlements) this.#unbooked.add(row.requestId);
    this.#reportCount();
    try {
      await this.#options.spool.add(settlements);
    } catch (error) {
      this.#saveInMemory(settlements, error);
    }
  }

  /** The database rejected this settlement permanently: its line is read again at the next start. */
  async saveForOperator(settlement: Settlement): Promise<void> {
    this.#hasRejected = true;
    await this.save([settlement]);
  }

  /** The database has this settlement, whether or not it was saved here. */
  markBooked(requestId: string): void {
    if (!this.#unbooked.delete(requestId)) return;
    this.#reportCount();
    this.#removeFromMemory(requestId);
    if (this.#unbooked.size > 0 || this.#hasRejected) return;
    const { spool, log } = this.#options;
    spool.clear().catch((error) => log.error("spool_failed", { reason: errorReason(error) }));
  }

  /** Whether all saved settlements survive the process. */
  isDurable(): boolean {
    return this.#inMemory.size === 0;
  }

  async close(): Promise<void> {
    const { spool, log } = this.#options;
    this.#cancelRetry();
    await this.#moveToDisk();
    this.#cancelRetry();
    for (const requestId of this.#inMemory.keys()) log.error("settlement_lost", { request_id: requestId });
    await spool.close();
  }

  #reportCount(): void {
    const { metrics } = this.#options;
    if (metrics !== undefined) metrics.overdueSettlements = this.#unbooked.size;
  }

  #saveInMemory(settlements: readonly Settlement[], error: unknown): void {
    const { log, retryMs } = this.#options;
    const wasDurable = this.isDurable();
    for (const settlement of settlements) {
      const { requestId } = settlement.row;
      if (this.#unbooked.has(requestId)) this.#inMemory.set(requestId, settlement);
    }
    if (this.#inMemory.size === 0) return;
    if (wasDurable)
      log.error("settlements_in_memory", { settlements: this.#inMemory.size, reason: errorReason(error) });
    this.#retry ??= setTimeout(() => {
      this.#retry = null;
      void this.#moveToDisk();
    }, retryMs).unref();
  }

  async #moveToDisk(): Promise<void> {
    const settlements = [...this.#inMemory.values()];
    if (settlements.length === 0) return;
    try {
      await this.#options.spool.add(settlements);
      for (const { row } of settlements) this.#removeFromMemory(row.requestId);
    } catch (error) {
      this.#saveInMemory(settlements, error);
    }
  }

  #removeFromMemory(requestId: string): void {
    if (this.#inMemory.delete(requestId) && this.#inMemory.size === 0)
      this.#options.log.info("settlements_safe");
  }

  #cancelRetry(): void {
    if (this.#retry !== null) clearTimeout(this.#retry);
  }
}
