/** Changing a password that is known, and getting back in without it. */

import { z } from "zod";
import { secretChange, secretSet } from "../../config/state/difference.ts";
import { ApiError } from "../../errors.ts";
import { secretDigest } from "../../secrets/random-secret.ts";
import { appendChange } from "../../store/change-log/change-log.ts";
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
import { auditActor, auditOf } from "../changes/change-log-entry.ts";
import type { ConsoleContext } from "../context.ts";
import {
  codeField,
  emailField,
  instantField,
  linkTokenField,
  newPasswordField,
  passwordField,
} from "../forms/fields.ts";
import { refuseInsecure } from "../http/origin.ts";
import { forAnyone, forUsers, NOTHING, TAKES_NOTHING } from "../http/route.ts";
import { addressBlock } from "../throttling/throttle.ts";
import { requireLiveActor } from "./actor.ts";
import { resetEmail } from "./email-templates.ts";
import { linkUsedUp, sendIfPossible } from "./links.ts";
import { createLink } from "./make-link.ts";
import { beginSession, withCookie } from "./session.ts";
import { arrive, refuseWrongCode, signedInAnswer } from "./sessions.ts";
import { type AccessChange, endAccess, resetPassword } from "./user-access.ts";
import { requirePassword } from "./verify-credentials.ts";

export const passwordRoutes = {
  "password.change": forUsers({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/password",
    summary: "Change your password. All other sessions are signed out",
    body: z.strictObject({
      /** The present one; left out by whoever has none. */
      password: passwordField.optional(),
      /** In its place, by whoever has a second factor but no password. */
      code: codeField.optional(),
      new_password: newPasswordField,
    }),
    tokenScope: "none",
    answer: NOTHING,
    async run(control, asked) {
      const { installation, identity } = control;
      const proven = await requirePassword(control, asked.actor, asked.body);
      const { userId, email, passwordHash } = proven;
      const made = await identity.passwords.hash(asked.body.new_password);
      const cookie = await transaction(installation.db, async (tx) => {
        // Hashing takes a while, and a reset in between must not be undone.
        await bumpKeyRevision(tx);
        if (!(await lockPassword(tx, proven))) throw passwordReplaced();
        await requireLiveActor(tx, asked.actor);
        await writePassword(tx, userId, made);
        const begun = await beginSession(tx, installation, asked, userId);
        const changes = [passwordHash === null ? secretSet("password") : secretChange("password")];
        const atMs = installation.clock.nowMs();
        const target = `user ${email}`;
        await appendChange(tx, auditOf(asked, { atMs, action: "password.change", target, changes }));
        return begun;
      });
      return withCookie({}, cookie);
    },
  }),

  "password.forgot": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/password/forgot",
    summary: "Send a password reset link. The response does not reveal whether the user exists",
    body: z.strictObject({ email: emailField }),
    answer: NOTHING,
    async run(control, { body, clientAddress }) {
      if ((await control.mail()) === null) {
        throw new ApiError(
          "conflict",
          "This gateway sends no mail. Ask an administrator for a link to choose a new password.",
        );
      }
      refuseManyLetters(control, body.email, clientAddress);
      // Not waited for: how long it takes would tell whether somebody was found.
      void sendReset(control, body.email, clientAddress);
      return {};
    },
  }),

  "password.reset": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/password/reset",
    summary:
      "Choose a new password with a link. All sessions are signed out, and all personal access tokens and the named API keys are revoked",
    body: z.strictObject({
      token: linkTokenField,
      password: newPasswordField,
      /** Ids of API keys to revoke, as POST /api/links/read lists them, or all there are. */
      revoke_keys: z.union([z.literal("all"), z.array(z.string().max(100)).max(1_000)]).default([]),
      /** Also every key that was created or rotated from then on: `at` of the list, so that none is missed. */
      revoke_keys_since: instantField.optional(),
      /** Of the second factor; needed only where one is on and keys are to be revoked. */
      code: codeField.optional(),
    }),
    answer: z.object({ revoked_keys: z.number(), revoked_tokens: z.number(), ended_sessions: z.number() }),
    async run(control, asked) {
      const { installation, identity, gateway } = control;
      const { db, clock } = installation;
      const { revoke_keys: ids, revoke_keys_since: sinceMs = null, password } = asked.body;
      const revokeKeys = ids === "all" ? ids : { ids, sinceMs };
      const digest = secretDigest(asked.body.token);
      // First, because hashing is expensive and anybody can ask for it.
      const credentials = await resetCredentials(control, digest);
      if (ids.length > 0 || sinceMs !== null) await proveForKeys(control, asked, credentials);
      const passwordHash = await identity.passwords.hash(password);
      const { userId, email, mustVerify } = credentials;
      const ended = await transaction(db, async (tx) => {
        if ((await takeLink(tx, digest, "reset", clock.nowMs())) === null) throw linkUsedUp();
        const by = { actor: auditActor({ userId, email }), address: asked.clientAddress };
        const change: AccessChange = { user: { id: userId, email }, action: "password.reset", by };
        // What was made before the address was verified need not be its owner's.
        return mustVerify
          ? endAccess(tx, installation, change, passwordHash)
          : resetPassword(tx, installation, change, { passwordHash, revokeKeys });
      });
      if (ended.keys > 0) await gateway.policy.refresh();
      return { revoked_keys: ended.keys, revoked_tokens: ended.tokens, ended_sessions: ended.sessions };
    },
  }),

  "session.create_by_link": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/session/link",
    summary: "Sign in with a one-time link. With two-factor authentication, also send `code`",
    body: z.strictObject({ token: linkTokenField, code: codeField.optional() }),
    answer: signedInAnswer,
    async run(control, asked) {
      refuseInsecure(asked.headers, control.publicUrl);
      const { db, clock } = control.installation;
      const { token, code } = asked.body;
      const digest = secretDigest(token);
      const link = await findLink(db, digest, clock.nowMs());
      if (link?.purpose !== "sign_in" || link.userId === null) throw linkUsedUp();
      const credentials = await findCredentials(db, link.userId);
      if (credentials === null) throw linkUsedUp();
      if (code !== undefined) {
        await control.identity.attempts.of(credentials.email, asked.clientAddress, () =>
          refuseWrongCode(control, credentials, code),
        );
      }
      return arrive(control, asked, credentials, {
        hasCode: code !== undefined,
        by: "link",
        // Used up only by whoever gets in with it.
        async before(tx) {
          if ((await takeLink(tx, digest, "sign_in", clock.nowMs())) === null) throw linkUsedUp();
        },
      });
    },
  }),
};

function passwordReplaced(): ApiError {
  return new ApiError("conflict", "The password was changed meanwhile. Sign in with the new one.");
}

/** Whose password a link resets; throws where the link does not work. */
async function resetCredentials({ installation }: ConsoleContext, digest: string): Promise<Credentials> {
  const { db, clock } = installation;
  const link = await findLink(db, digest, clock.nowMs());
  const userId = link?.purpose === "reset" ? link.userId : null;
  const credentials = userId === null ? null : await findCredentials(db, userId);
  if (credentials === null) throw linkUsedUp();
  return credentials;
}

/** A second factor protects the keys as well: who reads the mail alone cannot stop what runs with them. */
async function proveForKeys(
  control: ConsoleContext,
  { clientAddress, body: { code } }: { clientAddress: string; body: { code?: string | undefined } },
  credentials: Credentials,
): Promise<void> {
  if (credentials.mustVerify || (credentials.secondFactor?.sinceMs ?? null) === null) return;
  if (code === undefined) {
    throw new ApiError(
      "second_factor_required",
      "Revoking API keys needs a code of your authenticator app, or a recovery code.",
      { param: "code" },
    );
  }
  await control.identity.attempts.of(credentials.email, clientAddress, () =>
    refuseWrongCode(control, credentials, code),
  );
}

/** So many to one address of mail, and from one address of the network. */
export function refuseManyLetters(
  { identity }: Pick<ConsoleContext, "identity">,
  email: string,
  clientAddress: string,
): void {
  // In this order, so that a refused sender uses up nothing of the recipient's allowance.
  const wait =
    identity.letters.take(`from ${addressBlock(clientAddress)}`) ?? identity.letters.take(`to ${email}`);
  if (wait === null) return;
  throw new ApiError(
    "rate_limit_exceeded",
    "Several messages were asked for already. Look for them, also in the folder for unwanted mail, and try again later.",
    { headers: { "retry-after": String(wait) } },
  );
}

async function sendReset(control: ConsoleContext, email: string, clientAddress: string): Promise<void> {
  const { installation, gateway } = control;
  try {
    const found = await findCredentialsByEmail(installation.db, email);
    if (found === null || found.status === "disabled") return;
    const user = { id: found.userId, email: found.email };
    // Anybody may have asked.
    const actor = { kind: "system", id: null, name: "gateway" } as const;
    const link = await transaction(installation.db, (tx) =>
      createLink(tx, installation, { purpose: "reset", user }, { actor, address: clientAddress }),
    );
    await sendIfPossible(control, resetEmail(found.email, control.publicUrl + link.path));
  } catch (error) {
    gateway.log.error("reset_not_sent", { reason: error instanceof Error ? error.message : "unknown" });
  }
}
