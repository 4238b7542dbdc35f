/** The link that was sent to an address: whoever opens it has the address, and chooses the password of its account. */

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
import { refuseManyLetters } from "./password.ts";
import type { Arrival } from "./session.ts";
import { accountDisabled, personAnswer } from "./sessions.ts";
import { endAccess } from "./user-access.ts";
import { credentialsOf } from "./verify-credentials.ts";

export const verificationRoutes = {
  "email.verify": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/email/verify",
    summary:
      "Verify an address with the link that was sent to it, and choose the password of its account. All earlier sessions, tokens and keys are revoked",
    body: z.strictObject({ token: linkTokenField, password: newPasswordField }),
    answer: z.object({ email: z.string(), user: personAnswer }),
    async run(control, asked) {
      refuseInsecure(asked.headers, control.publicUrl);
      const { installation, identity, gateway } = control;
      const { db, clock } = installation;
      const digest = secretDigest(asked.body.token);
      // First, because hashing is expensive and anybody can ask for it.
      if ((await findLink(db, digest, clock.nowMs()))?.purpose !== "verify") throw linkUsedUp();
      const passwordHash = await identity.passwords.hash(asked.body.password);
      const { email, userId } = await transaction(db, async (tx) => {
        const link = await takeLink(tx, digest, "verify", clock.nowMs());
        if (link === null) throw linkUsedUp();
        const opened = { email: link.email, passwordHash };
        return link.userId === null
          ? openAccount(tx, control, asked, opened)
          : verifyAccount(tx, control, asked, { ...opened, userId: link.userId });
      });
      await gateway.policy.refresh();
      return welcome(control, asked, userId, { email });
    },
  }),

  "email.send_link": forUsers({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/email/link",
    summary: "Resend the link that verifies your address",
    answer: NOTHING,
    async run(control, asked) {
      const { userId, email, mustVerify } = await credentialsOf(control, asked.actor);
      if (!mustVerify) throw new ApiError("conflict", "Your address needs no verification.");
      refuseManyLetters(control, email, asked.clientAddress);
      if (!(await sendVerification(control, { id: userId, email }, asked.clientAddress))) {
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

/** There is no account before somebody has shown that the address is theirs. */
async function openAccount(
  tx: Db,
  control: ConsoleContext,
  asked: Pick<Arrival, "clientAddress">,
  { email, passwordHash }: OpenedLink,
): Promise<{ email: string; userId: string }> {
  const registration = await readRegistration(tx);
  if (registration !== "open") throw registrationClosed(registration);
  if ((await findUserByEmail(tx, email)) !== null) throw accountExists(email);
  const user = await addUser(tx, control, { email, role: "user", passwordHash });
  await markVerified(tx, user.id, control.installation.clock.nowMs());
  await deleteLinksTo(tx, email);
  await auditJoin(tx, control, asked, user, "user.register");
  return { email, userId: user.id };
}

/** An account of before that was never verified: what was made with it need not be its owner's. */
async function verifyAccount(
  tx: Db,
  { installation }: ConsoleContext,
  { clientAddress }: Pick<Arrival, "clientAddress">,
  { email, passwordHash, userId }: OpenedLink & { userId: string },
): Promise<{ email: string; userId: string }> {
  const credentials = await findCredentials(tx, userId);
  if (credentials?.status !== "active") throw accountDisabled();
  const by = { actor: auditActor({ userId, email }), address: clientAddress };
  await endAccess(tx, installation, { user: { id: userId, email }, action: "user.verify", by }, passwordHash);
  return { email, userId };
}

/** False when it could not be sent. The id is null while there is no account. */
export async function sendVerification(
  control: ConsoleContext,
  user: { id: string | null; email: string },
  clientAddress: string,
): Promise<boolean> {
  const { installation } = control;
  const { id, email } = user;
  // Anybody may have asked.
  const actor =
    id === null
      ? ({ kind: "system", id: null, name: "gateway" } as const)
      : auditActor({ userId: id, email });
  const link = await transaction(installation.db, (tx) =>
    createLink(tx, installation, { purpose: "verify", user }, { actor, address: clientAddress }),
  );
  return sendIfPossible(control, verificationEmail(email, control.publicUrl + link.path));
}

export function registrationClosed(registration: "invite" | "closed"): ApiError {
  return new ApiError(
    "registration_closed",
    registration === "invite"
      ? "Registration is by invitation. Ask an administrator for a link."
      : "Registration is closed. Ask an administrator for an account.",
  );
}
