/** Reads the lines of a journal (`journal-lines.ts`) for recovery. */

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
  /** Unfinished requests with their last progress. */
  open: Hold[];
  /** Finished requests. The database may or may not have them. */
  settlements: Settlement[];
  /** Rows of unpaid requests. The database may or may not have them. */
  rows: UsageRow[];
}

export function readJournal(lines: readonly string[]): JournalContent {
  const open = new Map<string, Hold>();
  const settlements = new Map<string, Settlement>();
  const rows = new Map<string, UsageRow>();
  const names = new NameReader();
  const rowReader = new RowReader(names);
  const holdReader = new HoldReader(names);

  function addHold(hold: Hold): void {
    if (!settlements.has(hold.requestId)) open.set(hold.requestId, hold);
  }

  function updateProgress(requestId: string, progress: HoldProgress): void {
    const hold = open.get(requestId);
    if (hold !== undefined) open.set(requestId, { ...hold, ...progress });
  }

  function addSettlement(row: UsageRow, chargedNano: Nano): void {
    open.delete(row.requestId);
    settlements.set(row.requestId, { row, chargedNano });
  }

  function readLine(json: unknown): void {
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
        addSettlement(row, row.chargedNano);
        break;
      }
      case "b":
        addHold(holdReader.takeHold(json));
        break;
      case "q": {
        const [, state, account, model, outputTokens, ...requestIds] = progressShape.parse(json);
        const [accountId, upstreamModel] = [names.nameOrNull(account), names.nameOrNull(model)];
        for (const id of requestIds) updateProgress(id, { state, accountId, upstreamModel, outputTokens });
        break;
      }
      default:
        throw new Error("This version knows no such line.");
    }
  }

  const skipped = readJsonLines(lines, readLine);
  return {
    open: [...open.values()],
    settlements: [...settlements.values()],
    rows: [...rows.values()],
    ...skipped,
  };
}
