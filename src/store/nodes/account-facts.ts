/** What nodes share about the health of upstream accounts. */

import type { Clock } from "../../base/clock.ts";
import { type Db, transaction } from "../engine/db.ts";
import { readServerClock } from "../engine/dialect.ts";
import { notifyNodes } from "../engine/notify.ts";
import { flag, integerOrNull, text, textOrNull } from "../engine/row.ts";
import { bumpSharedRevision, readSharedRevision } from "./shared-revisions.ts";

export interface AccountFact {
  readonly accountId: string;
  /** The upstream model; empty for the whole account. */
  readonly model: string;
  /** Digest of the account's address and credential. */
  readonly access: string;
  /** Why it is not used; null if it works. */
  readonly cause: string | null;
  /** How long it is not used. Infinity: until an administrator acts. */
  readonly remainingMs: number;
  readonly needsProbe: boolean;
}

interface AccountFactChanges {
  readonly revision: number;
  /** Facts of other nodes. */
  readonly facts: readonly AccountFact[];
}

/** The fact with the longer time wins, except over an earlier fact of the same node, and over one that it works. */
export async function publishAccountFacts(
  db: Db,
  { node, clock }: { node: string; clock: Pick<Clock, "nowMs"> },
  facts: readonly AccountFact[],
): Promise<void> {
  await transaction(db, async (tx) => {
    const revision = await bumpSharedRevision(tx, "account_fact");
    const nowMs = (await readServerClock(tx)) ?? clock.nowMs();
    for (const { accountId, model, access, cause, remainingMs, needsProbe } of facts) {
      const untilMs = Number.isFinite(remainingMs) ? Math.round(nowMs + remainingMs) : null;
      await tx.sql`
        INSERT INTO account_fact (account_id, model, access, cause, until_ms, needs_probe, node, revision)
        VALUES (${accountId}, ${model}, ${access}, ${cause}, ${untilMs}, ${needsProbe ? 1 : 0}, ${node}, ${revision})
        ON CONFLICT (account_id, model) DO UPDATE SET access = excluded.access, cause = excluded.cause,
          until_ms = excluded.until_ms, needs_probe = excluded.needs_probe, node = excluded.node,
          revision = excluded.revision
        WHERE excluded.cause IS NULL OR account_fact.cause IS NULL OR account_fact.access <> excluded.access
          OR account_fact.node = excluded.node OR excluded.until_ms IS NULL
          OR (account_fact.until_ms IS NOT NULL AND excluded.until_ms >= account_fact.until_ms)`;
    }
    await notifyNodes(tx, "health");
  });
}

/** Reads what other nodes have published after this revision. */
export async function readAccountFacts(
  db: Db,
  { node, clock, since }: { node: string; clock: Pick<Clock, "nowMs">; since: number },
): Promise<AccountFactChanges> {
  const revision = await readSharedRevision(db, "account_fact");
  if (revision === since) return { revision, facts: [] };
  const nowMs = (await readServerClock(db)) ?? clock.nowMs();
  const rows = await db.sql`
    SELECT account_id, model, access, cause, until_ms, needs_probe FROM account_fact
    WHERE revision > ${since} AND node <> ${node} ORDER BY revision, account_id, model`;
  const facts = rows.map((row) => {
    const untilMs = integerOrNull(row, "until_ms");
    return {
      accountId: text(row, "account_id"),
      model: text(row, "model"),
      access: text(row, "access"),
      cause: textOrNull(row, "cause"),
      remainingMs: untilMs === null ? Number.POSITIVE_INFINITY : untilMs - nowMs,
      needsProbe: flag(row, "needs_probe"),
    };
  });
  return { revision, facts };
}

export async function listNodeIds(db: Db): Promise<string[]> {
  const rows = await db.sql`SELECT id FROM process ORDER BY id`;
  return rows.map((row) => text(row, "id"));
}
