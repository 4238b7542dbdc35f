/** Collects the lines of a journal (`journal-events.ts`) by request, for recovery. */

import { type Hold, UNSENT } from "../../store/money/holds.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { Settlement } from "../engine/booking.ts";
import { readJsonLines, type UnreadableLine } from "../engine/json-lines.ts";
import { type JournalEvent, parseEvent } from "./journal-events.ts";

export interface JournalContent extends UnreadableLine {
  /** Unfinished requests with their last progress. */
  open: Hold[];
  /** Finished requests. The database may or may not have them. */
  settlements: Settlement[];
  /** Rows of unpaid requests. The database may or may not have them. */
  rows: UsageRow[];
}

/** `processId`: the process that wrote the journal. */
export function readJournal(lines: readonly string[], processId: string): JournalContent {
  const requests = new JournaledRequests(processId);
  const skipped = readJsonLines(lines, (json) => requests.apply(parseEvent(json)));
  return {
    open: [...requests.open.values()],
    settlements: [...requests.settlements.values()],
    rows: [...requests.rows.values()],
    ...skipped,
  };
}

/** The requests of one journal, each in the state of its last event. */
class JournaledRequests {
  readonly open = new Map<string, Hold>();
  readonly settlements = new Map<string, Settlement>();
  readonly rows = new Map<string, UsageRow>();
  readonly #processId: string;

  constructor(processId: string) {
    this.#processId = processId;
  }

  apply(event: JournalEvent): void {
    switch (event.event) {
      case "hold":
        this.#addHold(event);
        break;
      case "progress":
        this.#updateProgress(event);
        break;
      case "stored":
        for (const requestId of event.requestIds) this.open.delete(requestId);
        break;
      case "settlement":
        this.open.delete(event.row.requestId);
        this.settlements.set(event.row.requestId, { row: event.row, chargedNano: event.row.chargedNano });
        break;
      case "unpaid_row":
        this.rows.set(event.row.requestId, event.row);
        break;
    }
  }

  #addHold({ event: _, ...hold }: Extract<JournalEvent, { event: "hold" }>): void {
    if (this.settlements.has(hold.requestId)) return;
    this.open.set(hold.requestId, {
      ...UNSENT,
      ...hold,
      processId: this.#processId,
      subscriptionId: null,
    });
  }

  #updateProgress({ event: _, requestIds, ...progress }: Extract<JournalEvent, { event: "progress" }>): void {
    for (const requestId of requestIds) {
      const hold = this.open.get(requestId);
      if (hold !== undefined) this.open.set(requestId, { ...hold, ...progress });
    }
  }
}
