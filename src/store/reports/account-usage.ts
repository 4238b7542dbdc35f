/**
 * Usage by account. Roll-ups are not split by account, so this reads the latest usage rows: a limited number of
 * them, in small batches, because other work waits for the same database.
 */

import { nextTurn } from "../../base/next-turn.ts";
import type { Nano } from "../../money/nano.ts";
import { type Db, placeholder } from "../engine/db.ts";
import { integer, nano, text } from "../engine/row.ts";

export interface AccountUse {
  requests: number;
  failed: number;
  /** Upstream cost at list prices, cost by the tariffs, and the part of it that users paid. */
  upstreamNano: Nano;
  costNano: Nano;
  chargedNano: Nano;
}

export interface AccountUsage {
  /** By account id, one sum for each requested span. */
  byAccount: Map<string, AccountUse[]>;
  /** All requests since this time were counted. Later than requested if there were too many rows. */
  sinceMs: number;
}

const BATCH_ROWS = 2_000;

/** `spans`: how far back each sum reaches, shortest first. */
export async function readAccountUsage(
  db: Db,
  spans: readonly number[],
  nowMs: number,
  rowsMax: number,
): Promise<AccountUsage> {
  const fromMs = nowMs - Math.max(...spans);
  const byAccount = new Map<string, AccountUse[]>();
  let cursor = { atMs: Number.MAX_SAFE_INTEGER, requestId: "" };
  for (let read = 0; read < rowsMax; read += BATCH_ROWS) {
    const rows = await readLatestRows(db, cursor, fromMs);
    for (const row of rows) {
      const uses = byAccount.get(row.accountId) ?? spans.map(emptyUse);
      byAccount.set(row.accountId, uses);
      spans.forEach((span, i) => {
        const use = uses[i];
        if (use !== undefined && row.atMs >= nowMs - span) addUse(use, row);
      });
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < BATCH_ROWS) return { byAccount, sinceMs: fromMs };
    cursor = last;
    // Yields to other work.
    await nextTurn();
  }
  return { byAccount, sinceMs: cursor.atMs };
}

interface UsedRow extends AccountUse {
  accountId: string;
  requestId: string;
  atMs: number;
}

async function readLatestRows(
  db: Db,
  cursor: { atMs: number; requestId: string },
  fromMs: number,
): Promise<UsedRow[]> {
  const at = (number: number) => placeholder(db.engine, number);
  const rows = await db.sql.text(
    `SELECT request_id, at_ms, COALESCE(account_id, '') AS account_id, outcome,
       CAST(upstream_nano AS TEXT) AS upstream_nano, CAST(cost_nano AS TEXT) AS cost_nano,
       CAST(charged_nano AS TEXT) AS charged_nano
     FROM usage WHERE at_ms >= ${at(1)} AND (at_ms, request_id) < (${at(2)}, ${at(3)})
     ORDER BY at_ms DESC, request_id DESC LIMIT ${BATCH_ROWS}`,
    [fromMs, cursor.atMs, cursor.requestId],
  );
  return rows.map((row) => ({
    accountId: text(row, "account_id"),
    requestId: text(row, "request_id"),
    atMs: integer(row, "at_ms"),
    requests: 1,
    failed: ["failed", "upstream_cut"].includes(text(row, "outcome")) ? 1 : 0,
    upstreamNano: nano(row, "upstream_nano"),
    costNano: nano(row, "cost_nano"),
    chargedNano: nano(row, "charged_nano"),
  }));
}

function emptyUse(): AccountUse {
  return { requests: 0, failed: 0, upstreamNano: 0n, costNano: 0n, chargedNano: 0n };
}

function addUse(use: AccountUse, row: AccountUse): void {
  use.requests += row.requests;
  use.failed += row.failed;
  use.upstreamNano += row.upstreamNano;
  use.costNano += row.costNano;
  use.chargedNano += row.chargedNano;
}
