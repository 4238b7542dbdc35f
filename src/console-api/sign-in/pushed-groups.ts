/** The pushed groups of a person who signs in. */

import type { Db } from "../../store/engine/db.ts";
import { readScimMemberships } from "../../store/identity/scim-groups.ts";
import { findScimUserByExternalId } from "../../store/identity/scim-users.ts";
import { readScimProvider } from "../../store/settings/sections.ts";

/** Names of the groups; null if the claims of the sign-in decide: the directory does not push this person or no groups. */
export async function readPushedGroups(
  db: Db,
  issuer: string,
  subject: string,
): Promise<readonly string[] | null> {
  const scim = await readScimProvider(db);
  if (scim === null || scim.settings.groups === "claims" || scim.provider.issuer !== issuer) return null;
  const user = await findScimUserByExternalId(db, issuer, subject);
  if (user === null || user.removedAtMs !== null) return null;
  const memberships = await readScimMemberships(db, [user.userId]);
  return (memberships.get(user.userId) ?? []).map(({ displayName }) => displayName);
}
