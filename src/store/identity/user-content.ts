/**
 * Erases the content of a user who is deleted: captures, responses kept for idempotency, and links to the address.
 * Sessions and tokens are deleted with the user's row, stored responses with the keys. docs/privacy.md lists all.
 */

import { deleteCaptures } from "../captures/captures.ts";
import type { Db } from "../engine/db.ts";

export async function eraseUserContent(tx: Db, userId: string): Promise<void> {
  await deleteCaptures(tx, { userId });
  await tx.sql`DELETE FROM key_capture WHERE key_id IN (SELECT id FROM api_key WHERE user_id = ${userId})`;
  await tx.sql`DELETE FROM idempotency WHERE scope IN (SELECT id FROM api_key WHERE user_id = ${userId})`;
  await tx.sql`DELETE FROM one_time_link WHERE email = (SELECT email FROM app_user WHERE id = ${userId})`;
}
