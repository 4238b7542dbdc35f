/** The till, and everything that looks after what it wrote. */

import { join } from "node:path";
import type { Clock, NewId } from "../net/wire/clock.ts";
import { BillingFaults } from "../observe/billing-faults.ts";
import type { Log } from "../observe/log.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { openWalCheckpointer } from "../store/engine/wal-checkpointer.ts";
import {
  type BillingEngine,
  type BillingLimits,
  type DirectBillingOptions,
  openDirectBilling,
} from "./engine/direct-billing.ts";
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
  /** Whether a request that came now could be recorded. Answers in time, whatever the store does. */
  isReady(): Promise<boolean>;
  /** After the last request, and after the till was flushed. */
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
  /** Of the data folder, which this process has locked; nothing where it has not. */
  folderId?: string;
  durability: Durability;
  clock: Clock;
  keyring: Keyring;
  newId: NewId;
  log: Log;
  limits: AllBillingLimits;
}

/** The money of processes that died is settled before it resolves. */
export async function openBilling(options: BillingOptions): Promise<Billing> {
  const { db, clock, keyring, log, limits } = options;
  const self = describeProcess(options.newId("inc"), clock.nowMs(), options.folderId ?? null);
  const spoolDir = join(options.dataDir, "settlements");
  const faults = new BillingFaults(clock.nowMs);
  const { till, close } = await openTillFor(faults, options, self.id, spoolDir);
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
    // What was left cannot be read: nothing may keep the process from ending.
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
  const sweeping = setInterval(() => {
    Promise.all([idempotency.recover(), idempotency.sweep()]).catch((error: unknown) => {
      log.warn("idempotency_sweep_failed", { reason: error instanceof Error ? error.message : "unknown" });
    });
  }, limits.idempotencySweepMs);
  sweeping.unref();
  const folding = startFoldingDays({ db, log, clock, everyMs: limits.foldDaysMs });
  const removal = startRemovingRows({ db, log, clock, ...limits.usageRemoval });
  const audit = startHourlyReconciliation({
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
      clearInterval(sweeping);
      audit.stop();
      await Promise.all([folding.stop(), removal.stop()]);
      // It books by the till, so it ends first.
      await recovery.stop();
      await close();
      // A store that is away now hears of it at the next start.
      await recovery.forget().catch(() => {});
    },
  };
}

/** Many nodes share PostgreSQL: there what is paid for is in the store before anybody hears of its end. */
async function openTillFor(
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
    const plain = withRowJournal({ till: openDirectBilling(options), journal, log, clock, lookMs, retryMs });
    const till = withHoldQueue(plain, limits.holdQueue);
    return { till, close: till.stop };
  }
  const books = await openDb(databaseUrl);
  const mover = openWalCheckpointer(databaseUrl);
  const express = { books, journal, express: limits.express, moveLog: mover.move };
  const till = withHoldQueue(openWriteBehindBilling({ ...options, ...express }), limits.holdQueue);
  return {
    till,
    async close() {
      await till.stop();
      await mover.close();
      await books.close();
    },
  };
}
