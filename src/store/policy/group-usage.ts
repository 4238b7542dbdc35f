/** Figures of groups: keys, members and recent usage. */

import { HOUR_MS } from "../../base/time.ts";
import type { Nano } from "../../money/nano.ts";
import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { integer, nano, text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";

export interface GroupFacts {
  /** Number of active keys. */
  keys: number;
  members: number;
  requests: number;
  failed: number;
  chargedNano: Nano;
}

export const NO_GROUP_FACTS: GroupFacts = { keys: 0, members: 0, requests: 0, failed: 0, chargedNano: 0n };

/** Usage counts from the hour that contains `sinceMs`. */
export async function readGroupFacts(
  db: Db,
  groupIds: readonly string[],
  sinceMs: number,
): Promise<Map<string, GroupFacts>> {
  const facts = new Map(groupIds.map((id) => [id, { ...NO_GROUP_FACTS }]));
  const keys = await selectIn(
    db,
    "SELECT group_id, CAST(COUNT(*) AS BIGINT) AS keys FROM api_key WHERE status = 'active' AND group_id",
    groupIds,
    "GROUP BY group_id",
  );
  for (const row of keys) mergeFacts(facts, text(row, "group_id"), { keys: integer(row, "keys") });
  const members = await selectIn(
    db,
    "SELECT group_id, CAST(COUNT(*) AS BIGINT) AS members FROM group_member WHERE group_id",
    groupIds,
    "GROUP BY group_id",
  );
  for (const row of members) mergeFacts(facts, text(row, "group_id"), { members: integer(row, "members") });
  const usageRows = await selectIn(
    db,
    `SELECT group_id, CAST(SUM(requests + refused) AS BIGINT) AS requests, CAST(SUM(failed) AS BIGINT) AS failed,
       CAST(SUM(charged_nano) AS TEXT) AS charged_nano
     FROM usage_hour WHERE hour_ms >= ${placeholder(db.engine, 1)} AND group_id`,
    groupIds,
    "GROUP BY group_id",
    [Math.floor(sinceMs / HOUR_MS) * HOUR_MS],
  );
  for (const row of usageRows) {
    mergeFacts(facts, text(row, "group_id"), {
      requests: integer(row, "requests"),
      failed: integer(row, "failed"),
      chargedNano: nano(row, "charged_nano"),
    });
  }
  return facts;
}

function mergeFacts(facts: Map<string, GroupFacts>, id: string, more: Partial<GroupFacts>): void {
  facts.set(id, { ...(facts.get(id) ?? NO_GROUP_FACTS), ...more });
}

interface Member {
  userId: string;
  email: string;
}

/** Ordered by address. `after` is the last address of the previous page. */
export async function listMembers(
  db: Db,
  groupId: string,
  page: { after: string | null; search: string | null; limit: number },
): Promise<Member[]> {
  const values: SqlValue[] = [groupId, page.after ?? ""];
  const at = (value: SqlValue) => placeholder(db.engine, values.push(value));
  const search =
    page.search === null
      ? ""
      : `AND email_folded LIKE ${at(`%${page.search.toLowerCase().replace(/[!%_]/g, "!$&")}%`)} ESCAPE '!'`;
  const [group, after] = [placeholder(db.engine, 1), placeholder(db.engine, 2)];
  // A small group is read as a whole and sorted. For a large one, users are scanned in address order until the page
  // is full.
  const members = (await hasManyMembers(db, groupId))
    ? `app_user WHERE EXISTS
         (SELECT 1 FROM group_member WHERE user_id = app_user.id AND group_id = ${group})`
    : `group_member JOIN app_user ON app_user.id = group_member.user_id WHERE group_member.group_id = ${group}`;
  const rows = await db.sql.text(
    `SELECT app_user.id AS id, email, email_folded FROM ${members} AND email_folded > ${after} ${search}
     ORDER BY email_folded LIMIT ${page.limit}`,
    values,
  );
  return rows.map((row) => ({ userId: text(row, "id"), email: text(row, "email") }));
}

const MANY_MEMBERS = 5_000;

async function hasManyMembers(db: Db, groupId: string): Promise<boolean> {
  const rows = await db.sql`
    SELECT 1 AS found FROM group_member WHERE group_id = ${groupId} LIMIT 1 OFFSET ${MANY_MEMBERS}`;
  return rows.length > 0;
}
