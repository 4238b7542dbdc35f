/**
 * Journal for rows of unpaid requests with a database server. Each row is a journal line before the request ends for
 * the client, so it survives the process. Segments that the database has are deleted.
 */

import type { Clock } from "../../net/wire/clock.ts";
import type { Log } from "../../observe/log.ts";
import { clampCount, type UsageRow } from "../../store/usage/usage-row.ts";
import type { BillingEngine } from "../engine/billing-engine.ts";
import { errorReason } from "../engine/store-faults.ts";
import type { Journal } from "./journal.ts";

export interface RowJournalOptions {
  till: BillingEngine;
  journal: Journal;
  log: Log;
  clock: Clock;
  /** How often to check whether segments can be deleted. */
  lookMs: number;
  /** How long the journal is skipped after a failed write. */
  retryMs: number;
}

/** Wraps a billing engine so that pushed rows are also written to a journal. */
export function withRowJournal({
  till,
  journal,
  log,
  clock,
  lookMs,
  retryMs,
}: RowJournalOptions): BillingEngine {
  let segment = 0;
  let pushed = 0;
  let stored = 0;
  let brokenUntilMs = Number.NEGATIVE_INFINITY;
  let pruning: Promise<void> | null = null;
  const pruneTimer = setInterval(pruneSoon, lookMs);
  pruneTimer.unref();

  /** Writes the row to the journal. If that fails, the row still goes to the database. */
  function record(row: UsageRow): void {
    if (clock.monotonicMs() < brokenUntilMs) return;
    try {
      segment = journal.recorded(row);
    } catch (error) {
      log.error("journal_failed", { reason: errorReason(error) });
      brokenUntilMs = clock.monotonicMs() + retryMs;
    }
  }

  async function flush(): Promise<void> {
    const upTo = pushed;
    await till.flush();
    stored = Math.max(stored, upTo);
  }

  function pruneSoon(): void {
    if (!journal.hasBefore(Number.POSITIVE_INFINITY)) return;
    pruning ??= prune()
      .catch((error) => log.warn("journal_kept", { reason: errorReason(error) }))
      .finally(() => {
        pruning = null;
      });
  }

  async function prune(): Promise<void> {
    const latest = segment;
    await flush();
    journal.forgetBefore(stored === pushed ? Number.POSITIVE_INFINITY : latest);
    // Closes the segments that have ended.
    await journal.sync();
  }

  return {
    ...till,
    push(row) {
      const fitting = clampCount(row);
      record(fitting);
      pushed++;
      till.push(fitting);
    },
    flush,
    async stop() {
      clearInterval(pruneTimer);
      await pruning;
      await till.stop();
      await journal.close(stored === pushed);
    },
  };
}
