/**
 * Routes that link an existing account to a person of a provider who has the same verified address. The address alone links
 * nothing: the owner enters the password, or opens a mailed link in the browser of the sign-in.
 */

import { z } from "zod";
import { ApiError, paramError } from "../../errors.ts";
import { mintSecret, secretDigest } from "../../secrets/random-secret.ts";
import { appendChange } from "../../store/audit-log/audit-log.ts";
import type { Db } from "../../store/engine/db.ts";
import { deleteAccessTokens } from "../../store/identity/access-tokens.ts";
import { type Credentials, findCredentials, lockPassword } from "../../store/identity/credentials.ts";
import { deleteSessions } from "../../store/identity/sessions.ts";
import { takeState } from "../../store/identity/sign-in-records.ts";
import { foldEmail } from "../../store/identity/users.ts";
import { accountLinkEmail } from "../auth/email-templates.ts";
import { linkUsedError, sendIfPossible } from "../auth/links.ts";
import { limitEmails } from "../auth/password.ts";
import { withCookie } from "../auth/session.ts";
import { accountDisabledError, personResponse, requireCode } from "../auth/sessions.ts";
import { needsCode } from "../auth/verify-credentials.ts";
import type { ConsoleContext, IdentityContext, StoreContext } from "../context.ts";
import { codeField, linkTokenField, passwordField } from "../forms/fields.ts";
import { rejectInsecure } from "../http/origin.ts";
import { type Actor, forAnyone, NO_FIELDS } from "../http/route.ts";
import { admitPerson, type LinkProof } from "./admit-person.ts";
import { signInExpiredError } from "./flow.ts";
import { type PendingLink, pendingCookie, readPendingLink } from "./pending-link.ts";
import { limitAttempts, rejectSignIn, requireSameProvider, signedInResponse } from "./sign-in.ts";

const proofBody = z.union([
  z.strictObject({ password: passwordField, code: codeField.optional() }),
  /** Of the mailed link. */
  z.strictObject({ token: linkTokenField, code: codeField.optional() }),
]);
type PresentedProof = z.output<typeof proofBody>;

export const accountLinkRoutes = {
  "sign_in.link.read": forAnyone({
    method: "GET",
    path: "/api/sign-in/link",
    summary: "Get the sign-in at a provider whose address belongs to an account that can be linked",
    response: z.object({
      provider: z.string(),
      email: z.string(),
      /** Whether mail is configured, so that a link can be requested instead of entering the password. */
      mail: z.boolean(),
      expires_at: z.number(),
    }),
    async run(context, { headers, actor }) {
      const { provider, person, expiresAtMs } = readOwnPendingLink(context, headers, actor);
      const mail = (await context.mail()) !== null;
      return { provider, email: person.email, mail, expires_at: expiresAtMs };
    },
  }),

  "sign_in.link.mail": forAnyone({
    method: "POST",
    path: "/api/sign-in/link/mail",
    summary:
      "Send a link that proves the ownership of the account. It works in this browser only, and not for administrators",
    tokenScope: "none",
    response: NO_FIELDS,
    async run(context, { headers, actor, clientAddress }) {
      const { installation, publicUrl } = context;
      rejectInsecure(headers, publicUrl);
      limitAttempts(context, clientAddress);
      const pending = readOwnPendingLink(context, headers, actor);
      if ((await context.mail()) === null)
        throw new ApiError("conflict", "This gateway sends no mail. Enter the password of the account.");
      limitEmails(context, pending.person.email, clientAddress);
      const { secret, digest } = mintSecret(installation.randomBytes);
      const cookie = pendingCookie(installation, { ...pending, mailDigest: digest });
      if (cookie === null) throw signInExpiredError();
      // Not awaited: the duration would reveal whether the account may be linked by mail.
      void sendAccountLink(context, pending, { secret, clientAddress });
      return withCookie({}, cookie);
    },
  }),

  "sign_in.link.finish": forAnyone({
    method: "POST",
    path: "/api/sign-in/link",
    summary:
      "Link the account and sign in, with its password or the token of the mailed link. With two-factor authentication, also send `code`",
    body: proofBody,
    tokenScope: "none",
    response: z.object({
      user: personResponse,
      /** The page of the console that follows. */
      next: z.string(),
    }),
    async run(context, input) {
      const { installation, publicUrl, identity } = context;
      const { headers, actor, clientAddress, body } = input;
      rejectInsecure(headers, publicUrl);
      limitAttempts(context, clientAddress);
      const pending = readOwnPendingLink(context, headers, actor);
      const { person, userId: linkUserId, next } = pending;
      const provider = await requireSameProvider(context, pending);
      try {
        // The budget of the sign-in with a password.
        const proof = await identity.attempts.forAccount(foldEmail(person.email), clientAddress, () =>
          verifyProof(context, pending, body),
        );
        const admitted = await admitPerson(installation, input, { provider, person, linkUserId, proof });
        // Sessions, tokens and keys of other nodes follow within their poll.
        await context.gateway.policy.refresh();
        return await signedInResponse(context, admitted, next);
      } catch (error) {
        if (error instanceof ApiError && error.code === "second_factor_required") throw error;
        throw await rejectSignIn(context, input, { provider: provider.name, error, person });
      }
    },
  }),
};

/** The browser of a signed-in person links no other account. */
function readOwnPendingLink(
  { installation }: StoreContext,
  headers: Parameters<typeof readPendingLink>[1],
  actor: Actor | null,
): PendingLink {
  const pending = readPendingLink(installation, headers);
  if (actor !== null && actor.userId !== pending.userId) throw signInExpiredError();
  return pending;
}

/** Null if the account no longer exists or has another address. */
async function findOwner(db: Db, { userId, person }: PendingLink): Promise<Credentials | null> {
  const owner = await findCredentials(db, userId);
  return owner === null || foldEmail(owner.email) !== foldEmail(person.email) ? null : owner;
}

async function verifyProof(
  context: IdentityContext,
  pending: PendingLink,
  presented: PresentedProof,
): Promise<LinkProof> {
  const { db } = context.installation;
  const owner = await findOwner(db, pending);
  if (owner === null) throw signInExpiredError();
  if ("password" in presented) {
    // Also where passwords do not sign in: it proves the ownership, and the provider signs in.
    if (!(await context.identity.passwords.verify(presented.password, owner.passwordHash)))
      throw paramError("password", "wrong_credentials", "The password is incorrect.");
  } else {
    if (secretDigest(presented.token) !== pending.mailDigest) throw linkUsedError();
    if (!mayLinkByMail(owner))
      throw new ApiError("forbidden", "This account is linked with its password only. Enter the password.");
  }
  if (owner.status === "disabled") throw accountDisabledError();
  if (needsCode(owner) && presented.code === undefined)
    throw paramError(
      "code",
      "second_factor_required",
      "Enter the code from your authenticator app, or a recovery code.",
    );
  if (presented.code !== undefined) await requireCode(context, owner, presented.code);
  const by = "password" in presented ? "password" : "mail";
  return { by, confirm: (tx) => confirmProof(tx, pending, { owner, by }) };
}

/** Not administrators: their mailbox would be sufficient to become one. */
function mayLinkByMail({ role }: Credentials): boolean {
  return role !== "admin";
}

async function confirmProof(
  tx: Db,
  pending: PendingLink,
  { owner, by }: { owner: Credentials; by: LinkProof["by"] },
): Promise<void> {
  if (!(await takeState(tx, secretDigest(pending.state), pending.expiresAtMs))) throw signInExpiredError();
  // Verifying takes time: the password may have been replaced, and the role may have changed.
  const isSame = await lockPassword(tx, owner);
  const now = await findOwner(tx, pending);
  if (!isSame || now === null || now.role !== owner.role || needsCode(now) !== needsCode(owner))
    throw new ApiError("conflict", "The account was changed in the meantime. Sign in at the provider again.");
  if (by === "password") return;
  // As a password reset by mail does: another person may be signed in to the account.
  await deleteSessions(tx, owner.userId, null);
  await deleteAccessTokens(tx, owner.userId);
}

async function sendAccountLink(
  context: Pick<ConsoleContext, "installation" | "gateway" | "publicUrl" | "mail">,
  pending: PendingLink,
  { secret, clientAddress }: { secret: string; clientAddress: string },
): Promise<void> {
  const { installation, gateway, publicUrl } = context;
  const { provider, expiresAtMs } = pending;
  try {
    const owner = await findOwner(installation.db, pending);
    if (owner === null || owner.status === "disabled" || owner.provider !== null) return;
    if (!mayLinkByMail(owner)) return;
    // The sender is not authenticated, so the audit log names the system.
    await appendChange(installation.db, {
      atMs: installation.clock.nowMs(),
      actor: { kind: "system", id: null, name: "gateway" },
      address: clientAddress,
      action: "link.account",
      target: `user ${owner.email}`,
      changes: [
        { field: "provider", from: null, to: provider },
        { field: "expires", from: null, to: new Date(expiresAtMs).toISOString() },
      ],
    });
    const url = `${publicUrl}/console/sign-in/link#${secret}`;
    await sendIfPossible(context, accountLinkEmail(owner.email, { url, provider }));
  } catch (error) {
    gateway.log.error("account_link_not_sent", {
      reason: error instanceof Error ? error.message : "unknown",
    });
  }
}
