/** Routes that sign in and out, and list active sessions. */

import { z } from "zod";
import { isUnclaimed } from "../../config/first-run/admin-claim.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError, paramError } from "../../errors.ts";
import { REGISTRATIONS } from "../../records/settings.ts";
import { DEFAULT_SIGN_IN, PASSWORD_SIGN_IN, type SignInRecord } from "../../records/sign-in.ts";
import { ROLES } from "../../records/user.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import {
  type Credentials,
  findCredentials,
  findCredentialsByEmail,
  lockPassword,
} from "../../store/identity/credentials.ts";
import { deleteSession, deleteSessions, listSessions } from "../../store/identity/sessions.ts";
import { readRegistration } from "../../store/settings/registration.ts";
import { readSignIn } from "../../store/settings/sections.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import type { IdentityContext, StoreContext } from "../context.ts";
import { codeField, emailField, passwordField } from "../forms/fields.ts";
import { endedSessionCookie } from "../http/cookies.ts";
import { isLoopback, rejectInsecure } from "../http/origin.ts";
import { forAnyone, forUsers, NO_FIELDS } from "../http/route.ts";
import { sessionBounds } from "./actor.ts";
import { mayUsePassword } from "./password-sign-in.ts";
import { beginSession, type NewSession, withCookie } from "./session.ts";
import { isRightCode, needsCode, wrongCodeError } from "./verify-credentials.ts";

export const personResponse = z.object({
  id: z.string(),
  email: z.string(),
  role: z.enum(ROLES),
  has_password: z.boolean(),
  has_second_factor: z.boolean(),
  /** The provider at which the user signs in instead of with a password; null if none. */
  provider: z.string().nullable(),
});

export function personObject(credentials: Credentials): z.input<typeof personResponse> {
  const { userId, email, role, passwordHash, secondFactor, provider } = credentials;
  return {
    id: userId,
    email,
    role,
    has_password: passwordHash !== null,
    has_second_factor: secondFactor !== null && secondFactor.sinceMs !== null,
    provider,
  };
}

export const signedInResponse = z.object({ user: personResponse });

export const sessionRoutes = {
  "session.current": forAnyone({
    method: "GET",
    path: "/api/session",
    summary: "Get the signed-in user, and the registration mode",
    response: z.object({
      /** Null if no user is signed in. */
      user: personResponse.nullable(),
      registration: z.enum(REGISTRATIONS),
      /** Names of the providers at which people sign in, in the order of the configuration. */
      providers: z.array(z.string()),
      password_sign_in: z.enum(PASSWORD_SIGN_IN),
      /** With mail, a reset link is sent by e-mail; without, an administrator creates one. */
      mail: z.boolean(),
      /** No administrator exists yet. */
      unclaimed: z.boolean(),
      /** Where clients reach the gateway; null if not configured: then the address of the page works. */
      public_url: z.string().nullable(),
      password_chars_min: z.number(),
    }),
    async run(context, { actor }) {
      const { db } = context.installation;
      const credentials = actor === null ? null : await findCredentials(db, actor.userId);
      const signInSettings = await readSignIn(db);
      return {
        user: credentials === null ? null : personObject(credentials),
        registration: await readRegistration(db),
        providers: signInSettings.providers.map(({ name }) => name),
        password_sign_in: signInSettings.password,
        mail: (await context.mail()) !== null,
        unclaimed: await isUnclaimed(db),
        public_url: isLoopback(new URL(context.publicUrl).hostname) ? null : context.publicUrl,
        password_chars_min: limits.passwordCharsMin,
      };
    },
  }),

  "session.create": forAnyone({
    method: "POST",
    path: "/api/session",
    summary: "Sign in. With two-factor authentication, also send `code`: six digits, or a recovery code",
    body: z.strictObject({ email: emailField, password: passwordField, code: codeField.optional() }),
    response: signedInResponse,
    async run(context, input) {
      rejectInsecure(input.headers, context.publicUrl);
      const { email, password, code } = input.body;
      const credentials = await context.identity.attempts.forAccount(email, input.clientAddress, async () => {
        const found = await findCredentialsByEmail(context.installation.db, email);
        const isRight = await context.identity.passwords.verify(password, found?.passwordHash ?? null);
        const hasMail = (await context.mail()) !== null;
        const settings = await readSignIn(context.installation.db);
        // The same error for a right password that may not be used: it must not confirm the password.
        const isUsable = found !== null && isRight && mayUsePassword(settings, found);
        if (!isUsable) throw wrongPasswordError(hasMail, settings);
        if (code !== undefined) await requireCode(context, found, code);
        return found;
      });
      return signIn(context, input, credentials, {
        hasCode: code !== undefined,
        by: "password",
        // Verifying takes time: a password that was replaced meanwhile must not open a session.
        async before(tx) {
          if (!(await lockPassword(tx, credentials))) throw wrongPasswordError(false);
        },
      });
    },
  }),

  "session.end": forUsers({
    method: "DELETE",
    path: "/api/session",
    summary: "Sign out",
    response: NO_FIELDS,
    tokenScope: "none",
    async run({ installation, gateway }, { actor }) {
      await deleteSession(installation.db, actor.userId, actor.via.id);
      await gateway.policy.refresh();
      return withCookie({}, endedSessionCookie());
    },
  }),

  "sessions.list": forUsers({
    method: "GET",
    path: "/api/sessions",
    summary: "List your active sessions, most recently used first",
    response: z.object({
      data: z.array(
        z.object({
          id: z.string(),
          /** True for the session of this request. */
          current: z.boolean(),
          created_at: z.number(),
          seen_at: z.number(),
          address: z.string(),
          user_agent: z.string(),
        }),
      ),
      next: z.null(),
    }),
    async run({ installation }, { actor }) {
      const { db, clock } = installation;
      const sessions = await listSessions(db, actor.userId, sessionBounds(clock.nowMs()));
      return {
        data: sessions.map((session) => ({
          id: session.id,
          current: session.id === actor.via.id,
          created_at: session.createdAtMs,
          seen_at: session.seenAtMs,
          address: session.address,
          user_agent: session.userAgent,
        })),
        next: null,
      };
    },
  }),

  "sessions.revoke": forUsers({
    method: "DELETE",
    path: "/api/sessions/:id",
    summary: "Sign out a session",
    params: z.strictObject({ id: z.string() }),
    response: NO_FIELDS,
    async run({ installation, gateway }, input) {
      const { db, clock } = installation;
      await transaction(db, async (tx) => {
        const { actor, params } = input;
        if (!(await deleteSession(tx, actor.userId, params.id))) {
          throw new ApiError("not_found", "You have no such session. It may have already ended.");
        }
        await recordChange(tx, input, {
          atMs: clock.nowMs(),
          action: "session.revoke",
          target: `user ${actor.email}`,
          changes: [],
        });
      });
      await gateway.policy.refresh();
      return {};
    },
  }),

  "sessions.revoke_others": forUsers({
    method: "DELETE",
    path: "/api/sessions",
    summary: "Sign out all other sessions",
    response: z.object({ revoked: z.number() }),
    async run({ installation, gateway }, input) {
      const { db, clock } = installation;
      const ended = await transaction(db, async (tx) => {
        const { actor } = input;
        const revoked = await deleteSessions(tx, actor.userId, actor.via.id);
        if (revoked > 0) {
          const changes = [{ field: "sessions", from: String(revoked), to: "0" }];
          const target = `user ${actor.email}`;
          await recordChange(tx, input, { atMs: clock.nowMs(), action: "session.revoke", target, changes });
        }
        return { revoked };
      });
      await gateway.policy.refresh();
      return ended;
    },
  }),
};

function wrongPasswordError(hasMail: boolean, { providers }: SignInRecord = DEFAULT_SIGN_IN): ApiError {
  const message = "The address or the password is incorrect.";
  const [provider] = providers;
  if (provider !== undefined) {
    const hint = `${message} If you sign in at ${provider.name}, use its button.`;
    return new ApiError("wrong_credentials", hint);
  }
  const verify =
    " If you have just registered, open the link in the e-mail first. To get another link, register again.";
  return new ApiError("wrong_credentials", hasMail ? message + verify : message);
}

export function accountDisabledError(): ApiError {
  return new ApiError("forbidden", "This account is disabled. Ask an administrator.");
}

export async function requireCode(
  context: IdentityContext,
  credentials: Credentials,
  code: string,
): Promise<void> {
  if (!needsCode(credentials)) return;
  // The caller has already presented the password or a link. Six digits allow only a few attempts, so they
  // count together from all addresses.
  await context.identity.attempts.forVerifiedCaller(`code of ${credentials.userId}`, async () => {
    if (!(await isRightCode(context, credentials, code))) throw wrongCodeError();
  });
}

/** Begins a session for verified credentials, unless a code is still required or the user is disabled. */
export async function signIn(
  { installation }: StoreContext,
  client: NewSession,
  credentials: Credentials,
  { hasCode, by, before }: { hasCode: boolean; by: "password" | "link"; before?(tx: Db): Promise<void> },
): Promise<Response> {
  if (credentials.status === "disabled") {
    throw accountDisabledError();
  }
  if (needsCode(credentials) && !hasCode) {
    throw paramError("code", "second_factor_required", "Enter the code from your authenticator app.");
  }
  const { db, clock } = installation;
  const cookie = await transaction(db, async (tx) => {
    await before?.(tx);
    const newCookie = await beginSession(tx, installation, client, credentials.userId);
    await recordChange(
      tx,
      { actor: credentials, clientAddress: client.clientAddress },
      {
        atMs: clock.nowMs(),
        action: "session.create",
        target: `user ${credentials.email}`,
        changes: [{ field: "by", from: null, to: by }],
      },
    );
    return newCookie;
  });
  return withCookie({ user: personObject(credentials) }, cookie);
}
