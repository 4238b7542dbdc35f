/** Opens the billing engine together with its recovery, maintenance and idempotency. */

import { join } from "node:path";
import type { Clock, NewId } from "../net/wire/clock.ts";
import { BillingFaults } from "../observe/billing-faults.ts";
import type { Log } from "../observe/log.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { openWalCheckpointer } from "../store/engine/wal-checkpointer.ts";
import type { BillingEngine } from "./engine/billing-engine.ts";
import { type BillingLimits, type DirectBillingOptions, openDirectBilling } from "./engine/direct-billing.ts";
import type { Durability } from "./engine/disk.ts";
import { type HoldQueueLimits, withHoldQueue } from "./engine/hold-queue.ts";
import { openReadiness, type ReadinessLimits } from "./engine/readiness.ts";
import { openSettlementSpool } from "./engine/settlement-spool.ts";
import { type Idempotency, type IdempotencyOptions, openIdempotency } from "./idempotency/idempotency.ts";
import { openJournal } from "./journal/journal.ts";
import { withRowJournal } from "./journal/row-journal.ts";
import { startFoldingDays } from "./maintenance/fold-days.ts";
import { startHourlyReconciliation } from "./maintenance/hourly-reconciliation.ts";
import { type RowRemovalOptions, startRemovingRows } from "./maintenance/remove-rows.ts";
import { describeProcess } from "./recovery/process-watch.ts";
import { type RecoveryLimits, startRecovery } from "./recovery/recovery.ts";
import { openWriteBehindBilling, type WriteBehindLimits } from "./write-behind/write-behind-billing.ts";

export interface Billing {
  till: BillingEngine;
  idempotency: Idempotency;
  faults: BillingFaults;
  /**
   * Whether a request that arrives now could be recorded. Resolves within a fixed time, even if the database does not
   * respond.
   */
  isReady(): Promise<boolean>;
  /** Call after the last request has ended and the billing engine was flushed. */
  close(): Promise<void>;
}

export interface AllBillingLimits {
  till: BillingLimits;
  holdQueue: HoldQueueLimits;
  express: WriteBehindLimits & { segmentBytes: number };
  recovery: RecoveryLimits;
  readiness: ReadinessLimits;
  idempotency: Pick<IdempotencyOptions, "keptMs" | "answerBytesMax">;
  idempotencySweepMs: number;
  foldDaysMs: number;
  usageRemoval: Pick<RowRemovalOptions, "everyMs" | "rowsMax" | "pauseMs">;
  auditMs: number;
  holdLeaseMs: number;
}

export interface BillingOptions {
  db: Db;
  databaseUrl: string;
  dataDir: string;
  /** Id of the data folder, if this process has locked it. */
  folderId?: string;
  durability: Durability;
  clock: Clock;
  keyring: Keyring;
  newId: NewId;
  log: Log;
  limits: AllBillingLimits;
}

/** Settles the holds of processes that died before it resolves. */
export async function openBilling(options: BillingOptions): Promise<Billing> {
  const { db, clock, keyring, log, limits } = options;
  const self = describeProcess(options.newId("inc"), clock.nowMs(), options.folderId ?? null);
  const spoolDir = join(options.dataDir, "settlements");
  const faults = new BillingFaults(clock.nowMs);
  const { till, close } = await openEngine(faults, options, self.id, spoolDir);
  const idempotency = openIdempotency({ db, clock, keyring, incarnation: self.id, ...limits.idempotency });
  const recovery = await startRecovery({
    db,
    log,
    clock,
    till,
    self,
    spoolDir,
    faults,
    limits: limits.recovery,
    buried: idempotency.recover,
  }).catch(async (error: unknown) => {
    // The files of dead processes cannot be read. Close everything, so that nothing keeps the process alive.
    await close();
    throw error;
  });
  await idempotency.recover();
  const isReady = openReadiness({
    sayAlive: recovery.sayAlive,
    isWell: till.isWell,
    spoolDir,
    segmentBytes: limits.express.segmentBytes,
    monotonicMs: clock.monotonicMs,
    limits: limits.readiness,
  });
  const sweepTimer = setInterval(() => {
    Promise.all([idempotency.recover(), idempotency.sweep()]).catch((error: unknown) => {
      log.warn("idempotency_sweep_failed", { reason: error instanceof Error ? error.message : "unknown" });
    });
  }, limits.idempotencySweepMs);
  sweepTimer.unref();
  const folding = startFoldingDays({ db, log, clock, everyMs: limits.foldDaysMs });
  const removal = startRemovingRows({ db, log, clock, ...limits.usageRemoval });
  const reconciliation = startHourlyReconciliation({
    databaseUrl: options.databaseUrl,
    log,
    everyMs: limits.auditMs,
    holdLeaseMs: limits.holdLeaseMs,
  });
  return {
    till,
    idempotency,
    faults,
    isReady,
    async close() {
      clearInterval(sweepTimer);
      reconciliation.stop();
      await Promise.all([folding.stop(), removal.stop()]);
      // Recovery books through the billing engine, so it stops first.
      await recovery.stop();
      await close();
      // If the database is unavailable now, the next start removes this process.
      await recovery.forget().catch(() => {});
    },
  };
}

/**
 * Many nodes share PostgreSQL, so there a settlement is in the database before the end of the response is delivered.
 * SQLite has one process, which can use write-behind billing.
 */
async function openEngine(
  faults: BillingFaults,
  { db, databaseUrl, clock, log, durability, limits }: BillingOptions,
  incarnation: string,
  spoolDir: string,
): Promise<{ till: BillingEngine; close(): Promise<void> }> {
  const options: DirectBillingOptions = {
    db,
    log,
    clock,
    incarnation,
    spool: openSettlementSpool(spoolDir, incarnation),
    durability,
    faults,
    limits: limits.till,
  };
  const journal = openJournal(spoolDir, incarnation, limits.express.segmentBytes);
  if (db.engine === "postgres") {
    const { lookMs } = limits.express;
    const { retryMs } = limits.till;
    const direct = withRowJournal({ till: openDirectBilling(options), journal, log, clock, lookMs, retryMs });
    const till = withHoldQueue(direct, limits.holdQueue);
    return { till, close: till.stop };
  }
  const books = await openDb(databaseUrl);
  const checkpointer = openWalCheckpointer(databaseUrl);
  const writeBehind = { books, journal, express: limits.express, moveLog: checkpointer.move };
  const till = withHoldQueue(openWriteBehindBilling({ ...options, ...writeBehind }), limits.holdQueue);
  return {
    till,
    async close() {
      await till.stop();
      await checkpointer.close();
      await books.close();
    },
  };
}
