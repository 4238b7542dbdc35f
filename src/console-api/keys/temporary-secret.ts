/** Creates a temporary secret of a key, with which a page calls models as the signed-in owner of the key. */

import { limits } from "../../config/limits/product-limits.ts";
import { ApiError } from "../../errors.ts";
import type { KeyRecord } from "../../records/key.ts";
import { mintApiKey } from "../../secrets/api-key.ts";
import { transaction } from "../../store/engine/db.ts";
import { findUser } from "../../store/identity/users.ts";
import { insertTemporarySecret } from "../../store/policy/temporary-secrets.ts";
import { requireLiveActor } from "../auth/actor.ts";
import type { ConsoleAuthor } from "../changes/change.ts";
import type { PolicyContext } from "../context.ts";
import { alreadyRevokedError, logChange } from "./key-changes.ts";
import { mayUse } from "./usable-groups.ts";
import { waitForOtherNodes } from "./wait-for-nodes.ts";

/** When the promise resolves, every node accepts the secret. */
export async function createTemporarySecret(
  context: PolicyContext,
  author: ConsoleAuthor,
  key: KeyRecord,
): Promise<{ secret: string; worksUntilMs: number }> {
  const { db, clock, digest, randomBytes } = context.installation;
  const { actor } = author;
  const user = await findUser(db, actor.userId);
  const group = context.gateway.policy.snapshot().groups.get(key.groupId);
  if (user === null || key.userId !== user.id)
    throw new ApiError(
      "forbidden",
      "Only the owner of a key may create a temporary secret. Use your own key.",
    );
  if (group === undefined || !mayUse(group, user))
    throw new ApiError(
      "forbidden",
      "You can no longer create keys in the group of this key. Use another key.",
    );
  const atMs = clock.nowMs();
  const worksUntilMs = atMs + limits.temporarySecrets.lifeMs;
  const { secret } = mintApiKey(randomBytes, key.publicId);
  await transaction(db, async (tx) => {
    const row = { digest: digest(secret), keyId: key.id, sessionId: actor.via.id };
    const times = { createdAtMs: atMs, worksUntilMs };
    const isActive = await insertTemporarySecret(tx, { ...row, ...times }, limits.temporarySecrets.perKeyMax);
    if (!isActive) throw alreadyRevokedError();
    await requireLiveActor(tx, actor);
    const worksUntil = { field: "works_until", from: null, to: new Date(worksUntilMs).toISOString() };
    await logChange(tx, author, "key.temporary_secret", { key, user, atMs, changes: [worksUntil] });
  });
  await context.gateway.policy.refresh();
  await waitForOtherNodes(context, 1);
  return { secret, worksUntilMs };
}
