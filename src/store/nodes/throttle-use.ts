/** Attempts that nodes have counted against throttles, so that a throttle holds over all nodes together. */

import type { Clock } from "../../base/clock.ts";
import { type Db, transaction } from "../engine/db.ts";
import { readServerClock } from "../engine/dialect.ts";
import { integer, text } from "../engine/row.ts";
import { bumpSharedRevision, readSharedRevision } from "./shared-revisions.ts";

export interface ThrottleUse {
  readonly name: string;
  /** Digest of what is throttled. */
  readonly subject: string;
  /** Attempts of this node in the current window. */
  readonly taken: number;
  /** Until the window ends. */
  readonly remainingMs: number;
}

export async function publishThrottleUse(
  db: Db,
  { node, clock }: { node: string; clock: Pick<Clock, "nowMs"> },
  uses: readonly ThrottleUse[],
): Promise<void> {
  await transaction(db, async (tx) => {
    const revision = await bumpSharedRevision(tx, "throttle_use");
    const nowMs = (await readServerClock(tx)) ?? clock.nowMs();
    for (const { name, subject, taken, remainingMs } of uses) {
      await tx.sql`
        INSERT INTO throttle_use (name, subject, node, taken, until_ms, revision)
        VALUES (${name}, ${subject}, ${node}, ${taken}, ${Math.round(nowMs + remainingMs)}, ${revision})
        ON CONFLICT (name, subject, node) DO UPDATE SET taken = excluded.taken, until_ms = excluded.until_ms,
          revision = excluded.revision`;
    }
  });
}

/** Reads what other nodes have published after this revision. */
export async function readThrottleUse(
  db: Db,
  { node, clock, since }: { node: string; clock: Pick<Clock, "nowMs">; since: number },
): Promise<{ revision: number; uses: (ThrottleUse & { node: string })[] }> {
  const revision = await readSharedRevision(db, "throttle_use");
  if (revision === since) return { revision, uses: [] };
  const nowMs = (await readServerClock(db)) ?? clock.nowMs();
  const rows = await db.sql`
    SELECT name, subject, node, taken, until_ms FROM throttle_use
    WHERE revision > ${since} AND node <> ${node} AND until_ms > ${nowMs}`;
  const uses = rows.map((row) => ({
    name: text(row, "name"),
    subject: text(row, "subject"),
    node: text(row, "node"),
    taken: integer(row, "taken"),
    remainingMs: integer(row, "until_ms") - nowMs,
  }));
  return { revision, uses };
}

export async function deleteExpiredUse(db: Db, clock: Pick<Clock, "nowMs">): Promise<void> {
  const nowMs = (await readServerClock(db)) ?? clock.nowMs();
  await db.sql`DELETE FROM throttle_use WHERE until_ms <= ${nowMs}`;
}
