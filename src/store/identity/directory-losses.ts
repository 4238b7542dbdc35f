/** Finds providers that have lost many of their people within a short time, as by a wrong group or a failed import. */

import type { Db } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";

export interface LossBounds {
  /** A loss is above both: this many people, and this share of those who had access before. */
  readonly people: number;
  readonly percent: number;
  /** The longest time between the first and the last of them. */
  readonly overMs: number;
  /** How long a loss is reported, unless the people are restored. */
  readonly reportedMs: number;
}

/** The largest loss of a provider, as far as the people have not returned. */
export interface DirectoryLoss {
  provider: string;
  suspended: number;
  /** Who had access before. */
  people: number;
  fromMs: number;
  toMs: number;
}

export async function findDirectoryLosses(
  db: Db,
  nowMs: number,
  bounds: LossBounds,
): Promise<DirectoryLoss[]> {
  const suspended = await db.sql`
    SELECT provider, suspended_at_ms FROM external_identity
    WHERE suspended_at_ms > ${nowMs - bounds.reportedMs} ORDER BY suspended_at_ms`;
  if (suspended.length <= bounds.people) return [];
  const counts = await db.sql`SELECT provider, COUNT(*) AS people FROM external_identity GROUP BY provider`;
  const totals = new Map(counts.map((row) => [text(row, "provider"), integer(row, "people")]));
  const before = await db.sql`
    SELECT provider, COUNT(*) AS people FROM external_identity
    WHERE suspended_at_ms <= ${nowMs - bounds.reportedMs} GROUP BY provider`;
  const without = new Map(before.map((row) => [text(row, "provider"), integer(row, "people")]));
  const found: DirectoryLoss[] = [];
  for (const [provider, rows] of Map.groupBy(suspended, (row) => text(row, "provider"))) {
    const atMs = rows.map((row) => integer(row, "suspended_at_ms"));
    const had = (totals.get(provider) ?? 0) - (without.get(provider) ?? 0);
    const loss = findLargest(atMs, had, bounds);
    if (loss !== null) found.push({ provider, ...loss });
  }
  return found;
}

/** `atMs` is sorted; `had` people had access before the first of them. */
function findLargest(
  atMs: readonly number[],
  had: number,
  { people: least, percent, overMs }: LossBounds,
): Omit<DirectoryLoss, "provider"> | null {
  let largest: Omit<DirectoryLoss, "provider"> | null = null;
  let first = 0;
  for (const [last, toMs] of atMs.entries()) {
    while (toMs - (atMs[first] ?? toMs) > overMs) first += 1;
    const suspended = last - first + 1;
    const people = had - first;
    const isLoss = suspended > least && suspended * 100 > people * percent;
    if (isLoss && suspended > (largest?.suspended ?? 0))
      largest = { suspended, people, fromMs: atMs[first] ?? toMs, toMs };
  }
  return largest;
}

/** Ids of the users who are suspended by a loss. */
export async function listLostPeople(
  db: Db,
  { provider, fromMs, toMs }: Pick<DirectoryLoss, "provider" | "fromMs" | "toMs">,
): Promise<string[]> {
  const rows = await db.sql`
    SELECT user_id FROM external_identity
    WHERE provider = ${provider} AND suspended_at_ms >= ${fromMs} AND suspended_at_ms <= ${toMs}
    ORDER BY suspended_at_ms, user_id`;
  return rows.map((row) => text(row, "user_id"));
}
