/**
 * Verifies an e-mail address by a link. The person who opens the link controls the address and chooses the
 * password.
 */

import { z } from "zod";
import { ApiError } from "../../errors.ts";
import { secretDigest } from "../../secrets/random-secret.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { findCredentials, markVerified } from "../../store/identity/credentials.ts";
import { deleteLinksTo, findLink, takeLink } from "../../store/identity/links.ts";
import { findUserByEmail } from "../../store/identity/users.ts";
import { readRegistration } from "../../store/settings/registration.ts";
import { auditLogActor } from "../changes/audit-log-entry.ts";
import type { ConsoleContext } from "../context.ts";
import { linkTokenField, newPasswordField } from "../forms/fields.ts";
import { rejectInsecure } from "../http/origin.ts";
import { forAnyone, forUsers, NO_FIELDS } from "../http/route.ts";
import { accountExistsError, addUser, logRegistration, signInNewUser } from "./create-account.ts";
import { createLink } from "./create-link.ts";
import { verificationEmail } from "./email-templates.ts";
import { linkUsedError, sendIfPossible } from "./links.ts";
import { limitEmails } from "./password.ts";
import { requirePasswordSignIn } from "./password-sign-in.ts";
import type { NewSession } from "./session.ts";
import { accountDisabledError, personResponse } from "./sessions.ts";
import { endAccess } from "./user-access.ts";
import { lookUpCredentials } from "./verify-credentials.ts";

export const verificationRoutes = {
  "email.verify": forAnyone({
    method: "POST",
    path: "/api/email/verify",
    summary:
      "Verify an address with the link that was sent to it, and choose the password of its account. All earlier sessions, tokens and keys are revoked",
    body: z.strictObject({ token: linkTokenField, password: newPasswordField }),
    response: z.object({ email: z.string(), user: personResponse }),
    async run(context, input) {
      rejectInsecure(input.headers, context.publicUrl);
      const { installation, identity, gateway } = context;
      const { db, clock } = installation;
      const digest = secretDigest(input.body.token);
      // First, because hashing is expensive and this route is public.
      if ((await findLink(db, digest, clock.nowMs()))?.purpose !== "verify") throw linkUsedError();
      await requirePasswordSignIn(db, "user");
      const passwordHash = await identity.passwords.hash(input.body.password);
      const { email, userId } = await transaction(db, async (tx) => {
        const link = await takeLink(tx, digest, "verify", clock.nowMs());
        if (link === null) throw linkUsedError();
        const account = { email: link.email, passwordHash };
        return link.userId === null
          ? openAccount(tx, context, input, account)
          : verifyAccount(tx, context, input, { ...account, userId: link.userId });
      });
      await gateway.policy.refresh();
      return signInNewUser(context, input, userId, { email });
    },
  }),

  "email.send_link": forUsers({
    method: "POST",
    path: "/api/email/link",
    summary: "Resend the link that verifies your address",
    response: NO_FIELDS,
    async run(context, input) {
      const { userId, email, mustVerify } = await lookUpCredentials(context, input.actor);
      if (!mustVerify) throw new ApiError("conflict", "Your address is already verified.");
      limitEmails(context, email, input.clientAddress);
      if (!(await sendVerification(context, { id: userId, email }, input.clientAddress))) {
        throw new ApiError("conflict", "The e-mail could not be sent. Contact an administrator.");
      }
      return {};
    },
  }),
};

interface LinkAccount {
  email: string;
  passwordHash: string;
}

/** The account is created only after the address is verified. */
async function openAccount(
  tx: Db,
  context: Pick<ConsoleContext, "installation">,
  input: Pick<NewSession, "clientAddress">,
  { email, passwordHash }: LinkAccount,
): Promise<{ email: string; userId: string }> {
  const registration = await readRegistration(tx);
  if (registration !== "open") throw registrationClosedError(registration);
  if ((await findUserByEmail(tx, email)) !== null) throw accountExistsError(email);
  const user = await addUser(tx, context.installation, { email, role: "user", passwordHash });
  await markVerified(tx, user.id, context.installation.clock.nowMs());
  await deleteLinksTo(tx, email);
  await logRegistration(tx, context, input, user, "user.register");
  return { email, userId: user.id };
}

/**
 * Verifies an existing account for the first time. Access that was created before may not belong to the owner
 * of the address.
 */
async function verifyAccount(
  tx: Db,
  { installation }: Pick<ConsoleContext, "installation">,
  { clientAddress }: Pick<NewSession, "clientAddress">,
  { email, passwordHash, userId }: LinkAccount & { userId: string },
): Promise<{ email: string; userId: string }> {
  const credentials = await findCredentials(tx, userId);
  if (credentials?.status !== "active") throw accountDisabledError();
  const by = { actor: auditLogActor({ userId, email }), address: clientAddress };
  await endAccess(tx, installation, { user: { id: userId, email }, action: "user.verify", by }, passwordHash);
  return { email, userId };
}

/** Returns false if the e-mail could not be sent. The id is null as long as there is no account. */
export async function sendVerification(
  context: Pick<ConsoleContext, "installation" | "gateway" | "publicUrl" | "mail">,
  user: { id: string | null; email: string },
  clientAddress: string,
): Promise<boolean> {
  const { installation } = context;
  const { id, email } = user;
  // The sender is not authenticated, so the audit log names the system.
  const actor =
    id === null
      ? ({ kind: "system", id: null, name: "gateway" } as const)
      : auditLogActor({ userId: id, email });
  const link = await transaction(installation.db, (tx) =>
    createLink(tx, installation, { purpose: "verify", user }, { actor, address: clientAddress }),
  );
  return sendIfPossible(context, verificationEmail(email, context.publicUrl + link.path));
}

export function registrationClosedError(registration: "invite" | "closed"): ApiError {
  return new ApiError(
    "registration_closed",
    registration === "invite"
      ? "Registration requires an invitation. Ask an administrator for a link."
      : "Registration is closed. Ask an administrator for an account.",
  );
}
