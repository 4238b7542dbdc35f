/** What the ended requests of each running process have used, by key, group and hour. */

import { type Db, transaction } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { nanoValue } from "./storable-values.ts";

export interface NodeUse {
  readonly keyId: string;
  readonly groupId: string;
  readonly hourMs: number;
  readonly requests: number;
  /** Input and output. */
  readonly tokens: number;
  readonly costNano: bigint;
}

const COLUMNS = ["node", "key_id", "group_id", "hour_ms", "requests", "tokens", "cost_nano"];
const REPLACE_PRESENT = `ON CONFLICT (node, key_id, group_id, hour_ms) DO UPDATE SET requests = excluded.requests,
  tokens = excluded.tokens, cost_nano = excluded.cost_nano`;

/** Replaces the sums of these hours. */
export async function publishNodeUse(db: Db, node: string, uses: readonly NodeUse[]): Promise<void> {
  const rows = uses.map(({ keyId, groupId, hourMs, requests, tokens, costNano }) => [
    node,
    keyId,
    groupId,
    hourMs,
    requests,
    tokens,
    nanoValue(costNano),
  ]);
  if (rows.length === 0) return;
  await transaction(db, async (tx) => {
    await insertRows(tx, "node_use", COLUMNS, rows, REPLACE_PRESENT);
  });
}

/** Deletes hours before `sinceMs`, and those of processes that have ended. */
export async function deleteOldNodeUse(db: Db, sinceMs: number): Promise<void> {
  await db.sql`
    DELETE FROM node_use WHERE hour_ms < ${sinceMs} OR node NOT IN (SELECT id FROM process)`;
}
