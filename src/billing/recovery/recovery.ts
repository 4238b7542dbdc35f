/**
 * Recovery: settles the holds of dead processes by their last written progress, never above the hold. Every running
 * process does this; a hold that two of them find is booked once.
 */

import type { Nano } from "../../money/nano.ts";
import { buildTariff, computeListCost, computeTariffCost, NOTHING_USED } from "../../money/tariff.ts";
import type { Clock } from "../../net/wire/clock.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { recordBillingFault } from "../../store/money/billing-faults.ts";
import { type Hold, listHolds } from "../../store/money/holds.ts";
import {
  deleteProcess,
  findUnknownOwners,
  listProcesses,
  type ProcessRecord,
  storeNowMs,
  writeHeartbeat,
} from "../../store/money/processes.ts";
import { readTerms } from "../../store/money/tariffs.ts";
import type { BillingEngine } from "../engine/billing-engine.ts";
import type { Settlement } from "../engine/booking.ts";
import { BillingUnavailable } from "../engine/direct-billing.ts";
import { listOrphanedSpools } from "../engine/settlement-spool.ts";
import { type DamagedSegment, listOrphanedJournals } from "../journal/left-journals.ts";
import { type ProcessLookup, ProcessWatch } from "./process-watch.ts";
import { NOTHING_LEFT, recoverReservations } from "./recover-reservations.ts";

export interface Recovery {
  /** Writes the heartbeat of this process; rejects if the database does not accept it. */
  sayAlive(): Promise<void>;
  /** Resolves when the holds of every process known to be dead are settled. */
  reap(): Promise<void>;
  stop(): Promise<void>;
  /** Removes this process after a clean end, which leaves neither holds nor wallet reservations. */
  forget(): Promise<void>;
}

export interface RecoveryLimits {
  beatMs: number;
  /** A process that cannot be looked up is dead when its heartbeat was observed unchanged for this long. */
  deadAfterMs: number;
  reapMs: number;
  holdsPerBatch: number;
  /** A hold of this process that billing does not know is released after this time. */
  orphanMs: number;
}

export interface RecoveryOptions {
  db: Db;
  log: Log;
  clock: Clock;
  till: Pick<BillingEngine, "book" | "isOpen">;
  /** This process; see `describeProcess` in `process-watch.ts`. */
  self: ProcessRecord;
  spoolDir: string;
  faults: BillingFaults;
  limits: RecoveryLimits;
  /** Called when dead processes were removed, to recover their other state. */
  buried?(): Promise<unknown>;
  lookUpProcess?(pid: number): ProcessLookup;
}

/** Number of checks that may fail in a row before earlier observations become invalid. */
const FAILED_CHECKS_MAX = 2;

/** The process is registered and the dead processes are settled before it resolves. */
export async function startRecovery(options: RecoveryOptions): Promise<Recovery> {
  const { db, log, clock, till, self, limits } = options;
  const watch = new ProcessWatch({
    ...options,
    deadAfterMs: limits.deadAfterMs,
    pauseMsMax: FAILED_CHECKS_MAX * limits.reapMs,
    monotonicMs: clock.monotonicMs,
  });
  const unreadable = new Set<string>();
  /** Holds that this process could not settle. */
  const unsettleable = new Set<string>();
  /** Holds of this process that billing did not know at the last check. */
  let suspected: ReadonlySet<string> = new Set();
  let reaping: Promise<void> | null = null;
  let stopped = false;

  async function sayAlive(): Promise<void> {
    await writeHeartbeat(db, { ...self, beatAtMs: await storeNowMs(db, clock) });
  }

  async function pass(): Promise<void> {
    // If this process cannot write its heartbeat, the others cannot either, and a check would mean nothing.
    await sayAlive();
    const all = await listProcesses(db);
    const deadIds = watch.findDead(all);
    const dead = all.filter(({ id }) => deadIds.has(id));
    const alive = new Set(all.filter(({ id }) => !deadIds.has(id)).map(({ id }) => id)).add(self.id);
    // The real usage in the journals and spools is better than an estimate from the hold.
    await replayJournals(alive);
    await replaySpools(alive);
    for (const { id, beatAtMs } of dead) {
      await settleProcess(id);
      await deleteProcess(db, id, beatAtMs);
    }
    if (dead.length > 0) await options.buried?.();
    for (const id of await findUnknownOwners(db)) if (id !== self.id) await settleProcess(id);
    await settleOrphans();
  }

  async function settleProcess(incarnation: string): Promise<void> {
    // Its journal was read above or is lost, so its reservation is released.
    await recoverReservations(db, incarnation, NOTHING_LEFT);
    await settleProcessHolds(incarnation);
  }

  async function replayJournals(alive: ReadonlySet<string>): Promise<void> {
    for (const orphaned of listOrphanedJournals(
      options.spoolDir,
      (id) => alive.has(id) || unreadable.has(id),
    )) {
      const { incarnation, open, torn, unreadable: notUnderstood } = orphaned;
      for (const segment of orphaned.damaged) await reportDamage(segment);
      const ended = await recoverReservations(db, incarnation, orphaned);
      const refused = await bookAll(ended);
      log[refused + notUnderstood > 0 ? "error" : "info"]("journal_replayed", {
        ended: ended.length,
        open: open.length,
        refused,
        torn,
        unreadable: notUnderstood,
        incarnation,
      });
      if (refused + notUnderstood === 0) orphaned.remove();
      else unreadable.add(incarnation);
    }
  }

  /** Reports to the log, as an alert, and in the database for the reconciliation. */
  async function reportDamage({ name, line, bytesLost }: DamagedSegment): Promise<void> {
    log.error("journal_damaged", { segment: name, line, bytes_lost: bytesLost });
    options.faults.add("journal_damaged");
    const detail = `The journal ${name} is damaged: ${bytesLost} bytes from line ${line} on could not be read.`;
    await recordBillingFault(db, { id: name, atMs: clock.nowMs(), kind: "journal_damaged", detail });
  }

  async function bookAll(settlements: readonly Settlement[]): Promise<number> {
    const results = await Promise.allSettled(settlements.map((settlement) => till.book(settlement)));
    return results.filter(({ status }) => status === "rejected").length;
  }

  async function replaySpools(alive: ReadonlySet<string>): Promise<void> {
    for (const orphaned of await listOrphanedSpools(
      options.spoolDir,
      (id) => alive.has(id) || unreadable.has(id),
    )) {
      const { incarnation, settlements, torn, unreadable: notUnderstood } = orphaned;
      const refused = await bookAll(settlements);
      log[refused + torn + notUnderstood > 0 ? "error" : "info"]("settlements_replayed", {
        settlements: settlements.length,
        refused,
        torn,
        unreadable: notUnderstood,
        incarnation,
      });
      // A torn line was never acknowledged. Lines that were rejected or not understood stay for the operator.
      if (refused + notUnderstood === 0) await orphaned.remove();
      else unreadable.add(incarnation);
    }
  }

  async function settleProcessHolds(incarnation: string): Promise<void> {
    for (;;) {
      const batch = await listHolds(db, incarnation, Number.MAX_SAFE_INTEGER, limits.holdsPerBatch);
      const holds = batch.filter(({ requestId }) => !unsettleable.has(requestId));
      if (holds.length === 0 || stopped) return;
      await settleHolds(holds, incarnation);
      if (batch.length < limits.holdsPerBatch) return;
    }
  }

  async function settleHolds(holds: readonly Hold[], incarnation: string): Promise<void> {
    let chargedNano = 0n;
    let settled = 0;
    await Promise.all(
      holds.map(async (hold) => {
        try {
          const settlement = buildSettlement(hold, await computeCost(hold), clock.nowMs());
          await till.book(settlement);
          settled++;
          chargedNano += settlement.chargedNano;
        } catch (error) {
          // A hold that cannot be settled is left to the operator. It does not delay the others or the start of the
          // gateway.
          if (isUnavailable(error)) throw error;
          unsettleable.add(hold.requestId);
          log.error("hold_unrecoverable", { request_id: hold.requestId, reason: errorText(error) });
        }
      }),
    );
    log.warn("holds_recovered", {
      holds: settled,
      charged_nano: chargedNano.toString(),
      incarnation,
    });
  }

  /** A transaction that timed out may have been committed anyway. */
  async function settleOrphans(): Promise<void> {
    const holds = await listHolds(db, self.id, clock.nowMs() - limits.orphanMs, limits.holdsPerBatch);
    const orphans = holds.filter(({ requestId }) => !till.isOpen(requestId));
    // An orphan that was seen only once may be a hold whose commit is just being acknowledged, and a changed clock
    // can make it look old.
    const confirmed = orphans.filter(({ requestId }) => suspected.has(requestId));
    suspected = new Set(orphans.map(({ requestId }) => requestId));
    if (confirmed.length > 0) await settleHolds(confirmed, self.id);
  }

  async function computeCost(hold: Hold): Promise<RecoveredCost> {
    if (hold.state === "admitted") return NO_COST;
    const terms = await readTerms(db, hold.tariffId);
    if (terms === null) {
      log.error("tariff_missing", { request_id: hold.requestId, tariff: hold.tariffId });
      return NO_COST;
    }
    const tariff = buildTariff(terms);
    const metered = { ...NOTHING_USED, inputTokens: hold.inputTokens, outputTokens: hold.outputTokens };
    return { costNano: computeTariffCost(tariff, metered), upstreamNano: computeListCost(tariff, metered) };
  }

  function reap(): Promise<void> {
    reaping ??= pass().finally(() => {
      reaping = null;
    });
    return reaping;
  }

  const logFailure = (event: string) => (error: unknown) => log.error(event, { reason: errorText(error) });
  await reap();
  const heartbeatTimer = setInterval(() => void sayAlive().catch(logFailure("beat_failed")), limits.beatMs);
  const reapTimer = setInterval(() => void reap().catch(logFailure("recovery_failed")), limits.reapMs);
  heartbeatTimer.unref();
  reapTimer.unref();
  return {
    sayAlive,
    reap,
    async stop() {
      stopped = true;
      clearInterval(heartbeatTimer);
      clearInterval(reapTimer);
      await reaping?.catch(() => {});
    },
    async forget() {
      const ownRecord = (await listProcesses(db)).find(({ id }) => id === self.id);
      if (ownRecord !== undefined) await deleteProcess(db, ownRecord.id, ownRecord.beatAtMs);
    },
  };
}

function errorText(error: unknown): string {
  return error instanceof Error ? error.message : "unknown";
}

/** The database is at fault, not the hold. */
function isUnavailable(error: unknown): boolean {
  return error instanceof BillingUnavailable;
}

interface RecoveredCost {
  costNano: Nano;
  upstreamNano: Nano;
}

const NO_COST: RecoveredCost = { costNano: 0n, upstreamNano: 0n };

/** If nothing was sent upstream, nothing is charged. Otherwise the input and the counted output are charged. */
function buildSettlement(hold: Hold, used: RecoveredCost, nowMs: number): Settlement {
  const wasSent = hold.state === "dispatched";
  const chargedNano = used.costNano < hold.amountNano ? used.costNano : hold.amountNano;
  return {
    chargedNano,
    row: {
      requestId: hold.requestId,
      requestCount: 1,
      atMs: nowMs,
      keyId: hold.keyId,
      userId: hold.userId,
      groupId: hold.groupId,
      accountId: hold.accountId,
      interface: hold.interface,
      endpoint: hold.endpoint,
      publicModel: hold.publicModel,
      upstreamModel: hold.upstreamModel,
      stream: hold.stream,
      status: 500,
      outcome: wasSent ? "upstream_cut" : "failed",
      errorCode: null,
      inputTokens: wasSent ? hold.inputTokens : 0,
      cachedTokens: 0,
      cacheWriteTokens: 0,
      outputTokens: wasSent ? hold.outputTokens : 0,
      reasoningTokens: 0,
      imageInputTokens: 0,
      audioInputTokens: 0,
      audioOutputTokens: 0,
      images: 0,
      usageSource: wasSent ? "partial" : "none",
      attempts: wasSent ? 1 : 0,
      firstByteMs: null,
      durationMs: Math.max(0, nowMs - hold.atMs),
      waitMs: 0,
      responseId: null,
      upstreamRequestId: null,
      trace: null,
      costNano: used.costNano,
      chargedNano,
      upstreamNano: used.upstreamNano,
      payer: hold.subscriptionId === null ? "balance" : "subscription",
      tariffId: hold.tariffId,
      flags: wasSent && used.costNano > hold.amountNano ? ["recovered", "overrun"] : ["recovered"],
    },
  };
}
