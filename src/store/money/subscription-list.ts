/** Lists subscriptions of all users, paged, newest first. */

import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { contains } from "../engine/search.ts";

const toListed = rowReader({
  id: text,
  userId: text,
  email: text,
  createdAtMs: integer,
});
type ListedSubscription = ReturnType<typeof toListed>;

interface SubscriptionFilter {
  planId?: string;
  userId?: string;
  /** Matches anywhere in the user's address. */
  search?: string;
}

/** The last subscription of the previous page. */
export interface SubscriptionCursor {
  createdAtMs: number;
  id: string;
}

export async function listSubscriptionPage(
  db: Db,
  { planId, userId, search }: SubscriptionFilter,
  page: { after: SubscriptionCursor | null; limit: number },
): Promise<{ found: ListedSubscription[]; next: SubscriptionCursor | null }> {
  const values: SqlValue[] = [];
  const mark = (value: SqlValue) => placeholder(db.engine, values.push(value));
  const { createdAtMs = Number.MAX_SAFE_INTEGER, id = "" } = page.after ?? {};
  const where = [`(s.created_at_ms, s.id) < (${mark(createdAtMs)}, ${mark(id)})`];
  if (planId !== undefined) where.push(`s.plan_id = ${mark(planId)}`);
  if (userId !== undefined) where.push(`s.user_id = ${mark(userId)}`);
  if (search) where.push(contains("u.email", search, mark));
  const rows = await db.sql.text(
    `SELECT s.id, s.user_id, s.created_at_ms, COALESCE(u.email, s.user_id) AS email
     FROM subscription s LEFT JOIN app_user u ON u.id = s.user_id
     WHERE ${where.join(" AND ")} ORDER BY s.created_at_ms DESC, s.id DESC LIMIT ${page.limit + 1}`,
    values,
  );
  const found = rows.slice(0, page.limit).map(toListed);
  const last = found.at(-1);
  const more = rows.length > page.limit && last !== undefined;
  return { found, next: more ? { createdAtMs: last.createdAtMs, id: last.id } : null };
}

/** Number of running and upcoming subscriptions, by plan. */
export async function countActive(db: Db): Promise<Map<string, number>> {
  const rows = await db.sql`
    SELECT plan_id, COUNT(*) AS many FROM subscription WHERE status = 'active' GROUP BY plan_id`;
  return new Map(rows.map((row) => [text(row, "plan_id"), integer(row, "many")]));
}
