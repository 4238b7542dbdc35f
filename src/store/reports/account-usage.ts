/**
 * What accounts were used for. The roll-ups do not know accounts, so this reads the latest requests themselves: so many
 * and no more, a few at a time, for others wait for the same store.
 */

import type { Nano } from "../../money/nano.ts";
import { type Db, placeholder } from "../engine/db.ts";
import { integer, nano, text } from "../engine/row.ts";

export interface AccountUse {
  requests: number;
  failed: number;
  /** What the upstream asks by list prices, what the tariffs came to, and what users paid of it. */
  upstreamNano: Nano;
  costNano: Nano;
  chargedNano: Nano;
}

export interface AccountUsage {
  /** By account, one for each span that was asked for. */
  byAccount: Map<string, AccountUse[]>;
  /** From here on every request was counted: later than the span asked for where there were too many. */
  sinceMs: number;
}

const ROWS_AT_ONCE = 2_000;

/** `spans`: how far back each sum reaches, the shortest first. */
export async function readAccountUsage(
  db: Db,
  spans: readonly number[],
  nowMs: number,
  rowsMax: number,
): Promise<AccountUsage> {
  const fromMs = nowMs - Math.max(...spans);
  const byAccount = new Map<string, AccountUse[]>();
  let before = { atMs: Number.MAX_SAFE_INTEGER, requestId: "" };
  for (let read = 0; read < rowsMax; read += ROWS_AT_ONCE) {
    const rows = await latest(db, before, fromMs);
    for (const row of rows) {
      const uses = byAccount.get(row.accountId) ?? spans.map(nothing);
      byAccount.set(row.accountId, uses);
      spans.forEach((span, i) => {
        const use = uses[i];
        if (use !== undefined && row.atMs >= nowMs - span) add(use, row);
      });
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < ROWS_AT_ONCE) return { byAccount, sinceMs: fromMs };
    before = last;
    // A turn for whoever waits.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return { byAccount, sinceMs: before.atMs };
}

interface UsedRow extends AccountUse {
  accountId: string;
  requestId: string;
  atMs: number;
}

async function latest(
  db: Db,
  before: { atMs: number; requestId: string },
  fromMs: number,
): Promise<UsedRow[]> {
  const at = (number: number) => placeholder(db.engine, number);
  const rows = await db.sql.text(
    `SELECT request_id, at_ms, COALESCE(account_id, '') AS account_id, outcome,
       CAST(upstream_nano AS TEXT) AS upstream_nano, CAST(cost_nano AS TEXT) AS cost_nano,
       CAST(charged_nano AS TEXT) AS charged_nano
     FROM usage WHERE at_ms >= ${at(1)} AND (at_ms, request_id) < (${at(2)}, ${at(3)})
     ORDER BY at_ms DESC, request_id DESC LIMIT ${ROWS_AT_ONCE}`,
    [fromMs, before.atMs, before.requestId],
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

function nothing(): AccountUse {
  return { requests: 0, failed: 0, upstreamNano: 0n, costNano: 0n, chargedNano: 0n };
}

function add(use: AccountUse, row: AccountUse): void {
  use.requests += row.requests;
  use.failed += row.failed;
  use.upstreamNano += row.upstreamNano;
  use.costNano += row.costNano;
  use.chargedNano += row.chargedNano;
}
