/** Test support: a billing engine on its own database, with funded users and ordinary requests. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Nano } from "../../money/nano.ts";
import { makeTariff } from "../../money/tariff.ts";
import { type Clock, systemClock } from "../../net/wire/clock.ts";
import { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log, LogFields } from "../../observe/log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { postTransfer } from "../../store/money/ledger.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import { type Journal, openJournal } from "../journal/journal.ts";
import { withRowJournal } from "../journal/row-journal.ts";
import { describeProcess } from "../recovery/process-watch.ts";
import {
  type Recovery,
  type RecoveryLimits,
  type RecoveryOptions,
  startRecovery,
} from "../recovery/recovery.ts";
import { openWriteBehindBilling, type WriteBehindLimits } from "../write-behind/write-behind-billing.ts";
import type { BillingEngine } from "./billing-engine.ts";
import {
  type BillingLimits,
  type DirectBillingOptions,
  type HoldRequest,
  openDirectBilling,
  type Settlement,
} from "./direct-billing.ts";
import { openSettlementSpool } from "./settlement-spool.ts";

/** One nano-USD per token, input and output. */
export const TARIFF = makeTariff({ input: "0.001", output: "0.001" });

export const LIMITS: BillingLimits = {
  gatherMs: 50,
  companyMin: 4,
  companyMs: 1,
  batchMax: 400,
  waitingMax: 100_000,
  holdPatienceMs: 2_000,
  silenceMs: 10_000,
  settlePatienceMs: 500,
  transactionMs: 10_000,
  retryMs: 500,
  progressMs: 25,
  checkpointMs: 1_000,
  flushMs: 50,
};

/** Uses write-behind billing for every request that allows it. */
const EXPRESS: WriteBehindLimits = {
  busyHolds: 0,
  bookMs: 50,
  bookBusyMs: 50,
  bookMany: 250,
  bookTogether: 6,
  bookAtLeast: 4,
  bookAtOnce: 3,
  batchRows: 4,
  moveLogAfter: 20,
  moveAfterMs: 5_000,
  idleMs: 1_000,
  lookMs: 800,
};

const SEGMENT_BYTES = 1_000;

export interface TillUnderTest extends BillingEngine {
  readonly logged: { event: string; fields: LogFields | undefined }[];
  readonly dir: string;
  readonly incarnation: string;
  readonly faults: BillingFaults;
}

export function makeTill(
  db: Db,
  change: Partial<DirectBillingOptions> & {
    dir?: string;
    express?: Partial<WriteBehindLimits>;
    /** Delays the sync of the journal. */
    syncing?: () => Promise<void>;
  } = {},
): TillUnderTest {
  const logged: TillUnderTest["logged"] = [];
  const note = (event: string, fields?: LogFields) => void logged.push({ event, fields });
  const log: Log = { info: note, warn: note, error: note };
  const dir = change.dir ?? mkdtempSync(join(tmpdir(), "gateway-till-"));
  const incarnation = change.incarnation ?? "inc_1";
  const clock: Clock = systemClock;
  const options: DirectBillingOptions = {
    db,
    log,
    clock,
    incarnation,
    spool: openSettlementSpool(dir, incarnation),
    durability: "process",
    faults: new BillingFaults(clock.nowMs),
    limits: LIMITS,
    ...change,
  };
  const till =
    change.express === undefined
      ? openDirectBilling(options)
      : openWriteBehindBilling({
          ...options,
          books: db,
          // An in-memory database has no file.
          moveLog() {},
          express: { ...EXPRESS, ...change.express },
          journal: slowed(openJournal(dir, incarnation, SEGMENT_BYTES), change.syncing),
        });
  return Object.assign(till, { logged, dir, incarnation, faults: options.faults });
}

/** The engine of a gateway with this database, with a journal for unpaid rows. They wait for `waitMs`. */
export function makeRowTill(
  db: Db,
  { waitMs = 60_000, lookMs = 60_000, ...change }: RowTillChange = {},
): TillUnderTest {
  if (db.engine === "sqlite") return makeTill(db, { ...change, express: { bookMs: waitMs, lookMs } });
  const till = makeTill(db, { ...change, limits: { ...LIMITS, gatherMs: waitMs } });
  const { dir, incarnation, logged, faults } = till;
  const note = (event: string, fields?: LogFields) => void logged.push({ event, fields });
  const withRows = withRowJournal({
    till,
    journal: openJournal(dir, incarnation, SEGMENT_BYTES),
    log: { info: note, warn: note, error: note },
    clock: systemClock,
    lookMs,
    retryMs: LIMITS.retryMs,
  });
  return Object.assign(withRows, { logged, dir, incarnation, faults });
}

interface RowTillChange {
  waitMs?: number;
  lookMs?: number;
  dir?: string;
  incarnation?: string;
}

function slowed(journal: Journal, syncing: (() => Promise<void>) | undefined): Journal {
  if (syncing === undefined) return journal;
  const { sync } = journal;
  return Object.assign(journal, { sync: () => syncing().then(sync) });
}

/** A path that is a file and not a folder: nothing can be created in it. */
export function noFolder(): string {
  const path = join(mkdtempSync(join(tmpdir(), "gateway-till-")), "file");
  writeFileSync(path, "");
  return path;
}

/** A database that this process can no longer reach after it is killed. */
export function mortal(db: Db): Db & { kill(): void } {
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
  beatMs: 5_000,
  deadAfterMs: 60_000,
  reapMs: 15_000,
  holdsPerBatch: 100,
  orphanMs: 60_000,
};

const silent: Log = { info() {}, warn() {}, error() {} };

/** Settles the holds of dead processes through this engine. */
export function recover(
  db: Db,
  till: TillUnderTest,
  change: Partial<RecoveryOptions> = {},
): Promise<Recovery> {
  return startRecovery({
    db,
    log: silent,
    clock: systemClock,
    till,
    self: describeProcess(till.incarnation, Date.now()),
    spoolDir: till.dir,
    faults: till.faults,
    limits: RECOVERY_LIMITS,
    ...change,
  });
}

let funds = 0;

export async function addFunds(db: Db, userId: string, amountNano: Nano): Promise<void> {
  await transaction(db, (tx) =>
    postTransfer(tx, {
      id: `topup:${++funds}`,
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

export function asking(requestId: string, change: Partial<HoldRequest> = {}): HoldRequest {
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

export function settling(requestId: string, chargedNano: Nano, userId = "u1"): Settlement {
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
