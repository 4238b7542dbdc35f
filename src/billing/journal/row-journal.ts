/**
 * Journal for rows of unpaid requests with a database server. Each row is a journal line before the request ends for
 * the client, so it survives the process. Segments that the database has are deleted.
 */

import type { Clock } from "../../net/wire/clock.ts";
import type { Log } from "../../observe/log.ts";
import { clampCount, type UsageRow } from "../../store/usage/usage-row.ts";
import type { BillingEngine } from "../engine/billing-engine.ts";
import { ForwardingBilling } from "../engine/forwarding-billing.ts";
import { errorReason } from "../engine/store-faults.ts";
import type { Journal } from "./journal.ts";

export interface RowJournalOptions {
  billingEngine: BillingEngine;
  journal: Journal;
  log: Log;
  clock: Clock;
  /** How often to check whether segments can be deleted. */
  checkIntervalMs: number;
  /** How long the journal is skipped after a failed write. */
  retryMs: number;
}

/** A billing engine whose unpaid rows are also written to a journal, until the database has them. */
export class RowJournalBilling extends ForwardingBilling {
  readonly #options: RowJournalOptions;
  readonly #pruneTimer: ReturnType<typeof setInterval>;
  /** The segment of the latest row. */
  #segment = 0;
  #pushedCount = 0;
  /** Number of pushed rows that the database is known to have. */
  #storedCount = 0;
  #brokenUntilMs = Number.NEGATIVE_INFINITY;
  #pruning: Promise<void> | null = null;

  constructor(options: RowJournalOptions) {
    super(options.billingEngine);
    this.#options = options;
    this.#pruneTimer = setInterval(() => this.#schedulePrune(), options.checkIntervalMs).unref();
  }

  override push(row: UsageRow): void {
    const storable = clampCount(row);
    this.#record(storable);
    this.#pushedCount++;
    this.inner.push(storable);
  }

  override async flush(): Promise<void> {
    const pushedBefore = this.#pushedCount;
    await this.inner.flush();
    this.#storedCount = Math.max(this.#storedCount, pushedBefore);
  }

  override async stop(): Promise<void> {
    const { journal } = this.#options;
    clearInterval(this.#pruneTimer);
    await this.#pruning;
    await this.inner.stop();
    await (this.#hasStoredAll() ? journal.closeAndDelete() : journal.close());
  }

  #hasStoredAll(): boolean {
    return this.#storedCount === this.#pushedCount;
  }

  /** If the journal cannot be written, the row still goes to the database. */
  #record(row: UsageRow): void {
    const { journal, clock, log, retryMs } = this.#options;
    if (clock.monotonicMs() < this.#brokenUntilMs) return;
    try {
      this.#segment = journal.appendUnpaidRow(row);
    } catch (error) {
      log.error("journal_failed", { reason: errorReason(error) });
      this.#brokenUntilMs = clock.monotonicMs() + retryMs;
    }
  }

  #schedulePrune(): void {
    const { journal, log } = this.#options;
    if (!journal.hasSegmentBefore(Number.POSITIVE_INFINITY)) return;
    this.#pruning ??= this.#prune()
      .catch((error) => log.warn("journal_kept", { reason: errorReason(error) }))
      .finally(() => {
        this.#pruning = null;
      });
  }

  async #prune(): Promise<void> {
    const { journal } = this.#options;
    const latest = this.#segment;
    await this.flush();
    journal.deleteSegmentsBefore(this.#hasStoredAll() ? Number.POSITIVE_INFINITY : latest);
    // Closes the segments that have ended.
    await journal.sync();
  }
}
