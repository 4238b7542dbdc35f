/**
 * Rows of requests that nobody pays for, where the store is a server: each is a line of the journal before anybody
 * hears of its end, so that it outlives the process, and the journal forgets what the store has.
 */

import type { Clock } from "../../net/wire/clock.ts";
import type { Log } from "../../observe/log.ts";
import { clampCount, type UsageRow } from "../../store/usage/usage-row.ts";
import type { BillingEngine } from "../engine/direct-billing.ts";
import { errorReason } from "../engine/store-faults.ts";
import type { Journal } from "./journal.ts";

export interface RowJournalOptions {
  till: BillingEngine;
  journal: Journal;
  log: Log;
  clock: Clock;
  /** How often it is looked whether the journal can forget something. */
  lookMs: number;
  /** Nothing is told to a journal that could not be written for so long. */
  retryMs: number;
}

/** The same till, with a journal of the rows that are pushed. */
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
  let forgetting: Promise<void> | null = null;
  const looking = setInterval(look, lookMs);
  looking.unref();

  /** A journal that cannot be written keeps no row from the store. */
  function tell(row: UsageRow): void {
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

  function look(): void {
    if (!journal.hasBefore(Number.POSITIVE_INFINITY)) return;
    forgetting ??= forget()
      .catch((error) => log.warn("journal_kept", { reason: errorReason(error) }))
      .finally(() => {
        forgetting = null;
      });
  }

  async function forget(): Promise<void> {
    const latest = segment;
    await flush();
    journal.forgetBefore(stored === pushed ? Number.POSITIVE_INFINITY : latest);
    // Segments that ended are closed by this.
    await journal.sync();
  }

  return {
    ...till,
    push(row) {
      const fitting = clampCount(row);
      tell(fitting);
      pushed++;
      till.push(fitting);
    },
    flush,
    async stop() {
      clearInterval(looking);
      await forgetting;
      await till.stop();
      await journal.close(stored === pushed);
    },
  };
}
