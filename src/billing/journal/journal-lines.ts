/** Encodes the lines of the journal. `read-journal.ts` describes how recovery reads them. */

import type { HoldProgress } from "../../store/money/holds.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import { HoldEncoder, type HoldFields } from "./hold-lines.ts";
import type { JsonLineWriter } from "./json-line-writer.ts";
import { NameEncoder } from "./name-lines.ts";
import { RowEncoder } from "./row-lines.ts";

/** Format version of segments whose lines have checksums. */
const CHECKED_VERSION = 2;

/** Requests with the same progress. */
export interface RequestProgress {
  readonly progress: HoldProgress;
  readonly requestIds: readonly string[];
}

/** Encodes the lines of one segment. Each segment is readable without the others. */
export class JournalEncoder {
  private readonly pen: JsonLineWriter;
  private readonly names = new NameEncoder();
  private readonly rows = new RowEncoder(this.names);
  private readonly holds: HoldEncoder;

  constructor(writer: JsonLineWriter, incarnation: string) {
    this.pen = writer;
    this.holds = new HoldEncoder(this.names, incarnation);
  }

  /** The first line of a segment. It invalidates the numbers of earlier segments. */
  begin(): void {
    this.pen.json(["o", CHECKED_VERSION]);
  }

  held(hold: HoldFields): void {
    this.holds.tell(hold, this.pen);
  }

  progressed({ progress, requestIds }: RequestProgress): void {
    const { pen, names } = this;
    const account = names.numberOrNull(progress.accountId, pen);
    const model = names.numberOrNull(progress.upstreamModel, pen);
    pen.open("q");
    pen.text(progress.state);
    pen.number(account);
    pen.number(model);
    pen.number(progress.outputTokens);
    for (const requestId of requestIds) pen.text(requestId);
    pen.close();
  }

  /** A row that is paid from its hold. */
  settled(row: UsageRow): void {
    this.rows.tell("e", row, this.pen);
  }

  /** An unpaid row. */
  recorded(row: UsageRow): void {
    this.rows.tell("r", row, this.pen);
  }
}
