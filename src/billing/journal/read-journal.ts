/** What a successor reads from the lines of a journal (`journal-lines.ts`). */

import { z } from "zod";
import type { Nano } from "../../money/nano.ts";
import { HOLD_STATES, type Hold, type HoldProgress } from "../../store/money/holds.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { Settlement } from "../engine/booking.ts";
import { readJsonLines, type UnreadableLine } from "../engine/json-lines.ts";
import { HoldReader } from "./hold-lines.ts";
import { NameReader, named } from "./name-lines.ts";
import { RowReader } from "./row-lines.ts";

const progressShape = z.tuple(
  [z.literal("q"), z.enum(HOLD_STATES), named.nullable(), named.nullable(), z.number()],
  z.string(),
);

export interface JournalContent extends UnreadableLine {
  /** Begun and not ended, as far as they had come. */
  open: Hold[];
  /** Ended; the store may know of them, or not. */
  settlements: Settlement[];
  /** Of requests that nobody pays for; the store may know them, or not. */
  rows: UsageRow[];
}

export function readJournal(lines: readonly string[]): JournalContent {
  const open = new Map<string, Hold>();
  const settlements = new Map<string, Settlement>();
  const rows = new Map<string, UsageRow>();
  const names = new NameReader();
  const rowReader = new RowReader(names);
  const holdReader = new HoldReader(names);

  function begin(hold: Hold): void {
    if (!settlements.has(hold.requestId)) open.set(hold.requestId, hold);
  }

  function goOn(requestId: string, progress: HoldProgress): void {
    const hold = open.get(requestId);
    if (hold !== undefined) open.set(requestId, { ...hold, ...progress });
  }

  function end(row: UsageRow, chargedNano: Nano): void {
    open.delete(row.requestId);
    settlements.set(row.requestId, { row, chargedNano });
  }

  function take(json: unknown): void {
    switch (Array.isArray(json) ? json[0] : null) {
      case "o":
        for (const reader of [names, rowReader, holdReader]) reader.forget();
        break;
      case "n":
        names.take(json);
        break;
      case "w":
        rowReader.takeColumns(json);
        break;
      case "k":
        rowReader.takeKind(json);
        break;
      case "g":
        holdReader.takeKind(json);
        break;
      case "r": {
        const row = rowReader.takeRow(json);
        rows.set(row.requestId, row);
        break;
      }
      case "e": {
        const row = rowReader.takeRow(json);
        end(row, row.chargedNano);
        break;
      }
      case "b":
        begin(holdReader.takeHold(json));
        break;
      case "q": {
        const [, state, account, model, outputTokens, ...requestIds] = progressShape.parse(json);
        const [accountId, upstreamModel] = [names.nameOrNull(account), names.nameOrNull(model)];
        for (const id of requestIds) goOn(id, { state, accountId, upstreamModel, outputTokens });
        break;
      }
      default:
        throw new Error("This version knows no such line.");
    }
  }

  const untaken = readJsonLines(lines, take);
  return {
    open: [...open.values()],
    settlements: [...settlements.values()],
    rows: [...rows.values()],
    ...untaken,
  };
}
