/** Routes that change a known password, reset a forgotten one, and sign in with a link. */

import { z } from "zod";
import { secretChange, secretSet } from "../../config/state/difference.ts";
import { ApiError, paramError } from "../../errors.ts";
import { secretDigest } from "../../secrets/random-secret.ts";
import { transaction } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import {
  type Credentials,
  findCredentials,
  findCredentialsByEmail,
  lockPassword,
  writePassword,
} from "../../store/identity/credentials.ts";
import { findLink, takeLink } from "../../store/identity/links.ts";
import { readSignIn } from "../../store/settings/sections.ts";
import { auditLogActor, recordChange } from "../changes/audit-log-entry.ts";
import type { ConsoleContext, IdentityContext, StoreContext } from "../context.ts";
import {
  codeField,
  emailField,
  instantField,
  linkTokenField,
  newPasswordField,
  passwordField,
} from "../forms/fields.ts";
import { rejectInsecure } from "../http/origin.ts";
import { forAnyone, forUsers, NO_FIELDS } from "../http/route.ts";
import { addressBlock } from "../throttling/throttle.ts";
import { requireLiveActor } from "./actor.ts";
import { createLink } from "./create-link.ts";
import { resetEmail } from "./email-templates.ts";
import { linkUsedError, sendIfPossible } from "./links.ts";
import { mayUsePassword } from "./password-sign-in.ts";
import { beginSession, withCookie } from "./session.ts";
import { requireCode, signedInResponse, signIn } from "./sessions.ts";
import { type AccessChange, resetPassword } from "./user-access.ts";
import { requirePassword } from "./verify-credentials.ts";

export const passwordRoutes = {
  "password.change": forUsers({
    method: "POST",
    path: "/api/password",
    summary: "Change your password. All other sessions are signed out",
    body: z.strictObject({
      /** The current password; omitted if the user has none. */
      password: passwordField.optional(),
      /** Required instead of the password if the user has a second factor but no password. */
      code: codeField.optional(),
      new_password: newPasswordField,
    }),
    tokenScope: "none",
    response: NO_FIELDS,
    async run(context, input) {
      const { installation, identity } = context;
      const verified = await requirePassword(context, input.actor, input.body);
      const { userId, email, passwordHash } = verified;
      const newHash = await identity.passwords.hash(input.body.new_password);
      const cookie = await transaction(installation.db, async (tx) => {
        // Hashing takes time. A reset that happened meanwhile must not be overwritten.
        await bumpKeyRevision(tx);
        if (!(await lockPassword(tx, verified))) throw passwordReplacedError();
        await requireLiveActor(tx, input.actor);
        await writePassword(tx, userId, newHash);
        const newCookie = await beginSession(tx, installation, input, userId);
        const changes = [passwordHash === null ? secretSet("password") : secretChange("password")];
        const atMs = installation.clock.nowMs();
        const target = `user ${email}`;
        await recordChange(tx, input, { atMs, action: "password.change", target, changes });
        return newCookie;
      });
      return withCookie({}, cookie);
    },
  }),

  "password.forgot": forAnyone({
    method: "POST",
    path: "/api/password/forgot",
    summary: "Send a password reset link. The response does not reveal whether the user exists",
    body: z.strictObject({ email: emailField }),
    response: NO_FIELDS,
    async run(context, { body, clientAddress }) {
      if ((await context.mail()) === null) {
        throw new ApiError(
          "conflict",
          "This gateway sends no mail. Ask an administrator for a link to choose a new password.",
        );
      }
      limitEmails(context, body.email, clientAddress);
      // Not awaited: the duration would reveal whether the user exists.
      void sendReset(context, body.email, clientAddress);
      return {};
    },
  }),

  "password.reset": forAnyone({
    method: "POST",
    path: "/api/password/reset",
    summary:
      "Choose a new password with a link. All sessions are signed out, and all personal access tokens and the named API keys are revoked",
    body: z.strictObject({
      token: linkTokenField,
      password: newPasswordField,
      /** Ids of API keys to revoke, as POST /api/links/read lists them, or all keys. */
      revoke_keys: z.union([z.literal("all"), z.array(z.string().max(100)).max(1_000)]).default([]),
      /** Also revoke every key that was created or rotated since. Send `at` of the list, so that no key is missed. */
      revoke_keys_since: instantField.optional(),
      /** A code of the second factor. Required only if one is active and keys are to be revoked. */
      code: codeField.optional(),
    }),
    response: z.object({ revoked_keys: z.number(), revoked_tokens: z.number(), ended_sessions: z.number() }),
    async run(context, input) {
      const { installation, identity, gateway } = context;
      const { db, clock } = installation;
      const { revoke_keys: ids, revoke_keys_since: sinceMs = null, password } = input.body;
      const revokeKeys = ids === "all" ? ids : { ids, sinceMs };
      const digest = secretDigest(input.body.token);
      // First, because hashing is expensive and this route is public.
      const credentials = await resetCredentials(context, digest);
      if (ids.length > 0 || sinceMs !== null) await verifyCodeForKeys(context, input, credentials);
      const passwordHash = await identity.passwords.hash(password);
      const { userId, email } = credentials;
      const ended = await transaction(db, async (tx) => {
        if ((await takeLink(tx, digest, "reset", clock.nowMs())) === null) throw linkUsedError();
        const by = { actor: auditLogActor({ userId, email }), address: input.clientAddress };
        const change: AccessChange = { user: { id: userId, email }, action: "password.reset", by };
        return resetPassword(tx, installation, change, { passwordHash, revokeKeys });
      });
      if (ended.keys > 0) await gateway.policy.refresh();
      return { revoked_keys: ended.keys, revoked_tokens: ended.tokens, ended_sessions: ended.sessions };
    },
  }),

  "session.create_by_link": forAnyone({
    method: "POST",
    path: "/api/session/link",
    summary: "Sign in with a one-time link. With two-factor authentication, also send `code`",
    body: z.strictObject({ token: linkTokenField, code: codeField.optional() }),
    response: signedInResponse,
    async run(context, input) {
      rejectInsecure(input.headers, context.publicUrl);
      const { db, clock } = context.installation;
      const { token, code } = input.body;
      const digest = secretDigest(token);
      const link = await findLink(db, digest, clock.nowMs());
      if (link?.purpose !== "sign_in" || link.userId === null) throw linkUsedError();
      const credentials = await findCredentials(db, link.userId);
      if (credentials === null) throw linkUsedError();
      if (code !== undefined) {
        await context.identity.attempts.forAccount(credentials.email, input.clientAddress, () =>
          requireCode(context, credentials, code),
        );
      }
      return signIn(context, input, credentials, {
        hasCode: code !== undefined,
        by: "link",
        // The link is consumed only if the sign-in succeeds.
        async before(tx) {
          if ((await takeLink(tx, digest, "sign_in", clock.nowMs())) === null) throw linkUsedError();
        },
      });
    },
  }),
};

function passwordReplacedError(): ApiError {
  return new ApiError("conflict", "The password was changed in the meantime. Sign in with the new password.");
}

/** Returns the user whose password the link resets. Throws if the link is invalid. */
async function resetCredentials({ installation }: StoreContext, digest: string): Promise<Credentials> {
  const { db, clock } = installation;
  const link = await findLink(db, digest, clock.nowMs());
  const userId = link?.purpose === "reset" ? link.userId : null;
  const credentials = userId === null ? null : await findCredentials(db, userId);
  if (credentials === null) throw linkUsedError();
  return credentials;
}

/** A second factor also protects the keys: access to the mailbox alone is not enough to revoke them. */
async function verifyCodeForKeys(
  context: IdentityContext,
  { clientAddress, body: { code } }: { clientAddress: string; body: { code?: string | undefined } },
  credentials: Credentials,
): Promise<void> {
  if ((credentials.secondFactor?.sinceMs ?? null) === null) return;
  if (code === undefined) {
    throw paramError(
      "code",
      "second_factor_required",
      "Revoking API keys requires a code from your authenticator app, or a recovery code.",
    );
  }
  await context.identity.attempts.forAccount(credentials.email, clientAddress, () =>
    requireCode(context, credentials, code),
  );
}

/** Limits e-mails to one e-mail address and from one network address. */
export function limitEmails(
  { identity }: Pick<ConsoleContext, "identity">,
  email: string,
  clientAddress: string,
): void {
  // In this order, so that a rejected sender does not use up the allowance of the recipient.
  const wait =
    identity.emails.take(`from ${addressBlock(clientAddress)}`) ?? identity.emails.take(`to ${email}`);
  if (wait === null) return;
  throw new ApiError(
    "rate_limit_exceeded",
    "Too many e-mails were requested. Check your inbox and spam folder, and try again later.",
    { headers: { "retry-after": String(wait) } },
  );
}

async function sendReset(
  context: Pick<ConsoleContext, "installation" | "gateway" | "publicUrl" | "mail">,
  email: string,
  clientAddress: string,
): Promise<void> {
  const { installation, gateway } = context;
  try {
    const found = await findCredentialsByEmail(installation.db, email);
    if (found === null || found.status === "disabled") return;
    if (!mayUsePassword(await readSignIn(installation.db), found)) return;
    const user = { id: found.userId, email: found.email };
    // The sender is not authenticated, so the audit log names the system.
    const actor = { kind: "system", id: null, name: "gateway" } as const;
    const link = await transaction(installation.db, (tx) =>
      createLink(tx, installation, { purpose: "reset", user }, { actor, address: clientAddress }),
    );
    await sendIfPossible(context, resetEmail(found.email, context.publicUrl + link.path));
  } catch (error) {
    gateway.log.error("reset_not_sent", { reason: error instanceof Error ? error.message : "unknown" });
  }
}
