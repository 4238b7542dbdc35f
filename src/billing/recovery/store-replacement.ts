/**
 * Restores what a replaced database lost. After a failover to a standby that had not received the last commits, this
 * process books its requests of the last seconds again, unless the database has them.
 */

import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { StoreTimeline } from "../../store/engine/store-timeline.ts";
import { readStoredCharges } from "../../store/usage/usage.ts";
import { findRecovered } from "../../store/usage/usage-replacement.ts";
import type { BillingEngine } from "../engine/billing-engine.ts";
import type { Settlement } from "../engine/billing-types.ts";
import type { RecentBookings } from "../engine/recent-bookings.ts";
import { splitIntoChunks } from "../engine/split-into-chunks.ts";
import { BillingUnavailable, errorReason } from "../engine/store-faults.ts";

interface StoreReplacementOptions {
  db: Db;
  log: Log;
  clock: Clock;
  billingEngine: Pick<BillingEngine, "book" | "handleStoreReplaced">;
  recentBookings: RecentBookings;
  /** Writes the record of this process, which the database may have lost. */
  sendHeartbeat(): Promise<void>;
  checkIntervalMs: number;
}

const REQUESTS_AT_ONCE = 500;
const CHANGES_REPEATED_MS = 60_000;

/** Owns the timer of the check, and whether a replacement was seen that is not handled yet. */
export class StoreReplacement {
  readonly #options: StoreReplacementOptions;
  readonly #timeline: StoreTimeline;
  #timer: ReturnType<typeof setInterval> | null = null;
  #isReplaced = false;
  #replacedAtMs: number | null = null;
  #checking: Promise<void> | null = null;

  constructor(options: StoreReplacementOptions) {
    this.#options = options;
    this.#timeline = new StoreTimeline(options.db);
  }

  /** When the latest replacement was noticed. */
  get replacedAtMs(): number | null {
    return this.#replacedAtMs;
  }

  start(): void {
    const { log, checkIntervalMs } = this.#options;
    const logFailure = (error: unknown) =>
      log.error("store_replacement_failed", { reason: errorReason(error) });
    this.#timer = setInterval(() => {
      if (this.#checking === null) this.check().catch(logFailure);
    }, checkIntervalMs).unref();
  }

  /** Resolves when a replacement of the database is handled. If it rejects, the next check tries again. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => {
      this.#checking = null;
    });
    return this.#checking;
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#checking?.catch(() => {});
  }

  async #check(): Promise<void> {
    const { clock, recentBookings } = this.#options;
    const atMs = clock.monotonicMs();
    if (await this.#timeline.wasReplaced()) {
      this.#isReplaced = true;
      this.#replacedAtMs = clock.nowMs();
    }
    if (this.#isReplaced) await this.#restore();
    this.#isReplaced = false;
    if (this.#wasReplacedLately()) for (const change of recentBookings.listChanges()) await change();
    recentBookings.confirm(atMs);
  }

  /** Another node may book the row of a change again later than this one. */
  #wasReplacedLately(): boolean {
    const { clock } = this.#options;
    return this.#replacedAtMs !== null && clock.nowMs() - this.#replacedAtMs < CHANGES_REPEATED_MS;
  }

  async #restore(): Promise<void> {
    const { log, billingEngine, recentBookings, sendHeartbeat } = this.#options;
    await sendHeartbeat();
    await billingEngine.handleStoreReplaced();
    const recent = recentBookings.list();
    let [rebooked, refused] = [0, 0];
    for (const part of splitIntoChunks(recent, REQUESTS_AT_ONCE)) {
      const missing = await this.#findMissing(part);
      const results = await Promise.allSettled(missing.map((one) => billingEngine.book(one)));
      const failures = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
      // The database is away again. The next check continues.
      const unavailable = failures.find((reason) => reason instanceof BillingUnavailable);
      if (unavailable !== undefined) throw unavailable;
      rebooked += missing.length - failures.length;
      refused += failures.length;
    }
    log[refused > 0 ? "error" : "warn"]("store_replaced", { checked: recent.length, rebooked, refused });
  }

  /** Also those with an estimate of recovery: another node may have taken a hold for abandoned whose end was lost. */
  async #findMissing(settlements: readonly Settlement[]): Promise<Settlement[]> {
    const { db } = this.#options;
    const ids = settlements.map(({ row }) => row.requestId);
    const stored = await readStoredCharges(db, ids);
    const estimated = await findRecovered(db, [...stored.keys()]);
    for (const { requestId } of estimated) stored.delete(requestId);
    return settlements.filter(({ row }) => !stored.has(row.requestId));
  }
}
