/** Routes that create accounts: the first administrator, invitations and registrations. */

import { z } from "zod";
import {
  ClaimRejected,
  type ClaimRejection,
  checkClaim,
  claimAdministrator,
} from "../../config/first-run/admin-claim.ts";
import { ApiError, paramError } from "../../errors.ts";
import { secretDigest } from "../../secrets/random-secret.ts";
import { transaction } from "../../store/engine/db.ts";
import { findCredentialsByEmail, markVerified } from "../../store/identity/credentials.ts";
import { deleteLinksTo, findLink, takeLink } from "../../store/identity/links.ts";
import { findUserByEmail, hasAdministrator } from "../../store/identity/users.ts";
import { readRegistration } from "../../store/settings/registration.ts";
import type { ConsoleContext, IdentityContext } from "../context.ts";
import { emailField, linkTokenField, newPasswordField } from "../forms/fields.ts";
import { rejectInsecure } from "../http/origin.ts";
import { forAnyone } from "../http/route.ts";
import { addressBlock } from "../throttling/throttle.ts";
import { accountExistsError, addUser, logRegistration, signInNewUser } from "./create-account.ts";
import { alreadyRegisteredEmail } from "./email-templates.ts";
import { linkUsedError, sendIfPossible } from "./links.ts";
import { requirePasswordSignIn } from "./password-sign-in.ts";
import type { NewSession } from "./session.ts";
import { personResponse, signedInResponse } from "./sessions.ts";
import { registrationClosedError, sendVerification } from "./verification.ts";

export const registrationRoutes = {
  "claim.use": forAnyone({
    method: "POST",
    path: "/api/claim",
    summary: "Create the first administrator, with the token printed at the first start",
    body: z.strictObject({ token: linkTokenField, email: emailField, password: newPasswordField }),
    response: signedInResponse,
    async run(context, input) {
      rejectInsecure(input.headers, context.publicUrl);
      const { installation, identity } = context;
      const { token, email, password } = input.body;
      // First, because hashing is expensive and this route is public.
      const rejection = await checkClaim(installation.db, token, installation.clock.nowMs());
      if (rejection !== null) throw claimError(rejection);
      const passwordHash = await identity.passwords.hash(password);
      try {
        const claiming = { token, email, passwordHash, actor: null, address: input.clientAddress };
        const { id } = await claimAdministrator(installation, claiming);
        return await signInNewUser(context, input, id);
      } catch (error) {
        throw error instanceof ClaimRejected ? claimError(error.reason) : error;
      }
    },
  }),

  "registration.create": forAnyone({
    method: "POST",
    path: "/api/registration",
    summary:
      "Register, if registration is open. If mail is configured, a link is sent to the address, and the response does not reveal whether an account exists; the account and its password are created with the link",
    body: z.strictObject({
      email: emailField,
      /** Only if no mail is configured. Otherwise omit it: the password is chosen with the link. */
      password: newPasswordField.optional(),
    }),
    /** Null if mail is configured. */
    response: z.object({ user: personResponse.nullable() }),
    async run(context, input) {
      rejectInsecure(input.headers, context.publicUrl);
      const { installation } = context;
      const { email, password } = input.body;
      const registration = await readRegistration(installation.db);
      if (registration !== "open") throw registrationClosedError(registration);
      await requirePasswordSignIn(installation.db, "user");
      if (!(await hasAdministrator(installation.db))) throw administratorMissingError();
      const hasMail = (await context.mail()) !== null;
      if (hasMail !== (password === undefined)) throw misplacedPasswordError(hasMail);
      rejectTooManyAccounts(context, input.clientAddress);
      if (password !== undefined) return registerWithoutMail(context, input, email, password);
      // Not awaited: the duration would reveal whether the account exists.
      void sendRegistrationEmail(context, email, input.clientAddress);
      return { user: null };
    },
  }),

  "invitation.accept": forAnyone({
    method: "POST",
    path: "/api/invitations/accept",
    summary: "Accept an invitation and create the account",
    body: z.strictObject({ token: linkTokenField, password: newPasswordField }),
    response: signedInResponse,
    async run(context, input) {
      rejectInsecure(input.headers, context.publicUrl);
      const { installation, identity } = context;
      const { db, clock } = installation;
      const digest = secretDigest(input.body.token);
      const found = await findLink(db, digest, clock.nowMs());
      if (found?.purpose !== "invite") throw linkUsedError();
      await requirePasswordSignIn(db, found.role ?? "user");
      const passwordHash = await identity.passwords.hash(input.body.password);
      const user = await transaction(db, async (tx) => {
        const link = await takeLink(tx, digest, "invite", clock.nowMs());
        if (link === null) throw linkUsedError();
        const { email, role } = link;
        if ((await findUserByEmail(tx, email)) !== null) throw accountExistsError(email);
        const created = await addUser(tx, context.installation, {
          email,
          role: role ?? "user",
          passwordHash,
        });
        await markVerified(tx, created.id, clock.nowMs());
        await deleteLinksTo(tx, email);
        await logRegistration(tx, context, input, created, "user.join");
        return created;
      });
      return signInNewUser(context, input, user.id);
    },
  }),
};

/** Without mail an address cannot be verified: the first person to register it owns it. */
async function registerWithoutMail(
  context: IdentityContext,
  client: NewSession,
  email: string,
  password: string,
): Promise<Response> {
  const { installation, identity } = context;
  const passwordHash = await identity.passwords.hash(password);
  const user = await transaction(installation.db, async (tx) => {
    if ((await findUserByEmail(tx, email)) !== null) throw accountExistsError(email);
    const created = await addUser(tx, context.installation, { email, role: "user", passwordHash });
    await logRegistration(tx, context, client, created, "user.register");
    return created;
  });
  return signInNewUser(context, client, user.id);
}

/** Sends instructions to the address. The response does not reveal whether the address has an account. */
async function sendRegistrationEmail(
  context: Pick<ConsoleContext, "installation" | "gateway" | "publicUrl" | "identity" | "mail">,
  email: string,
  clientAddress: string,
): Promise<void> {
  const { installation, identity, gateway } = context;
  try {
    if (identity.emails.take(`to ${email}`) !== null) return;
    const found = await findCredentialsByEmail(installation.db, email);
    if (found === null) await sendVerification(context, email, clientAddress);
    else if (found.status === "disabled") return;
    else
      await sendIfPossible(
        context,
        alreadyRegisteredEmail(found.email, `${context.publicUrl}/console/sign-in`),
      );
  } catch (error) {
    gateway.log.error("registration_not_written", {
      reason: error instanceof Error ? error.message : "unknown",
    });
  }
}

function misplacedPasswordError(hasMail: boolean): ApiError {
  return paramError(
    "password",
    "invalid_value",
    hasMail
      ? "password: is chosen with the link in the e-mail. Remove the field."
      : "password: is missing. This gateway sends no mail, so the password is chosen here.",
  );
}

function rejectTooManyAccounts({ identity }: Pick<ConsoleContext, "identity">, clientAddress: string): void {
  const wait = identity.registrations.take(addressBlock(clientAddress));
  if (wait === null) return;
  throw new ApiError(
    "rate_limit_exceeded",
    "Too many accounts were created from this address today. Try again tomorrow, or ask an administrator for an invitation.",
    { headers: { "retry-after": String(wait) } },
  );
}

/** Without this check, another person could register the address that the administrator is going to use. */
function administratorMissingError(): ApiError {
  return new ApiError(
    "registration_closed",
    "This gateway has no administrator yet. Registration is possible after an administrator exists.",
  );
}

function claimError(rejection: ClaimRejection): ApiError {
  if (rejection === "claimed" || rejection === "none") {
    return new ApiError(
      "link_used_up",
      rejection === "claimed"
        ? "An administrator already exists, and the link works only once. Sign in instead."
        : "No link exists. Restart the gateway: it creates a link as long as there is no administrator.",
    );
  }
  return new ApiError(
    "link_used_up",
    "The link has expired or belongs to another gateway. Restart the gateway: it creates a new link as long as there is no administrator.",
  );
}
