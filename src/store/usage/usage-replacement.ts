/** Usage rows that recovery wrote for a process considered dead, and the rows that replace them. */

import type { Db } from "../engine/db.ts";
import { placeholder } from "../engine/db.ts";
import { lockIn } from "../engine/dialect.ts";
import { selectIn } from "../engine/select-in.ts";
import { insertUsage } from "./insert-usage.ts";
import { markDays } from "./usage-day.ts";
import { addToRollUp, buildEmptyTotals, computeTotals, difference, RollUp } from "./usage-hour.ts";
import type { Numbering } from "./usage-numbers.ts";
import { clampCount, toUsageRow, type UsageRow } from "./usage-row.ts";
import { SELECT_USAGE } from "./usage-values.ts";

/** Returns the rows of these requests that are flagged `recovered`, and locks them until the transaction ends. */
export async function lockRecovered(tx: Db, requestIds: readonly string[]): Promise<UsageRow[]> {
  const head = "SELECT request_id FROM usage_row WHERE request_id";
  await lockIn(tx, { head, order: "request_id" }, requestIds);
  return findRecovered(tx, requestIds);
}

export async function findRecovered(db: Db, requestIds: readonly string[]): Promise<UsageRow[]> {
  const rows = await selectIn(db, `${SELECT_USAGE} WHERE request_id`, requestIds);
  return rows.map(toUsageRow).filter(({ flags }) => flags.includes("recovered"));
}

/** Each `row` belongs to the same request as `before` and has its time. The sums of its hour and day are updated. */
export async function replaceUsage(
  tx: Db,
  numbering: Numbering,
  replaced: readonly { before: UsageRow; row: UsageRow }[],
): Promise<void> {
  const mark = placeholder(tx.engine, 1);
  await tx.sql.each(
    `DELETE FROM usage_row WHERE request_id = ${mark}`,
    replaced.map(({ before }) => [before.requestId]),
  );
  const changes = replaced.map(({ before, row }) => ({ before, row: clampCount(row) }));
  await insertUsage(
    tx,
    numbering,
    changes.map(({ row }) => row),
  );
  const sums = new RollUp();
  for (const { before, row } of changes) {
    sums.merge([
      { dimensions: before, totals: difference(buildEmptyTotals(), computeTotals(before, before.outcome)) },
    ]);
    sums.add(row);
  }
  await addToRollUp(tx, sums.entries());
  await markDays(
    tx,
    changes.map(({ row }) => row),
  );
}
