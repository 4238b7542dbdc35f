/** Links a user to the person at the provider, at a sign-in or by a push of the directory. */

import type { UserRecord } from "../../records/user.ts";
import type { Db } from "../../store/engine/db.ts";
import { markVerified } from "../../store/identity/credentials.ts";
import { type ExternalIdentity, insertIdentity } from "../../store/identity/external-identities.ts";
import { deleteLinksTo } from "../../store/identity/links.ts";

export async function linkIdentity(
  tx: Db,
  { id: userId, email, role }: UserRecord,
  { atMs, ...person }: Pick<ExternalIdentity, "issuer" | "subject" | "provider"> & { atMs: number },
): Promise<void> {
  const times = { createdAtMs: atMs, signedInAtMs: atMs, suspendedAtMs: null };
  await insertIdentity(tx, { userId, ...person, ...times }, role);
  await markVerified(tx, userId, atMs);
  // A link that was sent before would sign in without the provider.
  await deleteLinksTo(tx, email);
}
