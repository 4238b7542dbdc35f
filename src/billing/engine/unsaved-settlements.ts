/**
 * Settlements that the store did not take in time: each is kept until it has, so that its request can go on. On the
 * disk if that takes it, else in memory alone, where nothing new is promised before the store or the disk has them.
 */

import type { Log } from "../../observe/log.ts";
import type { Settlement } from "./booking.ts";
import type { SettlementSpool } from "./settlement-spool.ts";
import { errorReason } from "./store-faults.ts";

export interface UnsavedSettlements {
  /** Resolves when they are kept, wherever that is. */
  keep(settlements: readonly Settlement[]): Promise<void>;
  /** The store will never have it: its line outlives the process, and is read again at the next start. */
  keepForOperator(settlement: Settlement): Promise<void>;
  /** The store has it, whether it was kept or not. */
  booked(requestId: string): void;
  /** Whether all that is kept outlives the process. */
  isSafe(): boolean;
  close(): Promise<void>;
}

export function openUnsavedSettlements(
  spool: SettlementSpool,
  log: Log,
  retryMs: number,
): UnsavedSettlements {
  /** Kept, or about to be, and not booked. */
  const kept = new Set<string>();
  const inMemory = new Map<string, Settlement>();
  let isForOperator = false;
  let retry: ReturnType<typeof setTimeout> | null = null;

  async function keep(settlements: readonly Settlement[]): Promise<void> {
    for (const { row } of settlements) kept.add(row.requestId);
    try {
      await spool.add(settlements);
    } catch (error) {
      remember(settlements, error);
    }
  }

  function remember(settlements: readonly Settlement[], error: unknown): void {
    const wasSafe = inMemory.size === 0;
    for (const settlement of settlements) {
      const { requestId } = settlement.row;
      if (kept.has(requestId)) inMemory.set(requestId, settlement);
    }
    if (inMemory.size === 0) return;
    if (wasSafe)
      log.error("settlements_in_memory", { settlements: inMemory.size, reason: errorReason(error) });
    retry ??= setTimeout(() => {
      retry = null;
      void toDisk();
    }, retryMs).unref();
  }

  async function toDisk(): Promise<void> {
    const settlements = [...inMemory.values()];
    if (settlements.length === 0) return;
    try {
      await spool.add(settlements);
      for (const { row } of settlements) forget(row.requestId);
    } catch (error) {
      remember(settlements, error);
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
      if (!kept.delete(requestId)) return;
      forget(requestId);
      if (kept.size > 0 || isForOperator) return;
      spool.clear().catch((error) => log.error("spool_failed", { reason: errorReason(error) }));
    },
    isSafe: () => inMemory.size === 0,
    async close() {
      if (retry !== null) clearTimeout(retry);
      await toDisk();
      if (retry !== null) clearTimeout(retry);
      for (const requestId of inMemory.keys()) log.error("settlement_lost", { request_id: requestId });
      await spool.close();
    },
  };
}
