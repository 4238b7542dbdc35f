/** Opens the billing engine together with its recovery, maintenance and idempotency. */

import { join } from "node:path";
import type { Clock, NewId } from "../base/clock.ts";
import { BillingFaults } from "../observe/billing-faults.ts";
import { BillingMetrics } from "../observe/billing-metrics.ts";
import type { Log } from "../observe/log.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { isSharedServer } from "../store/engine/dialect.ts";
import { openWalCheckpointer } from "../store/engine/wal-checkpointer.ts";
import type { ProcessRecord } from "../store/money/processes.ts";
import type { JobLeases } from "../store/nodes/job-leases.ts";
import type { BillingEngine } from "./engine/billing-engine.ts";
import type { BillingLimits } from "./engine/direct-billing.ts";
import type { Durability } from "./engine/disk.ts";
import { HoldQueueBilling, type HoldQueueLimits } from "./engine/hold-queue.ts";
import { openReadiness, type ReadinessLimits } from "./engine/readiness.ts";
import { type RecentBookingLimits, RecentBookings } from "./engine/recent-bookings.ts";
import { SettlementSpool } from "./engine/settlement-spool.ts";
import { Idempotency, type IdempotencyOptions } from "./idempotency/idempotency.ts";
import { Journal } from "./journal/journal.ts";
import { LateUsage } from "./late-usage.ts";
import { type MaintenanceLimits, startMaintenance } from "./maintenance/start-maintenance.ts";
import { measureCommits } from "./measured-db.ts";
import { type Recovery, type RecoveryLimits, startRecovery } from "./recovery/recovery.ts";
import { StoreReplacement } from "./recovery/store-replacement.ts";
import { WriteBehindBilling } from "./write-behind/write-behind-billing.ts";
import type { WriteBehindLimits } from "./write-behind/write-behind-options.ts";

export interface Billing {
  billingEngine: BillingEngine;
  idempotency: Idempotency;
  faults: BillingFaults;
  metrics: BillingMetrics;
  adoptedResponses: Recovery["adoptedResponses"];
  storeReplacement: Pick<StoreReplacement, "replacedAtMs">;
  lateUsage: Pick<LateUsage, "add">;
  /** Whether a request could be recorded now. Resolves in time even if the database is silent. */
  isReady(): Promise<boolean>;
  /** Call after the last request has ended and the billing engine was flushed. */
  close(): Promise<void>;
}

interface AllBillingLimits extends MaintenanceLimits {
  billingEngine: BillingLimits & { storeSettlementTimeoutMs: number };
  holdQueue: HoldQueueLimits;
  writeBehind: WriteBehindLimits & { sharedServer: Partial<WriteBehindLimits>; segmentBytes: number };
  recovery: RecoveryLimits;
  recentBookings: RecentBookingLimits & { checkIntervalMs: number };
  readiness: ReadinessLimits;
  idempotency: Pick<IdempotencyOptions, "keptMs" | "responseBytesMax">;
}

interface BillingOptions {
  db: Db;
  databaseUrl: string;
  /** Holds the journal. */
  nodeDir: string;
  /** How many processes of this machine divide the connections to the database; null if there is one. */
  process: { readonly count: number } | null;
  /** This process, registered in the database. */
  self: ProcessRecord;
  jobs: JobLeases;
  durability: Durability;
  clock: Clock;
  keyring: Keyring;
  newId: NewId;
  log: Log;
  limits: AllBillingLimits;
}

/** Settles the holds of processes that died before it resolves. */
export async function openBilling(options: BillingOptions): Promise<Billing> {
  // On a server, requests have separate connections: a report or an apply cannot occupy all of them.
  if (!isSharedServer(options.db)) return openBillingOn(options, options.db);
  const billingDb = await openDb(options.databaseUrl, {
    workload: "billing",
    processes: options.process?.count,
  });
  const opened = await openBillingOn(options, billingDb).catch(async (error: unknown) => {
    await billingDb.close();
    throw error;
  });
  return {
    ...opened,
    async close() {
      await opened.close();
      await billingDb.close();
    },
  };
}

async function openBillingOn(options: BillingOptions, db: Db): Promise<Billing> {
  const { clock, keyring, log, limits, self } = options;
  const spoolDir = join(options.nodeDir, "settlements");
  const faults = new BillingFaults(clock.nowMs);
  const metrics = new BillingMetrics();
  const recentBookings = new RecentBookings({ ...clock, limits: limits.recentBookings });
  const counters = { faults, metrics, recentBookings };
  const measured = measureCommits(db, metrics.commits, clock);
  const { billingEngine, close } = await openEngine(
    counters,
    { ...options, db: measured },
    self.id,
    spoolDir,
  );
  const idempotency = new Idempotency({ db, clock, keyring, processId: self.id, ...limits.idempotency });
  const recovery = await startRecovery({
    db,
    log,
    clock,
    billingEngine,
    self,
    spoolDir,
    faults,
    limits: limits.recovery,
    onProcessesLost: (silentIds) => idempotency.endOrphanedClaims(silentIds),
  }).catch(async (error: unknown) => {
    // The files of dead processes cannot be read. Close everything, so that nothing keeps the process alive.
    await close();
    throw error;
  });
  await idempotency.endOrphanedClaims();
  const storeReplacement = new StoreReplacement({
    db,
    log,
    clock,
    billingEngine,
    recentBookings,
    sendHeartbeat: () => recovery.sendHeartbeat(),
    checkIntervalMs: limits.recentBookings.checkIntervalMs,
  });
  if (isSharedServer(db)) storeReplacement.start();
  const isReady = openReadiness({
    sendHeartbeat: () => recovery.sendHeartbeat(),
    acceptsHolds: () => billingEngine.acceptsHolds() && billingEngine.isStoreResponding(),
    spoolDir,
    segmentBytes: limits.writeBehind.segmentBytes,
    monotonicMs: clock.monotonicMs,
    limits: limits.readiness,
  });
  const maintenance = startMaintenance({ ...options, faults }, idempotency);
  return {
    billingEngine,
    idempotency,
    faults,
    metrics,
    adoptedResponses: recovery.adoptedResponses,
    storeReplacement,
    lateUsage: new LateUsage({ db, billingEngine, recentBookings }),
    isReady,
    async close() {
      await maintenance.stop();
      await storeReplacement.stop();
      // Recovery books through the billing engine, so it stops first.
      await recovery.stop();
      await close();
      // If the database is unavailable now, the next start removes this process.
      await recovery.unregister().catch(() => {});
    },
  };
}

interface BillingCounters {
  faults: BillingFaults;
  metrics: BillingMetrics;
  recentBookings: RecentBookings;
}

/** On SQLite, batches are booked over a second connection, so that their transactions do not block readers. */
async function openEngine(
  { faults, metrics, recentBookings }: BillingCounters,
  { db, databaseUrl, clock, log, durability, limits }: BillingOptions,
  processId: string,
  spoolDir: string,
): Promise<{ billingEngine: BillingEngine; close(): Promise<void> }> {
  const { sharedServer, segmentBytes, ...writeBehind } = limits.writeBehind;
  const { storeSettlementTimeoutMs, ...billingLimits } = limits.billingEngine;
  if (durability === "store") billingLimits.settlementTimeoutMs = storeSettlementTimeoutMs;
  const options = {
    db,
    log,
    clock,
    processId,
    spool: new SettlementSpool(spoolDir, processId),
    durability,
    faults,
    metrics,
    limits: billingLimits,
    journal: new Journal({ dir: spoolDir, processId, segmentBytes }),
  };
  if (isSharedServer(db)) {
    const shared = {
      bookingDb: db,
      recentBookings,
      writeBehind: { ...writeBehind, ...sharedServer },
      checkpointWal() {},
    };
    const billingEngine = new HoldQueueBilling(
      new WriteBehindBilling({ ...options, ...shared }),
      limits.holdQueue,
    );
    return { billingEngine, close: () => billingEngine.stop() };
  }
  const bookingDb = measureCommits(await openDb(databaseUrl), metrics.commits, clock);
  const checkpointer = openWalCheckpointer(databaseUrl);
  const embedded = { bookingDb, writeBehind, checkpointWal: checkpointer.checkpoint };
  const billingEngine = new HoldQueueBilling(
    new WriteBehindBilling({ ...options, ...embedded }),
    limits.holdQueue,
  );
  return {
    billingEngine,
    async close() {
      await billingEngine.stop();
      await checkpointer.close();
      await bookingDb.close();
    },
  };
}
