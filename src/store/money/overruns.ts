/** Requests that cost more than their hold, a row each: for the check of debts and for alerts. */

import { type Db, placeholder } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { integer, nano, text, textOrNull } from "../engine/row.ts";
import { recordColumns, rowReader } from "../engine/row-reader.ts";

const OVERRUN = recordColumns({
  requestId: text,
  atMs: integer,
  userId: text,
  /** Null if the wallet pays. */
  subscriptionId: textOrNull,
  heldNano: nano,
  chargedNano: nano,
  /** The part of the charge above the hold that the wallet could not cover at that time. */
  debtNano: nano,
});
export type Overrun = ReturnType<typeof OVERRUN.read>;

export async function insertOverruns(tx: Db, overruns: readonly Overrun[]): Promise<void> {
  const rows = overruns.map((one) => OVERRUN.values({ ...one, atMs: Math.round(one.atMs) }));
  await insertRows(tx, "overrun", OVERRUN.names, rows);
}

const toRepeated = rowReader({
  userId: text,
  email: textOrNull,
  overruns: integer,
  /** Sum of the charges above the holds. */
  overNano: nano,
});
export type RepeatedOverruns = ReturnType<typeof toRepeated>;

/** Users with at least `leastCount` overruns since `sinceMs`, most frequent first. */
export async function readRepeatedOverruns(
  db: Db,
  { sinceMs, leastCount, limit }: { sinceMs: number; leastCount: number; limit: number },
): Promise<RepeatedOverruns[]> {
  const mark = (number: number) => placeholder(db.engine, number);
  const rows = await db.sql.text(
    `SELECT o.user_id, MAX(u.email) AS email, COUNT(*) AS overruns,
       CAST(SUM(o.charged_nano - o.held_nano) AS TEXT) AS over_nano
     FROM overrun o LEFT JOIN app_user u ON u.id = o.user_id WHERE o.at_ms >= ${mark(1)}
     GROUP BY o.user_id HAVING COUNT(*) >= ${mark(2)} ORDER BY COUNT(*) DESC, o.user_id LIMIT ${mark(3)}`,
    [sinceMs, leastCount, limit],
  );
  return rows.map(toRepeated);
}
