/** Everything that grants access as a user, from sessions to one-time links. A reset lists and ends it. */

import { z } from "zod";
import type { Installation } from "../../config/installation/installation.ts";
import { secretChange } from "../../config/state/difference.ts";
import { keyTitle } from "../../records/key.ts";
import type { FieldChange } from "../../records/policy.ts";
import { appendChange, type ChangeEntry } from "../../store/audit-log/audit-log.ts";
import type { Db } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import { deleteAccessTokens, listAccessTokens, TOKEN_SCOPES } from "../../store/identity/access-tokens.ts";
import {
  type Credentials,
  markVerified,
  removePassword,
  revokeAccess,
  writePassword,
} from "../../store/identity/credentials.ts";
import { deleteLinksTo } from "../../store/identity/links.ts";
import { listSessions } from "../../store/identity/sessions.ts";
import { listKeyPage } from "../../store/policy/key-list.ts";
import { countActiveKeys, type NamedKeys, readRotations, revokeUserKeys } from "../../store/policy/keys.ts";
import { sessionBounds } from "./actor.ts";

const KEYS_LISTED_MAX = 200;

/**
 * `is_new`: created (or rotated, for a key) after `since`, the last time that the owner certainly controlled
 * the account.
 */
const accessFields = { created_at: z.number(), used_at: z.number().nullable(), is_new: z.boolean() };

export const accessResponse = z.object({
  /** When this was read. A reset with this value as `revoke_keys_since` also revokes keys that were created later. */
  at: z.number(),
  /** When the owner last opened a link that was sent to the address. Null if never: then everything is new. */
  since: z.number().nullable(),
  second_factor_since: z.number().nullable(),
  /** Revoking keys with this link also requires a code of the second factor. */
  needs_code: z.boolean(),
  /** Newest first, at most 200 of `keys_total`. */
  keys: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      last4: z.string(),
      rotated_at: z.number().nullable(),
      ...accessFields,
    }),
  ),
  keys_total: z.number(),
  tokens: z.array(
    z.object({ name: z.string(), last4: z.string(), scope: z.enum(TOKEN_SCOPES), ...accessFields }),
  ),
  sessions: z.array(z.object({ address: z.string(), user_agent: z.string(), ...accessFields })),
});

export async function listAccess(
  { db, clock }: Pick<Installation, "db" | "clock">,
  { userId, emailVerifiedAtMs: since, secondFactor }: Credentials,
): Promise<z.input<typeof accessResponse>> {
  // First: a key that is created while the rest is read is either listed or newer than this time.
  const atMs = clock.nowMs();
  const rotations = await readRotations(db, userId);
  const isNew = (createdAtMs: number) => since === null || createdAtMs > since;
  const page = { after: null, limit: KEYS_LISTED_MAX };
  const { keys } = await listKeyPage(db, { owner: { userId }, status: "active" }, page);
  const tokens = await listAccessTokens(db, userId);
  const sessions = await listSessions(db, userId, sessionBounds(atMs));
  const factorSince = secondFactor?.sinceMs ?? null;
  return {
    at: atMs,
    since,
    second_factor_since: factorSince,
    needs_code: factorSince !== null,
    keys: keys.map((key) => ({
      id: key.id,
      name: key.name,
      last4: key.last4,
      created_at: key.createdAtMs,
      used_at: key.lastUsedAtMs,
      rotated_at: rotations.get(key.id) ?? null,
      // The person who rotated a key knows its secret.
      is_new: isNew(Math.max(key.createdAtMs, rotations.get(key.id) ?? 0)),
    })),
    keys_total: await countActiveKeys(db, userId),
    tokens: tokens.map((token) => ({
      name: token.name,
      last4: token.last4,
      scope: token.scope,
      created_at: token.createdAtMs,
      used_at: token.usedAtMs,
      is_new: isNew(token.createdAtMs),
    })),
    sessions: sessions.map((session) => ({
      address: session.address,
      user_agent: session.userAgent,
      created_at: session.createdAtMs,
      used_at: session.seenAtMs,
      is_new: isNew(session.createdAtMs),
    })),
  };
}

export interface AccessChange {
  user: { id: string; email: string };
  action: "password.reset" | "user.reset_access";
  by: Pick<ChangeEntry, "actor" | "address">;
}

interface EndedAccessReport {
  sessions: number;
  tokens: number;
  keys: number;
}

type AccessEndContext = Pick<Installation, "clock">;

/** Sets a new password by a link. Sessions and tokens end, and the listed keys are revoked. */
export async function resetPassword(
  tx: Db,
  { clock }: AccessEndContext,
  change: AccessChange,
  { passwordHash, revokeKeys }: { passwordHash: string; revokeKeys: NamedKeys | "all" },
): Promise<EndedAccessReport> {
  const atMs = clock.nowMs();
  const { user } = change;
  const sessions = (await listSessions(tx, user.id, sessionBounds(atMs))).length;
  await writePassword(tx, user.id, passwordHash);
  const tokens = await deleteAccessTokens(tx, user.id);
  await markVerified(tx, user.id, atMs);
  const keys = await revokeUserKeys(tx, user.id, revokeKeys, atMs);
  await logEndedAccess(
    tx,
    atMs,
    change,
    [secretChange("password"), ...countChanges({ sessions, tokens })],
    keys,
  );
  return { sessions, tokens, keys: keys.length };
}

/**
 * Ends all access, independent of who created it. The account then belongs to the person who opens the link to
 * choose a new password.
 */
export async function endAccess(
  tx: Db,
  { clock }: AccessEndContext,
  change: AccessChange,
): Promise<EndedAccessReport> {
  const atMs = clock.nowMs();
  const { id, email } = change.user;
  // First, because it takes the lock: changes of keys and passwords take it first too, so none of them is in
  // progress.
  await bumpKeyRevision(tx);
  const { sessions, tokens, secondFactor } = await revokeAccess(tx, id);
  await deleteLinksTo(tx, email);
  await removePassword(tx, id);
  const keys = await revokeUserKeys(tx, id, "all", atMs);
  const changes = [
    secretChange("password"),
    ...countChanges({ sessions, tokens }),
    ...(secondFactor ? [{ field: "second_factor", from: "on", to: "off" }] : []),
  ];
  await logEndedAccess(tx, atMs, change, changes, keys);
  return { sessions, tokens, keys: keys.length };
}

function countChanges(ended: Readonly<Record<string, number>>): FieldChange[] {
  return Object.entries(ended)
    .filter(([, count]) => count > 0)
    .map(([field, count]) => ({ field, from: String(count), to: "0" }));
}

/** Last in its transaction, because it locks the end of the audit log. */
async function logEndedAccess(
  tx: Db,
  atMs: number,
  { user: { email }, action, by }: AccessChange,
  changes: readonly FieldChange[],
  keys: readonly { name: string }[],
): Promise<void> {
  const all = [...changes, ...countChanges({ keys: keys.length })];
  await appendChange(tx, { ...by, atMs, action, target: `user ${email}`, changes: all });
  const revoked = [{ field: "status", from: "active", to: "revoked" }];
  for (const { name } of keys) {
    const target = keyTitle(name, email);
    await appendChange(tx, { ...by, atMs, action: "key.revoke", target, changes: revoked });
  }
}
