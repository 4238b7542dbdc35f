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
import { auditActor } from "../changes/change-log-entry.ts";
import type { ConsoleContext } from "../context.ts";
import { linkTokenField, newPasswordField } from "../forms/fields.ts";
import { refuseInsecure } from "../http/origin.ts";
import { forAnyone, forUsers, NOTHING, TAKES_NOTHING } from "../http/route.ts";
import { verificationEmail } from "./email-templates.ts";
import { accountExists, addUser, auditJoin, welcome } from "./join.ts";
import { linkUsedUp, sendIfPossible } from "./links.ts";
import { createLink } from "./make-link.ts";
import { limitEmails } from "./password.ts";
import type { NewSession } from "./session.ts";
import { accountDisabled, personAnswer } from "./sessions.ts";
import { endAccess } from "./user-access.ts";
import { lookUpCredentials } from "./verify-credentials.ts";

export const verificationRoutes = {
  "email.verify": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/email/verify",
    summary:
      "Verify an address with the link that was sent to it, and choose the password of its account. All earlier sessions, tokens and keys are revoked",
    body: z.strictObject({ token: linkTokenField, password: newPasswordField }),
    answer: z.object({ email: z.string(), user: personAnswer }),
    async run(context, input) {
      refuseInsecure(input.headers, context.publicUrl);
      const { installation, identity, gateway } = context;
      const { db, clock } = installation;
      const digest = secretDigest(input.body.token);
      // First, because hashing is expensive and this route is public.
      if ((await findLink(db, digest, clock.nowMs()))?.purpose !== "verify") throw linkUsedUp();
      const passwordHash = await identity.passwords.hash(input.body.password);
      const { email, userId } = await transaction(db, async (tx) => {
        const link = await takeLink(tx, digest, "verify", clock.nowMs());
        if (link === null) throw linkUsedUp();
        const account = { email: link.email, passwordHash };
        return link.userId === null
          ? openAccount(tx, context, input, account)
          : verifyAccount(tx, context, input, { ...account, userId: link.userId });
      });
      await gateway.policy.refresh();
      return welcome(context, input, userId, { email });
    },
  }),

  "email.send_link": forUsers({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/email/link",
    summary: "Resend the link that verifies your address",
    answer: NOTHING,
    async run(context, input) {
      const { userId, email, mustVerify } = await lookUpCredentials(context, input.actor);
      if (!mustVerify) throw new ApiError("conflict", "Your address needs no verification.");
      limitEmails(context, email, input.clientAddress);
      if (!(await sendVerification(context, { id: userId, email }, input.clientAddress))) {
        throw new ApiError("conflict", "The message could not be sent. Tell an administrator.");
      }
      return {};
    },
  }),
};

interface OpenedLink {
  email: string;
  passwordHash: string;
}

/** The account is created only after the address is verified. */
async function openAccount(
  tx: Db,
  context: ConsoleContext,
  input: Pick<NewSession, "clientAddress">,
  { email, passwordHash }: OpenedLink,
): Promise<{ email: string; userId: string }> {
  const registration = await readRegistration(tx);
  if (registration !== "open") throw registrationClosed(registration);
  if ((await findUserByEmail(tx, email)) !== null) throw accountExists(email);
  const user = await addUser(tx, context, { email, role: "user", passwordHash });
  await markVerified(tx, user.id, context.installation.clock.nowMs());
  await deleteLinksTo(tx, email);
  await auditJoin(tx, context, input, user, "user.register");
  return { email, userId: user.id };
}

/**
 * Verifies an existing account for the first time. Access that was created before may not belong to the owner
 * of the address.
 */
async function verifyAccount(
  tx: Db,
  { installation }: ConsoleContext,
  { clientAddress }: Pick<NewSession, "clientAddress">,
  { email, passwordHash, userId }: OpenedLink & { userId: string },
): Promise<{ email: string; userId: string }> {
  const credentials = await findCredentials(tx, userId);
  if (credentials?.status !== "active") throw accountDisabled();
  const by = { actor: auditActor({ userId, email }), address: clientAddress };
  await endAccess(tx, installation, { user: { id: userId, email }, action: "user.verify", by }, passwordHash);
  return { email, userId };
}

/** Returns false if the e-mail could not be sent. The id is null as long as there is no account. */
export async function sendVerification(
  context: ConsoleContext,
  user: { id: string | null; email: string },
  clientAddress: string,
): Promise<boolean> {
  const { installation } = context;
  const { id, email } = user;
  // The sender is not authenticated, so the change log names the system.
  const actor =
    id === null
      ? ({ kind: "system", id: null, name: "gateway" } as const)
      : auditActor({ userId: id, email });
  const link = await transaction(installation.db, (tx) =>
    createLink(tx, installation, { purpose: "verify", user }, { actor, address: clientAddress }),
  );
  return sendIfPossible(context, verificationEmail(email, context.publicUrl + link.path));
}

export function registrationClosed(registration: "invite" | "closed"): ApiError {
  return new ApiError(
    "registration_closed",
    registration === "invite"
      ? "Registration is by invitation. Ask an administrator for a link."
      : "Registration is closed. Ask an administrator for an account.",
  );
}
