/** Books what dead processes left in files: their journals and their settlement spools. */

import type { Clock } from "../../base/clock.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import { recordBillingFault } from "../../store/money/billing-faults.ts";
import type { BillingEngine } from "../engine/billing-engine.ts";
import type { Settlement } from "../engine/booking.ts";
import { listOrphanedSpools } from "../engine/settlement-spool.ts";
import {
  type DamagedSegment,
  listOrphanedJournals,
  type OrphanedJournal,
} from "../journal/orphaned-journals.ts";
import { recoverReservations } from "../write-behind/recover-reservations.ts";

interface FileReplayOptions {
  db: Db;
  log: Log;
  clock: Clock;
  billingEngine: Pick<BillingEngine, "book">;
  selfId: string;
  spoolDir: string;
  faults: BillingFaults;
}

export class FileReplay {
  readonly #options: FileReplayOptions;
  /** Processes with lines that were rejected or not understood. Their files stay for the operator. */
  readonly #unreadable = new Set<string>();

  constructor(options: FileReplayOptions) {
    this.#options = options;
  }

  /** `alive`: the processes whose files are still in use. */
  async replayFiles(alive: ReadonlySet<string>): Promise<void> {
    await this.#replayJournals(alive);
    await this.#replaySpools(alive);
  }

  async #replayJournals(alive: ReadonlySet<string>): Promise<void> {
    const isSkipped = (id: string) => alive.has(id) || this.#unreadable.has(id);
    for (const orphaned of listOrphanedJournals(this.#options.spoolDir, isSkipped)) {
      await this.#replayJournal(orphaned);
    }
  }

  async #replayJournal(orphaned: OrphanedJournal): Promise<void> {
    const { db, log, selfId } = this.#options;
    const { processId, open, torn, unreadable } = orphaned;
    for (const segment of orphaned.damaged) await this.#reportDamage(segment);
    const ended = await recoverReservations(db, orphaned, { deadId: processId, selfId });
    const refused = await this.#bookAll(ended);
    log[refused + unreadable > 0 ? "error" : "info"]("journal_replayed", {
      ended: ended.length,
      open: open.length,
      refused,
      torn,
      unreadable,
      process_id: processId,
    });
    if (refused + unreadable === 0) orphaned.remove();
    else this.#unreadable.add(processId);
  }

  async #replaySpools(alive: ReadonlySet<string>): Promise<void> {
    const { log, spoolDir } = this.#options;
    const isSkipped = (id: string) => alive.has(id) || this.#unreadable.has(id);
    for (const orphaned of await listOrphanedSpools(spoolDir, isSkipped)) {
      const { processId, settlements, torn, unreadable } = orphaned;
      const refused = await this.#bookAll(settlements);
      log[refused + torn + unreadable > 0 ? "error" : "info"]("settlements_replayed", {
        settlements: settlements.length,
        refused,
        torn,
        unreadable,
        process_id: processId,
      });
      // A torn line was never acknowledged. Lines that were rejected or not understood stay for the operator.
      if (refused + unreadable === 0) await orphaned.remove();
      else this.#unreadable.add(processId);
    }
  }

  /** Returns the number of settlements that could not be booked. */
  async #bookAll(settlements: readonly Settlement[]): Promise<number> {
    const { billingEngine } = this.#options;
    const results = await Promise.allSettled(settlements.map((settlement) => billingEngine.book(settlement)));
    return results.filter(({ status }) => status === "rejected").length;
  }

  /** Reports to the log, as an alert, and in the database for the reconciliation. */
  async #reportDamage({ name, line, bytesLost }: DamagedSegment): Promise<void> {
    const { db, log, clock, faults } = this.#options;
    log.error("journal_damaged", { segment: name, line, bytes_lost: bytesLost });
    faults.add("journal_damaged");
    const detail = `The journal ${name} is damaged: ${bytesLost} bytes from line ${line} could not be read.`;
    await recordBillingFault(db, { id: name, atMs: clock.nowMs(), kind: "journal_damaged", detail });
  }
}
