/**
 * Settlements that the database did not accept in time. Each is saved until the database has it, so that its request
 * can continue: on disk if possible, otherwise only in memory. While any is only in memory, no new hold is made.
 */

import type { Log } from "../../observe/log.ts";
import type { Settlement } from "./booking.ts";
import type { SettlementSpool } from "./settlement-spool.ts";
import { errorReason } from "./store-faults.ts";

export interface UnsavedSettlements {
  /** Resolves when the settlements are saved, on disk or in memory. */
  keep(settlements: readonly Settlement[]): Promise<void>;
  /**
   * The database rejected this settlement permanently: its line survives the process and is read again at the next
   * start.
   */
  keepForOperator(settlement: Settlement): Promise<void>;
  /** The database has this settlement, whether or not it was saved here. */
  booked(requestId: string): void;
  /** Whether all saved settlements survive the process. */
  isSafe(): boolean;
  close(): Promise<void>;
}

export function openUnsavedSettlements(
  spool: SettlementSpool,
  log: Log,
  retryMs: number,
): UnsavedSettlements {
  /** Saved, or about to be saved, and not booked. */
  const unbooked = new Set<string>();
  const inMemory = new Map<string, Settlement>();
  let isForOperator = false;
  let retry: ReturnType<typeof setTimeout> | null = null;

  async function keep(settlements: readonly Settlement[]): Promise<void> {
    for (const { row } of settlements) unbooked.add(row.requestId);
    try {
      await spool.add(settlements);
    } catch (error) {
      keepInMemory(settlements, error);
    }
  }

  function keepInMemory(settlements: readonly Settlement[], error: unknown): void {
    const wasSafe = inMemory.size === 0;
    for (const settlement of settlements) {
      const { requestId } = settlement.row;
      if (unbooked.has(requestId)) inMemory.set(requestId, settlement);
    }
    if (inMemory.size === 0) return;
    if (wasSafe)
      log.error("settlements_in_memory", { settlements: inMemory.size, reason: errorReason(error) });
    retry ??= setTimeout(() => {
      retry = null;
      void moveToDisk();
    }, retryMs).unref();
  }

  async function moveToDisk(): Promise<void> {
    const settlements = [...inMemory.values()];
    if (settlements.length === 0) return;
    try {
      await spool.add(settlements);
      for (const { row } of settlements) forget(row.requestId);
    } catch (error) {
      keepInMemory(settlements, error);
    }
  }

  function forget(requestId: string): void {
    if (inMemory.delete(requestId) && inMemory.size === 0) log.info("settlements_safe");
  }

  return {
    keep,
    async keepForOperator(settlement) {
      isForOperator = true;
      await keep([settlement]);
    },
    booked(requestId) {
      if (!unbooked.delete(requestId)) return;
      forget(requestId);
      if (unbooked.size > 0 || isForOperator) return;
      spool.clear().catch((error) => log.error("spool_failed", { reason: errorReason(error) }));
    },
    isSafe: () => inMemory.size === 0,
    async close() {
      if (retry !== null) clearTimeout(retry);
      await moveToDisk();
      if (retry !== null) clearTimeout(retry);
      for (const requestId of inMemory.keys()) log.error("settlement_lost", { request_id: requestId });
      await spool.close();
    },
  };
}
