/**
 * What happens to the holds of a process that died: whoever lives settles them by what was written of them, never
 * above what was held. Every living process looks; the same hold found by two is booked once.
 */

import type { Nano } from "../../money/nano.ts";
import { costOf, listCostOf, NOTHING_USED, tariffOf } from "../../money/tariff.ts";
import type { Clock } from "../../net/wire/clock.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { recordBillingFault } from "../../store/money/billing-faults.ts";
import { type Hold, holdsOf } from "../../store/money/holds.ts";
import {
  deleteProcess,
  findUnknownOwners,
  listProcesses,
  type ProcessRecord,
  storeNowMs,
  writeHeartbeat,
} from "../../store/money/processes.ts";
import { readTerms } from "../../store/money/tariffs.ts";
import type { Settlement } from "../engine/booking.ts";
import { type BillingEngine, BillingUnavailable } from "../engine/direct-billing.ts";
import { listOrphanedSpools } from "../engine/settlement-spool.ts";
import { type DamagedSegment, listOrphanedJournals } from "../journal/left-journals.ts";
import { type ProcessLookup, ProcessWatch } from "./process-watch.ts";
import { NOTHING_LEFT, recoverReservations } from "./recover-reservations.ts";

export interface Recovery {
  /** Tells the store that this process lives; rejects where it takes nothing. */
  sayAlive(): Promise<void>;
  /** Resolves when the holds of every process known to be dead are settled. */
  reap(): Promise<void>;
  stop(): Promise<void>;
  /** After a clean end, which leaves neither holds nor leases, there is nothing to look after. */
  forget(): Promise<void>;
}

export interface RecoveryLimits {
  beatMs: number;
  /** A process that cannot be looked up is dead when its beat was seen unchanged for so long. */
  deadAfterMs: number;
  reapMs: number;
  holdsPerBatch: number;
  /** A hold of this process that the till knows nothing of is given back after this long. */
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
  /** Some have died: what else they were at. */
  buried?(): Promise<unknown>;
  lookUpProcess?(pid: number): ProcessLookup;
}

/** So many looks may fail in a row before what was seen earlier counts no more. */
const PAUSED_LOOKS = 2;

/** Its row stands and the dead are settled before it resolves. */
export async function startRecovery(options: RecoveryOptions): Promise<Recovery> {
  const { db, log, clock, till, self, limits } = options;
  const watch = new ProcessWatch({
    ...options,
    deadAfterMs: limits.deadAfterMs,
    pauseMsMax: PAUSED_LOOKS * limits.reapMs,
    monotonicMs: clock.monotonicMs,
  });
  const unreadable = new Set<string>();
  /** Holds that this process has tried to settle in vain. */
  const hopeless = new Set<string>();
  /** Holds of this process that the till knew nothing of at the latest look. */
  let suspected: ReadonlySet<string> = new Set();
  let reaping: Promise<void> | null = null;
  let stopped = false;

  async function sayAlive(): Promise<void> {
    await writeHeartbeat(db, { ...self, beatAtMs: await storeNowMs(db, clock) });
  }

  async function pass(): Promise<void> {
    // Where this process cannot write its beat, the others cannot either: such a look would tell nothing.
    await sayAlive();
    const all = await listProcesses(db);
    const deadIds = watch.findDead(all);
    const dead = all.filter(({ id }) => deadIds.has(id));
    const alive = new Set(all.filter(({ id }) => !deadIds.has(id)).map(({ id }) => id)).add(self.id);
    // What their requests really used is better than what can be told from the hold.
    await replayJournals(alive);
    await replaySpools(alive);
    for (const { id, beatAtMs } of dead) {
      await settleAllOf(id);
      await deleteProcess(db, id, beatAtMs);
    }
    if (dead.length > 0) await options.buried?.();
    for (const id of await findUnknownOwners(db)) if (id !== self.id) await settleAllOf(id);
    await settleOrphans();
  }

  async function settleAllOf(incarnation: string): Promise<void> {
    // Its journal was read above, or is lost: what it had set aside is nobody's.
    await recoverReservations(db, incarnation, NOTHING_LEFT);
    await settleHoldsOf(incarnation);
  }

  async function replayJournals(alive: ReadonlySet<string>): Promise<void> {
    for (const left of listOrphanedJournals(options.spoolDir, (id) => alive.has(id) || unreadable.has(id))) {
      const { incarnation, open, torn, unreadable: strange } = left;
      for (const segment of left.damaged) await reportDamage(segment);
      const ended = await recoverReservations(db, incarnation, left);
      const refused = await bookAll(ended);
      log[refused + strange > 0 ? "error" : "info"]("journal_replayed", {
        ended: ended.length,
        open: open.length,
        refused,
        torn,
        unreadable: strange,
        incarnation,
      });
      if (refused + strange === 0) left.remove();
      else unreadable.add(incarnation);
    }
  }

  /** In the log, as an alert, and in the store for the audit. */
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
    for (const left of await listOrphanedSpools(
      options.spoolDir,
      (id) => alive.has(id) || unreadable.has(id),
    )) {
      const { incarnation, settlements, torn, unreadable: strange } = left;
      const refused = await bookAll(settlements);
      log[refused + torn + strange > 0 ? "error" : "info"]("settlements_replayed", {
        settlements: settlements.length,
        refused,
        torn,
        unreadable: strange,
        incarnation,
      });
      // A line that was torn was never acknowledged; what was refused, or not understood, is for the operator to see.
      if (refused + strange === 0) await left.remove();
      else unreadable.add(incarnation);
    }
  }

  async function settleHoldsOf(incarnation: string): Promise<void> {
    for (;;) {
      const found = await holdsOf(db, incarnation, Number.MAX_SAFE_INTEGER, limits.holdsPerBatch);
      const holds = found.filter(({ requestId }) => !hopeless.has(requestId));
      if (holds.length === 0 || stopped) return;
      await settleHolds(holds, incarnation);
      if (found.length < limits.holdsPerBatch) return;
    }
  }

  async function settleHolds(holds: readonly Hold[], incarnation: string): Promise<void> {
    let chargedNano = 0n;
    let settled = 0;
    await Promise.all(
      holds.map(async (hold) => {
        try {
          const settlement = recoveredFrom(hold, await usedBy(hold), clock.nowMs());
          await till.book(settlement);
          settled++;
          chargedNano += settlement.chargedNano;
        } catch (error) {
          // One that cannot be settled is for the operator; the others, and the gateway, need not wait for that.
          if (isAway(error)) throw error;
          hopeless.add(hold.requestId);
          log.error("hold_unrecoverable", { request_id: hold.requestId, reason: reasonOf(error) });
        }
      }),
    );
    log.warn("holds_recovered", {
      holds: settled,
      charged_nano: chargedNano.toString(),
      incarnation,
    });
  }

  /** A transaction that was given up on may have been committed after all. */
  async function settleOrphans(): Promise<void> {
    const holds = await holdsOf(db, self.id, clock.nowMs() - limits.orphanMs, limits.holdsPerBatch);
    const orphans = holds.filter(({ requestId }) => !till.isOpen(requestId));
    // Seen once, it may be one whose commit is being answered, and whose age a clock that was set makes up.
    const lasting = orphans.filter(({ requestId }) => suspected.has(requestId));
    suspected = new Set(orphans.map(({ requestId }) => requestId));
    if (lasting.length > 0) await settleHolds(lasting, self.id);
  }

  async function usedBy(hold: Hold): Promise<Used> {
    if (hold.state === "admitted") return UNUSED;
    const terms = await readTerms(db, hold.tariffId);
    if (terms === null) {
      log.error("tariff_missing", { request_id: hold.requestId, tariff: hold.tariffId });
      return UNUSED;
    }
    const tariff = tariffOf(terms);
    const metered = { ...NOTHING_USED, inputTokens: hold.inputTokens, outputTokens: hold.outputTokens };
    return { costNano: costOf(tariff, metered), upstreamNano: listCostOf(tariff, metered) };
  }

  function reap(): Promise<void> {
    reaping ??= pass().finally(() => {
      reaping = null;
    });
    return reaping;
  }

  const grumble = (event: string) => (error: unknown) => log.error(event, { reason: reasonOf(error) });
  await reap();
  const beating = setInterval(() => void sayAlive().catch(grumble("beat_failed")), limits.beatMs);
  const looking = setInterval(() => void reap().catch(grumble("recovery_failed")), limits.reapMs);
  beating.unref();
  looking.unref();
  return {
    sayAlive,
    reap,
    async stop() {
      stopped = true;
      clearInterval(beating);
      clearInterval(looking);
      await reaping?.catch(() => {});
    },
    async forget() {
      const me = (await listProcesses(db)).find(({ id }) => id === self.id);
      if (me !== undefined) await deleteProcess(db, me.id, me.beatAtMs);
    },
  };
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : "unknown";
}

/** The store, not the hold, is at fault. */
function isAway(error: unknown): boolean {
  return error instanceof BillingUnavailable;
}

interface Used {
  costNano: Nano;
  upstreamNano: Nano;
}

const UNUSED: Used = { costNano: 0n, upstreamNano: 0n };

/** Nothing went upstream: void. Else the input, and the output that was seen. */
function recoveredFrom(hold: Hold, used: Used, nowMs: number): Settlement {
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
