/**
 * Recovery: frees the reserved money of silent processes; books what dead ones left in files, and settles their holds.
 * Every running process does this; a hold that two of them find is booked once.
 */

import type { Clock } from "../../base/clock.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { HANDED_OVER, moveResponseHolds } from "../../store/money/holds.ts";
import {
  deleteProcess,
  findUnknownOwners,
  listProcesses,
  type ProcessRecord,
  storeNowMs,
  writeHeartbeat,
} from "../../store/money/processes.ts";
import type { BillingEngine } from "../engine/billing-engine.ts";
import { errorReason } from "../engine/store-faults.ts";
import { NOTHING_LEFT, recoverReservations } from "../write-behind/recover-reservations.ts";
import { FileReplay } from "./file-replay.ts";
import { HoldRecovery } from "./hold-recovery.ts";
import { type ProcessLookup, ProcessWatch } from "./process-watch.ts";

export interface RecoveryLimits {
  heartbeatIntervalMs: number;
  /** A process that cannot be looked up is silent when its heartbeat was observed unchanged for this long. */
  silentAfterMs: number;
  /** A process that cannot be looked up is dead when its heartbeat was observed unchanged for this long. */
  deadAfterMs: number;
  /** The same for the process of this data folder on another machine. */
  movedAfterMs: number;
  recoveryIntervalMs: number;
  holdsPerBatch: number;
  /** A hold that could not be settled this often is set aside for an operator. */
  holdAttemptsMax: number;
  /** A hold of this process that billing does not know is released after this time. */
  orphanMs: number;
}

export interface RecoveryOptions {
  db: Db;
  log: Log;
  clock: Clock;
  billingEngine: Pick<BillingEngine, "book" | "isOpen" | "recordHeartbeat">;
  /** This process; see `describeProcess` in `process-watch.ts`. */
  self: ProcessRecord;
  spoolDir: string;
  faults: BillingFaults;
  limits: RecoveryLimits;
  /** Called when processes were removed, or are silent: to free their other state. */
  onProcessesLost?(silentIds: readonly string[]): Promise<unknown>;
  lookUpProcess?(pid: number): ProcessLookup;
}

/** Number of checks that may fail in a row before earlier observations become invalid. */
const FAILED_CHECKS_MAX = 2;

/** The process is registered and the dead processes are settled before it resolves. */
export async function startRecovery(options: RecoveryOptions): Promise<Recovery> {
  const recovery = new Recovery(options);
  await recovery.recoverDead();
  recovery.startTimers();
  return recovery;
}

/** Owns the heartbeat of this process and the passes of recovery, one at a time. */
export class Recovery {
  /**
   * Requests whose responses continue upstream, taken over from processes that have ended. Their holds are not settled
   * by estimate: the gateway reads the usage of these responses and removes them from this set.
   */
  readonly adoptedResponses = new Set<string>();
  readonly #options: RecoveryOptions;
  readonly #watch: ProcessWatch;
  readonly #files: FileReplay;
  readonly #holds: HoldRecovery;
  #timers: ReturnType<typeof setInterval>[] = [];
  #runningPass: Promise<void> | null = null;
  #runningHeartbeat: Promise<void> | null = null;

  constructor(options: RecoveryOptions) {
    const { limits, clock, self } = options;
    this.#options = options;
    this.#watch = new ProcessWatch({
      ...options,
      silentAfterMs: limits.silentAfterMs,
      deadAfterMs: limits.deadAfterMs,
      movedAfterMs: limits.movedAfterMs,
      pauseMsMax: FAILED_CHECKS_MAX * limits.recoveryIntervalMs,
      monotonicMs: clock.monotonicMs,
    });
    this.#files = new FileReplay({ ...options, selfId: self.id });
    this.#holds = new HoldRecovery({ ...options, selfId: self.id });
  }

  startTimers(): void {
    const { log, limits } = this.#options;
    const repeat = (work: () => Promise<void>, failureEvent: string, everyMs: number) =>
      setInterval(() => {
        work().catch((error: unknown) => log.error(failureEvent, { reason: errorReason(error) }));
      }, everyMs).unref();
    this.#timers = [
      repeat(() => this.sendHeartbeat(), "beat_failed", limits.heartbeatIntervalMs),
      repeat(() => this.recoverDead(), "recovery_failed", limits.recoveryIntervalMs),
    ];
  }

  /** Writes the heartbeat of this process, once at a time; rejects if the database does not accept it. */
  sendHeartbeat(): Promise<void> {
    this.#runningHeartbeat ??= this.#writeHeartbeat().finally(() => {
      this.#runningHeartbeat = null;
    });
    return this.#runningHeartbeat;
  }

  async #writeHeartbeat(): Promise<void> {
    const { db, clock, self, billingEngine, limits } = this.#options;
    const sentAtMs = clock.monotonicMs();
    try {
      await writeHeartbeat(db, { ...self, beatAtMs: await storeNowMs(db, clock) });
    } catch (error) {
      this.#watch.restart();
      throw error;
    }
    // The heartbeats of the others waited as long as this one.
    if (clock.monotonicMs() - sentAtMs > limits.heartbeatIntervalMs) this.#watch.restart();
    billingEngine.recordHeartbeat(sentAtMs);
  }

  /** Resolves when the holds of every process known to be dead are settled. */
  recoverDead(): Promise<void> {
    this.#runningPass ??= this.#runPass().finally(() => {
      this.#runningPass = null;
    });
    return this.#runningPass;
  }

  async stop(): Promise<void> {
    this.#holds.stop();
    for (const timer of this.#timers) clearInterval(timer);
    await this.#runningPass?.catch(() => {});
  }

  /** Removes this process after a clean end. The only holds that it may leave are of responses that continue upstream. */
  async unregister(): Promise<void> {
    const { db, self, log } = this.#options;
    const handedOver = await moveResponseHolds(db, self.id, HANDED_OVER);
    if (handedOver.length > 0) log.info("responses_handed_over", { responses: handedOver.length });
    const ownRecord = (await listProcesses(db)).find(({ id }) => id === self.id);
    if (ownRecord !== undefined) await deleteProcess(db, ownRecord.id, ownRecord.beatAtMs);
  }

  async #runPass(): Promise<void> {
    const { db, self } = this.#options;
    // If this process cannot write its heartbeat, the others cannot either, and a check would mean nothing.
    await this.sendHeartbeat();
    const all = await listProcesses(db);
    const { silent, dead: deadIds } = this.#watch.check(all);
    const dead = all.filter(({ id }) => deadIds.has(id));
    const alive = new Set(all.filter(({ id }) => !deadIds.has(id)).map(({ id }) => id)).add(self.id);
    // The real usage in the journals and spools is better than an estimate from the hold.
    await this.#files.replayFiles(alive);
    for (const { id, beatAtMs } of dead) {
      await this.#settleProcess(id);
      await deleteProcess(db, id, beatAtMs);
    }
    for (const id of silent) await this.#releaseReservations(id);
    if (dead.length + silent.length > 0) await this.#options.onProcessesLost?.(silent);
    for (const id of await findUnknownOwners(db)) if (id !== self.id) await this.#settleProcess(id);
    await this.#holds.settleOrphans();
  }

  async #settleProcess(processId: string): Promise<void> {
    // Its journal was replayed or is lost.
    const { db, self, log } = this.#options;
    await this.#releaseReservations(processId);
    const adopted = await moveResponseHolds(db, processId, self.id);
    for (const requestId of adopted) this.adoptedResponses.add(requestId);
    if (adopted.length > 0)
      log.info("responses_adopted", { responses: adopted.length, process_id: processId });
    await this.#holds.settleProcessHolds(processId);
  }
  /** A process whose fence is gone writes nothing on its reservations, should it return. */
  async #releaseReservations(processId: string): Promise<void> {
    const { db, self } = this.#options;
    await recoverReservations(db, NOTHING_LEFT, { deadId: processId, selfId: self.id });
  }
}
