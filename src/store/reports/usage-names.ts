/** What people call the keys, users, groups and accounts that usage names by their ids. What is gone has no name. */

import type { Db } from "../engine/db.ts";
import { text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";

const TABLES = {
  key: "SELECT id, name FROM api_key WHERE id",
  user: "SELECT id, email AS name FROM app_user WHERE id",
  group: "SELECT id, name FROM grp WHERE id",
  account: "SELECT id, name FROM account WHERE id",
} as const;

export type UsageNames = keyof typeof TABLES;

export async function lookUpUsageNames(
  db: Db,
  kind: UsageNames,
  ids: readonly (string | null)[],
): Promise<ReadonlyMap<string, string>> {
  const wanted = [...new Set(ids)].filter((id) => id !== null);
  const rows = await selectIn(db, TABLES[kind], wanted);
  return new Map(rows.map((row) => [text(row, "id"), text(row, "name")]));
}
