/** Rows of single requests go after the time that the operator gave them. Roll-ups and the ledger stay. */

import { type Db, transaction } from "../engine/db.ts";
import { integer } from "../engine/row.ts";
import { deleteSetting, readSetting, writeSetting } from "../settings/settings.ts";

/** Of what happened before this instant, rows of usage may be missing. */
const REMOVED_BEFORE = "usage_rows_removed_before_ms";
const KEPT = "usage_rows_kept_ms";

/** Null: for ever. */
export async function readUsageRowsKept(db: Db): Promise<number | null> {
  return toNumber(await readSetting(db, KEPT));
}

export async function writeUsageRowsKept(db: Db, keptMs: number | null): Promise<void> {
  if (keptMs === null) await deleteSetting(db, KEPT);
  else await writeSetting(db, KEPT, String(keptMs));
}

/** For an audit: from here on every row must be there. 0 when nothing was ever removed. */
export async function readUsageRowsRemovedBefore(db: Db): Promise<number> {
  return toNumber(await readSetting(db, REMOVED_BEFORE)) ?? 0;
}

/**
 * About so many, the oldest first; returns how many. A background response that may still be settled stays.
 */
export async function removeUsageRows(db: Db, beforeMs: number, rowsMax: number): Promise<number> {
  return transaction(db, async (tx) => {
    const [row] = await tx.sql`
      SELECT COUNT(*) AS many, COALESCE(MAX(at_ms), 0) AS last_ms FROM (
        SELECT at_ms FROM usage_row
        WHERE at_ms < ${beforeMs} AND kind_no NOT IN (SELECT no FROM usage_kind WHERE outcome = 'pending')
        ORDER BY at_ms LIMIT ${rowsMax}
      ) AS oldest`;
    const many = row === undefined ? 0 : integer(row, "many");
    if (row === undefined || many === 0) return 0;
    // Rows of one instant go together, so that the bound is true: everything before it may be gone, nothing after it.
    const boundMs = integer(row, "last_ms") + 1;
    await tx.sql`
      INSERT INTO setting (name, value) VALUES (${REMOVED_BEFORE}, ${String(boundMs)})
      ON CONFLICT (name) DO UPDATE SET value =
        CASE WHEN CAST(setting.value AS BIGINT) < CAST(excluded.value AS BIGINT) THEN excluded.value ELSE setting.value END`;
    await tx.sql`
      DELETE FROM usage_row
      WHERE at_ms < ${boundMs} AND kind_no NOT IN (SELECT no FROM usage_kind WHERE outcome = 'pending')`;
    return many;
  });
}

function toNumber(value: string | null): number | null {
  return value === null || !/^\d{1,15}$/.test(value) ? null : Number(value);
}
