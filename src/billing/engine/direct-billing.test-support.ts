/** Test support: a billing engine on its own database, with funded users and ordinary requests. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Clock, systemClock } from "../../base/clock.ts";
import type { Nano } from "../../money/nano.ts";
import { makeTariff } from "../../money/tariff.ts";
import { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log, LogFields } from "../../observe/log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { postTransfer } from "../../store/money/ledger.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import { Journal } from "../journal/journal.ts";
import { describeProcess } from "../recovery/process-watch.ts";
import {
  type Recovery,
  type RecoveryLimits,
  type RecoveryOptions,
  startRecovery,
} from "../recovery/recovery.ts";
import { WriteBehindBilling } from "../write-behind/write-behind-billing.ts";
import type { WriteBehindLimits } from "../write-behind/write-behind-options.ts";
import type { BillingEngine } from "./billing-engine.ts";
import {
  type BillingLimits,
  DirectBilling,
  type DirectBillingOptions,
  type HoldRequest,
  type Settlement,
} from "./direct-billing.ts";
import { SettlementSpool } from "./settlement-spool.ts";

/** One nano-USD per token, input and output. */
export const TARIFF = makeTariff({ input: "0.001", output: "0.001" });

export const LIMITS: BillingLimits = {
  unpaidRowDelayMs: 50,
  busyBatchMin: 4,
  batchDelayMs: 1,
  batchMax: 400,
  waitingMax: 100_000,
  holdTimeoutMs: 2_000,
  storeSilenceMaxMs: 10_000,
  storeFailureMaxMs: 10_000,
  stalledAfterMs: 2_000,
  settlementTimeoutMs: 500,
  transactionMs: 10_000,
  retryMs: 500,
  progressMs: 25,
  checkpointMs: 1_000,
  flushMs: 50,
};

/** Uses write-behind billing for every request that allows it. */
const WRITE_BEHIND_LIMITS: WriteBehindLimits = {
  busyHolds: 0,
  smallBatchDelayMs: 50,
  largeBatchDelayMs: 50,
  largeBatchMin: 250,
  bookAtOnceMin: 6,
  bookBeforeYieldMin: 4,
  bookStepRows: 3,
  batchRows: 4,
  checkpointAfterRows: 20,
  moveHoldAfterMs: 5_000,
  idleMs: 1_000,
  checkIntervalMs: 800,
  recallTimeoutMs: 4_000,
  silentRecallTimeoutMs: 1_500,
  silentAfterMs: 15_000,
  recallCheckMs: 5,
  heartbeatAgeMaxMs: 40_000,
};

const SEGMENT_BYTES = 1_000;

export interface BillingUnderTest extends BillingEngine {
  readonly logged: { event: string; fields: LogFields | undefined }[];
  readonly dir: string;
  readonly processId: string;
  readonly faults: BillingFaults;
}

export function makeBilling(
  db: Db,
  change: Partial<DirectBillingOptions> & {
    dir?: string;
    writeBehind?: Partial<WriteBehindLimits>;
    /** Delays the sync of the journal. */
    syncing?: () => Promise<void>;
  } = {},
): BillingUnderTest {
  const logged: BillingUnderTest["logged"] = [];
  const recordLog = (event: string, fields?: LogFields) => void logged.push({ event, fields });
  const log: Log = { info: recordLog, warn: recordLog, error: recordLog };
  const dir = change.dir ?? mkdtempSync(join(tmpdir(), "gateway-billing-"));
  const processId = change.processId ?? "inc_1";
  const clock: Clock = systemClock;
  const options: DirectBillingOptions = {
    db,
    log,
    clock,
    processId,
    spool: new SettlementSpool(dir, processId),
    durability: "process",
    faults: new BillingFaults(clock.nowMs),
    limits: LIMITS,
    ...change,
  };
  const billingEngine =
    change.writeBehind === undefined
      ? new DirectBilling(options)
      : new WriteBehindBilling({
          ...options,
          bookingDb: db,
          // An in-memory database has no file.
          checkpointWal() {},
          writeBehind: { ...WRITE_BEHIND_LIMITS, ...change.writeBehind },
          journal: withSlowSync(new Journal({ dir, processId, segmentBytes: SEGMENT_BYTES }), change.syncing),
        });
  return Object.assign(billingEngine, { logged, dir, processId, faults: options.faults });
}

/** The engine of a gateway with this database. Unpaid rows wait for `waitMs`. */
export function makeBillingWithJournal(
  db: Db,
  { waitMs = 60_000, checkIntervalMs: lookMs = 60_000, ...change }: RowBillingOverrides = {},
): BillingUnderTest {
  return makeBilling(db, {
    ...change,
    writeBehind: { smallBatchDelayMs: waitMs, checkIntervalMs: lookMs },
  });
}

interface RowBillingOverrides {
  waitMs?: number;
  checkIntervalMs?: number;
  dir?: string;
  processId?: string;
}

function withSlowSync(journal: Journal, syncing: (() => Promise<void>) | undefined): Journal {
  if (syncing === undefined) return journal;
  const sync = journal.sync.bind(journal);
  return Object.assign(journal, { sync: () => syncing().then(sync) });
}

/** A path that is a file and not a folder: nothing can be created in it. */
export function makeUnusableFolder(): string {
  const path = join(mkdtempSync(join(tmpdir(), "gateway-billing-")), "file");
  writeFileSync(path, "");
  return path;
}

/** A database that this process can no longer reach after it is killed. */
export function makeKillableDb(db: Db): Db & { kill(): void } {
  let isDead = false;
  const alive = <A extends unknown[], R>(work: (...args: A) => Promise<R>) => {
    return (...args: A): Promise<R> => (isDead ? Promise.reject(new Error("killed")) : work(...args));
  };
  const sql = Object.assign(alive(db.sql), {
    text: alive(db.sql.text),
    each: alive(db.sql.each),
    script: alive(db.sql.script),
  });
  const begin: Db["begin"] = (mode, work) =>
    isDead ? Promise.reject(new Error("killed")) : db.begin(mode, work);
  return {
    ...db,
    sql,
    begin,
    kill() {
      isDead = true;
    },
  };
}

const RECOVERY_LIMITS: RecoveryLimits = {
  heartbeatIntervalMs: 5_000,
  silentAfterMs: 30_000,
  deadAfterMs: 60_000,
  movedAfterMs: 12_000,
  recoveryIntervalMs: 15_000,
  holdAttemptsMax: 3,
  holdsPerBatch: 100,
  orphanMs: 60_000,
};

const silentLog: Log = { info() {}, warn() {}, error() {} };

/** Settles the holds of dead processes through this engine. */
export function recover(
  db: Db,
  billingEngine: BillingUnderTest,
  change: Partial<RecoveryOptions> = {},
): Promise<Recovery> {
  return startRecovery({
    db,
    log: silentLog,
    clock: systemClock,
    billingEngine,
    self: describeProcess(billingEngine.processId, Date.now()),
    spoolDir: billingEngine.dir,
    faults: billingEngine.faults,
    limits: RECOVERY_LIMITS,
    ...change,
  });
}

let topUpCount = 0;

export async function addFunds(db: Db, userId: string, amountNano: Nano): Promise<void> {
  await transaction(db, (tx) =>
    postTransfer(tx, {
      id: `topup:${++topUpCount}`,
      atMs: 1,
      kind: "topup",
      debit: "topup:test",
      credit: `user:${userId}`,
      amountNano,
      userId,
      subscriptionId: null,
      requestId: null,
      actor: "test",
      reason: null,
    }),
  );
}

export function buildHoldRequest(requestId: string, change: Partial<HoldRequest> = {}): HoldRequest {
  return {
    requestId,
    userId: "u1",
    charge: "balance",
    plans: null,
    tariff: TARIFF,
    wantedNano: 100n,
    leastNano: 10n,
    inputTokens: 20,
    keyId: "k1",
    groupId: "g1",
    interface: "chat",
    endpoint: "chat.completions",
    publicModel: "fast",
    stream: true,
    isLasting: false,
    ...change,
  };
}

export function buildTestSettlement(requestId: string, chargedNano: Nano, userId = "u1"): Settlement {
  const row = usageRow({
    requestId,
    userId,
    atMs: Date.now(),
    costNano: chargedNano,
    chargedNano,
    payer: "balance",
    tariffId: TARIFF.id,
  });
  return { row, chargedNano };
}
