/** The lines by which the till tells what it promises. What a successor makes of them is in `read-journal.ts`. */

import type { HoldProgress } from "../../store/money/holds.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import { HoldEncoder, type HoldFields } from "./hold-lines.ts";
import type { JsonLineWriter } from "./json-line-writer.ts";
import { NameEncoder } from "./name-lines.ts";
import { RowEncoder } from "./row-lines.ts";

/** Of segments whose lines have checksums. */
const CHECKED = 2;

/** Requests that have come equally far. */
export interface ProgressOf {
  readonly progress: HoldProgress;
  readonly requestIds: readonly string[];
}

/** Writes what one segment tells: others are read without it. */
export class JournalEncoder {
  private readonly pen: JsonLineWriter;
  private readonly names = new NameEncoder();
  private readonly rows = new RowEncoder(this.names);
  private readonly holds: HoldEncoder;

  constructor(pen: JsonLineWriter, incarnation: string) {
    this.pen = pen;
    this.holds = new HoldEncoder(this.names, incarnation);
  }

  /** The first line: whatever segments before this one told by numbers is over. */
  begin(): void {
    this.pen.json(["o", CHECKED]);
  }

  held(given: HoldFields): void {
    this.holds.tell(given, this.pen);
  }

  progressed({ progress, requestIds }: ProgressOf): void {
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

  /** Its hold pays for it. */
  settled(row: UsageRow): void {
    this.rows.tell("e", row, this.pen);
  }

  /** Nobody pays for it. */
  recorded(row: UsageRow): void {
    this.rows.tell("r", row, this.pen);
  }
}
