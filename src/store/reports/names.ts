/** Looks up the names of keys, users, groups and accounts by ids. Deleted objects have no name. */

import type { Db } from "../engine/db.ts";
import { text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";

const SELECTS = {
  key: "SELECT id, name FROM api_key WHERE id",
  user: "SELECT id, email AS name FROM app_user WHERE id",
  group: "SELECT id, name FROM key_group WHERE id",
  account: "SELECT id, name FROM account WHERE id",
} as const;

export async function lookUpNames(
  db: Db,
  kind: keyof typeof SELECTS,
  ids: readonly (string | null)[],
): Promise<ReadonlyMap<string, string>> {
  const wanted = [...new Set(ids)].filter((id) => id !== null);
  const rows = await selectIn(db, SELECTS[kind], wanted);
  return new Map(rows.map((row) => [text(row, "id"), text(row, "name")]));
}
