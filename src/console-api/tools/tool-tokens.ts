/**
 * Issues, refreshes and revokes the tokens of signed-in tools. Access tokens are secrets of an ordinary key, so every
 * node accepts and rejects them as it does other keys.
 */

import { MINUTE_MS } from "../../base/time.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { newKey } from "../../config/plan/plan-keys.ts";
import type { ToolSignInPolicy } from "../../policy/tool-sign-in.ts";
import { type KeyRecord, keyTitle } from "../../records/key.ts";
import { effectiveStatus, type UserRecord } from "../../records/user.ts";
import { mintApiKey } from "../../secrets/api-key.ts";
import type { RandomBytes } from "../../secrets/keyring.ts";
import { isRefreshToken, mintRefreshToken, secretDigest } from "../../secrets/random-secret.ts";
import { appendChange, type ChangeEntry } from "../../store/audit-log/audit-log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import type { DeviceApproval } from "../../store/identity/device-requests.ts";
import { findUser } from "../../store/identity/users.ts";
import { findKey, insertKey, isKeyNameTaken, revokeKey } from "../../store/policy/keys.ts";
import {
  countTokensSince,
  findRefreshToken,
  insertToolKey,
  type RefreshToken,
  replaceTokens,
} from "../../store/policy/tool-tokens.ts";
import { waitForOtherNodes } from "../keys/wait-for-nodes.ts";
import { invalidGrant, OAuthError } from "./oauth-error.ts";
import { listOfferedGroups, requireToolSignIn, type ToolContext } from "./tool-context.ts";

const { toolSignIn } = limits;
/** A change is known everywhere after one poll; the second one covers a poll that was slow. */
const POLLS_WAITED = 2;

export interface IssuedTokens {
  readonly accessToken: string;
  readonly refreshToken: string;
  readonly expiresInSeconds: number;
}

/** Creates the key of an approved tool. The name gets a suffix if another key has taken it meanwhile. */
export async function createToolKey(
  tx: Db,
  context: ToolContext,
  policy: ToolSignInPolicy,
  { userId, groupId, name, address, user }: DeviceApproval & { address: string; user: UserRecord },
): Promise<IssuedTokens> {
  const { installation } = context;
  const { clock, randomBytes } = installation;
  const atMs = clock.nowMs();
  const endMs = atMs + chooseLifeMs(policy, randomBytes);
  const { record, secret } = newKey({ name, userId, groupId, expiresAtMs: endMs }, installation);
  const isTaken = await isKeyNameTaken(tx, { userId, name, otherThan: record.id });
  const key = isTaken ? { ...record, name: `${name.slice(0, 54)} ${record.publicId}` } : record;
  await insertKey(tx, key);
  const refresh = mintRefreshToken(randomBytes);
  const tool = { keyId: key.id, address, createdAtMs: atMs, idleEndMs: atMs + policy.idleEndMs };
  await insertToolKey(tx, tool, refresh.digest);
  const groupName = context.gateway.policy.snapshot().groups.get(groupId)?.name ?? groupId;
  await appendChange(tx, {
    atMs,
    actor: { kind: "user", id: userId, name: user.email },
    action: "tool.sign_in",
    target: keyTitle(key.name, user.email),
    changes: [{ field: "group", from: null, to: groupName }],
    address,
  });
  return {
    accessToken: secret,
    refreshToken: refresh.secret,
    expiresInSeconds: Math.floor((endMs - atMs) / 1000),
  };
}

/** Every token of one tool ends at another time than that of the next, so they do not refresh together. */
function chooseLifeMs({ accessTokenMs }: ToolSignInPolicy, randomBytes: RandomBytes): number {
  const [byte = 0] = randomBytes(1);
  const lifeMs = Math.floor(accessTokenMs * (1 - (toolSignIn.jitter * byte) / 255));
  return Math.max(toolSignIn.accessToken.minMs, lifeMs);
}

type RefreshResult =
  | { readonly kind: "issued"; readonly tokens: IssuedTokens }
  | { readonly kind: "rejected" | "too_many" }
  | { readonly kind: "reused"; readonly key: KeyRecord };

/** When the promise resolves, every node accepts the new access token. */
export async function refreshTokens(context: ToolContext, presented: string): Promise<IssuedTokens> {
  const policy = requireToolSignIn(context);
  const { db } = context.installation;
  const digest = isRefreshToken(presented) ? secretDigest(presented) : null;
  // Without the lock: an unknown token must cost no more than this.
  if (digest === null || (await findRefreshToken(db, digest)) === null) throw invalidGrant();
  const result = await transaction(db, (tx) => refreshInside(tx, context, policy, digest));
  await context.gateway.policy.refresh();
  if (result.kind === "too_many")
    throw new OAuthError("slow_down", "This tool refreshes too often. Use the token that you have.", 60);
  if (result.kind === "reused") await reportReuse(context, result.key);
  if (result.kind !== "issued") throw invalidGrant();
  await waitForOtherNodes(context, POLLS_WAITED);
  return result.tokens;
}

async function refreshInside(
  tx: Db,
  context: ToolContext,
  policy: ToolSignInPolicy,
  digest: string,
): Promise<RefreshResult> {
  const { clock } = context.installation;
  // First, because it takes the lock: of two refreshes at the same time, the second one sees the first.
  await bumpKeyRevision(tx);
  const atMs = clock.nowMs();
  const present = await findRefreshToken(tx, digest);
  const key = present === null ? null : await findKey(tx, present.keyId);
  if (present === null || key?.status !== "active") return { kind: "rejected" };
  if (present.replacedAtMs !== null && atMs - present.replacedAtMs > toolSignIn.reuseMs) {
    await endInside(tx, key, { atMs, reason: "an old refresh token was used again" });
    return { kind: "reused", key };
  }
  if (present.expiresAtMs <= atMs || !(await mayContinue(tx, context, policy, key)))
    return { kind: "rejected" };
  const recent = await countTokensSince(tx, key.id, atMs - MINUTE_MS);
  if (recent >= toolSignIn.refreshesPerMinute) return { kind: "too_many" };
  return { kind: "issued", tokens: await issueSuccessors(tx, context, policy, { present, key, atMs }) };
}

/** The person may have been disabled, or have lost the group. */
async function mayContinue(
  tx: Db,
  context: ToolContext,
  policy: ToolSignInPolicy,
  { userId, groupId }: KeyRecord,
): Promise<boolean> {
  const user = userId === null ? null : await findUser(tx, userId);
  if (user === null || effectiveStatus(user) === "disabled") return false;
  return listOfferedGroups(context, policy, user).some(({ id }) => id === groupId);
}

async function issueSuccessors(
  tx: Db,
  { installation }: ToolContext,
  policy: ToolSignInPolicy,
  { present, key, atMs }: { present: RefreshToken; key: KeyRecord; atMs: number },
): Promise<IssuedTokens> {
  const { digest, randomBytes } = installation;
  const { secret, last4 } = mintApiKey(randomBytes, key.publicId);
  const refresh = mintRefreshToken(randomBytes);
  const presentEndMs = key.expiresAtMs ?? atMs;
  // The key ends with its newest token: an earlier one must not end before its time because of the jitter.
  const accessEndMs = Math.max(presentEndMs, atMs + chooseLifeMs(policy, randomBytes));
  await replaceTokens(
    tx,
    present,
    {
      access: { digest: digest(secret), last4 },
      accessEndMs,
      refreshDigest: refresh.digest,
      idleEndMs: atMs + policy.idleEndMs,
    },
    { atMs, presentEndMs, formerMax: limits.formerSecretsMax },
  );
  return {
    accessToken: secret,
    refreshToken: refresh.secret,
    expiresInSeconds: Math.floor((accessEndMs - atMs) / 1000),
  };
}

async function reportReuse({ installation, gateway, alerts }: ToolContext, key: KeyRecord): Promise<void> {
  const user = key.userId === null ? null : await findUser(installation.db, key.userId);
  const owner = user?.email ?? "a deleted user";
  gateway.log.warn("refresh_token_reused", { key: key.id });
  await alerts.post({
    rule: "refresh_token_reused",
    message: `The sign-in of the tool "${key.name}" of ${owner} was ended: an old refresh token was used again, so another program may have a copy. Ask ${owner} whether the computer is safe, then sign in again.`,
    details: { key_id: key.id, key: key.name, user: owner },
  });
}

/** Ends the sign-in of a tool by one of its tokens (RFC 7009). Unknown tokens are ignored. */
export async function revokeByToken(context: ToolContext, token: string): Promise<void> {
  const { db, digest, clock } = context.installation;
  const keyId = isRefreshToken(token)
    ? ((await findRefreshToken(db, secretDigest(token)))?.keyId ?? null)
    : findToolKeyId(context, digest(token));
  if (keyId === null) return;
  const isEnded = await transaction(db, async (tx) => {
    await bumpKeyRevision(tx);
    const key = await findKey(tx, keyId);
    if (key?.status !== "active") return false;
    return endInside(tx, key, { atMs: clock.nowMs(), reason: "the tool signed out" });
  });
  if (isEnded) await context.gateway.policy.refresh();
}

function findToolKeyId({ installation, gateway }: ToolContext, digest: string): string | null {
  const key = gateway.policy.keys.find(digest, installation.clock.nowMs());
  return key?.isTool === true ? key.id : null;
}

async function endInside(
  tx: Db,
  key: KeyRecord,
  { atMs, reason }: { atMs: number; reason: string },
): Promise<true> {
  await revokeKey(tx, key.id, atMs);
  const user = key.userId === null ? null : await findUser(tx, key.userId);
  const entry: ChangeEntry = {
    atMs,
    actor: { kind: "system", id: null, name: "gateway" },
    action: "tool.end",
    target: keyTitle(key.name, user?.email ?? null),
    changes: [{ field: "reason", from: null, to: reason }],
    address: null,
  };
  await appendChange(tx, entry);
  return true;
}
