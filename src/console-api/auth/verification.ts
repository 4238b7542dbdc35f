/** Verifies an address by a link. Its reader controls the address, and creates the account. */

import { z } from "zod";
import { ApiError } from "../../errors.ts";
import { secretDigest } from "../../secrets/random-secret.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { markVerified } from "../../store/identity/credentials.ts";
import { deleteLinksTo, findLink, takeLink } from "../../store/identity/links.ts";
import { findUserByEmail } from "../../store/identity/users.ts";
import { readRegistration } from "../../store/settings/registration.ts";
import type { ConsoleContext, StoreContext } from "../context.ts";
import { linkTokenField, newPasswordField } from "../forms/fields.ts";
import { rejectInsecure } from "../http/origin.ts";
import { forAnyone } from "../http/route.ts";
import { accountExistsError, addUser, logRegistration, signInNewUser } from "./create-account.ts";
import { createLink } from "./create-link.ts";
import { verificationEmail } from "./email-templates.ts";
import { linkUsedError, sendIfPossible } from "./links.ts";
import { requirePasswordSignIn } from "./password-sign-in.ts";
import type { NewSession } from "./session.ts";
import { personResponse } from "./sessions.ts";

export const verificationRoutes = {
  "email.verify": forAnyone({
    method: "POST",
    path: "/api/email/verify",
    summary: "Verify an address with the link that was sent to it, and create its account with a password",
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
        return openAccount(tx, context, input, { email: link.email, passwordHash });
      });
      await gateway.policy.refresh();
      return signInNewUser(context, input, userId, { email });
    },
  }),
};

/** The account is created only after the address is verified. */
async function openAccount(
  tx: Db,
  context: StoreContext,
  input: Pick<NewSession, "clientAddress">,
  { email, passwordHash }: { email: string; passwordHash: string },
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

/** Sends the link that creates the account. */
export async function sendVerification(
  context: Pick<ConsoleContext, "installation" | "gateway" | "publicUrl" | "mail">,
  email: string,
  clientAddress: string,
): Promise<void> {
  const { installation } = context;
  // The sender is not authenticated, so the audit log names the system.
  const actor = { kind: "system", id: null, name: "gateway" } as const;
  const link = await transaction(installation.db, (tx) =>
    createLink(tx, installation, { purpose: "verify", email }, { actor, address: clientAddress }),
  );
  await sendIfPossible(context, verificationEmail(email, context.publicUrl + link.path));
}

export function registrationClosedError(registration: "invite" | "closed"): ApiError {
  return new ApiError(
    "registration_closed",
    registration === "invite"
      ? "Registration requires an invitation. Ask an administrator for a link."
      : "Registration is closed. Ask an administrator for an account.",
  );
}
