/** Deletes usage rows after the configured time. Roll-ups and the ledger stay. */

import { type Db, placeholder, transaction } from "../engine/db.ts";
import { integer } from "../engine/row.ts";
import { deleteSetting, readSetting, writeSetting } from "../settings/settings.ts";

/** Usage rows before this time may be missing. */
const REMOVED_BEFORE_SETTING = "usage_rows_removed_before_ms";
const KEPT_SETTING = "usage_rows_kept_ms";

/** Null: rows are kept forever. */
export async function readUsageRowsKept(db: Db): Promise<number | null> {
  return toNumber(await readSetting(db, KEPT_SETTING));
}

export async function writeUsageRowsKept(db: Db, keptMs: number | null): Promise<void> {
  if (keptMs === null) await deleteSetting(db, KEPT_SETTING);
  else await writeSetting(db, KEPT_SETTING, String(keptMs));
}

/** For reconciliation: from this time on every row must exist. 0 if no row was ever removed. */
export async function readUsageRowsRemovedBefore(db: Db): Promise<number> {
  return toNumber(await readSetting(db, REMOVED_BEFORE_SETTING)) ?? 0;
}

interface RemovalBatch {
  beforeMs: number;
  rowsMax: number;
  /** The table, or a partition of it. */
  table?: string;
}

/** About `rowsMax` rows, oldest first; returns their number. Unsettled background responses stay. */
export async function removeUsageRows(
  db: Db,
  { beforeMs, rowsMax, table = "usage_row" }: RemovalBatch,
): Promise<number> {
  const isRemovable = "kind_no NOT IN (SELECT no FROM usage_kind WHERE outcome = 'pending')";
  return transaction(db, async (tx) => {
    const mark = (number: number) => placeholder(tx.engine, number);
    const [row] = await tx.sql.text(
      `SELECT COUNT(*) AS many, COALESCE(MAX(at_ms), 0) AS last_ms FROM (
        SELECT at_ms FROM ${table} WHERE at_ms < ${mark(1)} AND ${isRemovable} ORDER BY at_ms LIMIT ${mark(2)}
      ) AS oldest`,
      [beforeMs, rowsMax],
    );
    const rowCount = row === undefined ? 0 : integer(row, "many");
    if (row === undefined || rowCount === 0) return 0;
    // Rows of one millisecond are removed together, so that the bound is exact: rows before it may be missing, rows
    // after it are complete.
    const boundMs = integer(row, "last_ms") + 1;
    await raiseRemovedBefore(tx, boundMs);
    await tx.sql.text(`DELETE FROM ${table} WHERE at_ms < ${mark(1)} AND ${isRemovable}`, [boundMs]);
    return rowCount;
  });
}

/** Call it in the transaction that removes rows. */
export async function raiseRemovedBefore(tx: Db, boundMs: number): Promise<void> {
  await tx.sql`
    INSERT INTO setting (name, value) VALUES (${REMOVED_BEFORE_SETTING}, ${String(boundMs)})
    ON CONFLICT (name) DO UPDATE SET value =
      CASE WHEN CAST(setting.value AS BIGINT) < CAST(excluded.value AS BIGINT) THEN excluded.value ELSE setting.value END`;
}

function toNumber(value: string | null): number | null {
  return value === null || !/^\d{1,15}$/.test(value) ? null : Number(value);
}
