/** The paged list of users for administrators, with balance, keys and usage of each. */

import type { Nano } from "../../money/nano.ts";
import { type Role, USER_STATUSES, type UserStatus } from "../../records/user.ts";
import { type Db, placeholder, type Row, type SqlValue } from "../engine/db.ts";
import { enumText, flag, integer, integerOrNull, nano, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { contains } from "../engine/search.ts";
import { selectIn } from "../engine/select-in.ts";
import { readRole, roleColumns } from "./role-column.ts";

export interface ListedUser {
  id: string;
  email: string;
  role: Role;
  status: UserStatus;
  createdAtMs: number;
  /** Null if the user never signed in. */
  signedInAtMs: number | null;
  hasPassword: boolean;
  hasSecondFactor: boolean;
  balanceNano: Nano;
  heldNano: Nano;
  /** Number of active keys. */
  keys: number;
  /** Cost at list prices, and the part of it that was charged. */
  costNano: Nano;
  chargedNano: Nano;
  requests: number;
}

interface UserFilter {
  /** Matches anywhere in the address. */
  search?: string;
  /** The name of a group: members of it. */
  group?: string;
  role?: Role;
  status?: UserStatus;
  /** Selects a single user. */
  id?: string;
}

/**
 * Ordered by address. `after` is the folded address of the last user of the previous page. Usage is summed over the
 * days since `usedSinceMs`.
 */
export async function listUserPage(
  db: Db,
  filter: UserFilter,
  page: { after: string | null; limit: number; usedSinceMs: number },
): Promise<{ users: ListedUser[]; next: string | null }> {
  const values: SqlValue[] = [];
  const mark = (value: SqlValue) => placeholder(db.engine, values.push(value));
  const where = [`email_folded > ${mark(page.after ?? "")}`];
  if (filter.id !== undefined) where.push(`id = ${mark(filter.id)}`);
  if (filter.group !== undefined)
    where.push(
      `id IN (SELECT group_member.user_id FROM group_member JOIN key_group ON key_group.id = group_id WHERE key_group.name = ${mark(filter.group)})`,
    );
  if (filter.role !== undefined) {
    const { role, isAuditor } = roleColumns(filter.role);
    where.push(`role = ${mark(role)}`);
    // A former auditor whom a node of the version before made an administrator still has the flag.
    if (role === "user") where.push(`is_auditor = ${mark(isAuditor)}`);
  }
  if (filter.status !== undefined) where.push(`status = ${mark(filter.status)}`);
  if (filter.search) where.push(`(${contains("email", filter.search, mark)} OR id = ${mark(filter.search)})`);
  const found = await db.sql.text(
    `SELECT id, email, email_folded, role, is_auditor, status, created_at_ms, signed_in_at_ms,
       CASE WHEN password_hash IS NULL THEN 0 ELSE 1 END AS has_password,
       CASE WHEN totp_since_ms IS NULL THEN 0 ELSE 1 END AS has_second_factor,
       CAST(COALESCE(balance_nano, 0) AS TEXT) AS balance_nano, CAST(COALESCE(held_nano, 0) AS TEXT) AS held_nano
     FROM app_user LEFT JOIN wallet ON user_id = id
     WHERE ${where.join(" AND ")} ORDER BY email_folded LIMIT ${page.limit + 1}`,
    values,
  );
  const rows = found.slice(0, page.limit);
  const ids = rows.map((row) => text(row, "id"));
  const keys = new Map(
    (
      await selectIn(
        db,
        "SELECT user_id, COUNT(*) AS keys FROM api_key WHERE status = 'active' AND user_id",
        ids,
        "GROUP BY user_id",
      )
    ).map((row) => [text(row, "user_id"), integer(row, "keys")]),
  );
  const usageByUser = await readUsageSince(db, ids, page.usedSinceMs);
  const users = rows.map((row) =>
    toListedUser(row, keys.get(text(row, "id")) ?? 0, usageByUser.get(text(row, "id"))),
  );
  const last = rows.at(-1);
  return {
    users,
    next: found.length > page.limit && last !== undefined ? text(last, "email_folded") : null,
  };
}

const toSums = rowReader({
  requests: integer,
  costNano: nano,
  chargedNano: nano,
});
type UsageSums = ReturnType<typeof toSums>;

async function readUsageSince(
  db: Db,
  userIds: readonly string[],
  sinceMs: number,
): Promise<Map<string, UsageSums>> {
  const rows = await selectIn(
    db,
    `SELECT scope_id, CAST(SUM(requests + refused) AS BIGINT) AS requests, CAST(SUM(cost_nano) AS TEXT) AS cost_nano,
       CAST(SUM(charged_nano) AS TEXT) AS charged_nano
     FROM usage_day WHERE scope = 'user_sum' AND day_ms >= ${placeholder(db.engine, 1)} AND scope_id`,
    userIds,
    "GROUP BY scope_id",
    [sinceMs],
  );
  return new Map(rows.map((row) => [text(row, "scope_id"), toSums(row)]));
}

function toListedUser(row: Row, keys: number, use: UsageSums | undefined): ListedUser {
  return {
    id: text(row, "id"),
    email: text(row, "email"),
    role: readRole(row),
    status: enumText(row, "status", USER_STATUSES),
    createdAtMs: integer(row, "created_at_ms"),
    signedInAtMs: integerOrNull(row, "signed_in_at_ms"),
    hasPassword: flag(row, "has_password"),
    hasSecondFactor: flag(row, "has_second_factor"),
    balanceNano: nano(row, "balance_nano"),
    heldNano: nano(row, "held_nano"),
    keys,
    requests: use?.requests ?? 0,
    costNano: use?.costNano ?? 0n,
    chargedNano: use?.chargedNano ?? 0n,
  };
}
