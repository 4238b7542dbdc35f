/** Reads a batch of the usage feed as NDJSON: one request a line. */

import type { Db } from "../store/engine/db.ts";
import { selectIn } from "../store/engine/select-in.ts";
import { toUsageRow } from "../store/usage/usage-row.ts";
import { SELECT_USAGE } from "../store/usage/usage-values.ts";
import { type FeedEntry, readEntries } from "../store/usage-feed/feed.ts";
import { formatCursor } from "./cursor.ts";
import { buildUsageRecords, type NumberedRow } from "./usage-record.ts";

interface BatchRange {
  readonly feedId: string;
  readonly after: number;
  /** Never beyond the horizon of the feed. */
  readonly to: number;
  readonly limit: number;
}

export interface UsageBatch {
  readonly body: string;
  readonly rowCount: number;
  /** The last entry of the batch, which may have no row; `after` if there is no entry. */
  readonly to: number;
  readonly isFull: boolean;
  /** The entry in the middle: a batch that is too large for its receiver is cut there. */
  readonly middle: number;
  readonly entryCount: number;
}

export async function readBatch(db: Db, range: BatchRange): Promise<UsageBatch> {
  const entries = await readEntries(db, range);
  const rows = await readRows(db, range.feedId, entries);
  const records = await buildUsageRecords(db, rows);
  return {
    body: records.map((record) => `${JSON.stringify(record)}\n`).join(""),
    rowCount: records.length,
    to: entries.at(-1)?.feedNo ?? range.after,
    isFull: entries.length === range.limit,
    middle: entries[Math.floor((entries.length - 1) / 2)]?.feedNo ?? range.after,
    entryCount: entries.length,
  };
}

/**
 * A request that is in the batch twice is sent once, with its last number. A background response that still runs is
 * left out, because its end has a separate number. So is a row that retention has removed.
 */
async function readRows(db: Db, feedId: string, entries: readonly FeedEntry[]): Promise<NumberedRow[]> {
  const lastNumbers = new Map(entries.map(({ requestId, feedNo }) => [requestId, feedNo]));
  const found = await selectIn(db, `${SELECT_USAGE} WHERE request_id`, [...lastNumbers.keys()]);
  const rows = new Map(found.map(toUsageRow).map((row) => [row.requestId, row]));
  return entries.flatMap(({ feedNo, requestId }) => {
    const row = rows.get(requestId);
    const isSent = row !== undefined && row.outcome !== "pending" && lastNumbers.get(requestId) === feedNo;
    return isSent ? [{ cursor: formatCursor({ feedId, feedNo }), row }] : [];
  });
}
