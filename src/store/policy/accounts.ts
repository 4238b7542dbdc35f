/** Account records: credentials at upstreams, with their models and limits. */

import { ACCOUNT_FIELDS, type AccountRecord } from "../../records/account.ts";
import { orDuplicate } from "../engine/conflict.ts";
import { type Db, transaction } from "../engine/db.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { deleteUnlessListed, POOLS } from "./memberships.ts";
import { RecordTable } from "./record-table.ts";

const ACCOUNTS = new RecordTable("account", ACCOUNT_FIELDS);

export function listAccounts(db: Db): Promise<AccountRecord[]> {
  return ACCOUNTS.list(db);
}

/** Whether the account exists, enabled or not. */
export async function hasAccount(db: Db, id: string): Promise<boolean> {
  return (await db.sql`SELECT id FROM account WHERE id = ${id}`).length > 0;
}

export async function putAccount(db: Db, account: AccountRecord): Promise<void> {
  await transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    await orDuplicate(`Another account is already named "${account.name}".`, ACCOUNTS.put(tx, account));
  });
}

/** Returns false if the account did not exist. */
export function deleteAccount(db: Db, id: string): Promise<boolean> {
  return deleteUnlessListed(db, POOLS, id);
}
