/** Recent usage of each model, summed over all callers. */

import { HOUR_MS } from "../../base/time.ts";
import type { Db } from "../engine/db.ts";
import { integer, nano, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";

const toModelUse = rowReader({
  requests: integer,
  failed: integer,
  chargedNano: nano,
});
export type ModelUse = ReturnType<typeof toModelUse>;

/** Counts from the hour that contains `sinceMs`, as of the last fold. */
export async function readModelUse(db: Db, sinceMs: number): Promise<Map<string, ModelUse>> {
  const rows = await db.sql`
    SELECT public_model, CAST(SUM(requests + refused) AS BIGINT) AS requests, CAST(SUM(failed) AS BIGINT) AS failed,
      CAST(SUM(charged_nano) AS TEXT) AS charged_nano
    FROM usage_day
    WHERE scope = 'all_hour' AND scope_id = '' AND day_ms >= ${Math.floor(sinceMs / HOUR_MS) * HOUR_MS}
    GROUP BY public_model`;
  return new Map(rows.map((row) => [text(row, "public_model"), toModelUse(row)]));
}
