/** How people join: the first administrator by the link of the first start, others by invitation or by themselves. */

import { z } from "zod";
import {
  type ClaimRefusal,
  ClaimRefused,
  checkClaim,
  claimAdministrator,
} from "../../config/first-run/admin-claim.ts";
import { ApiError } from "../../errors.ts";
import { secretDigest } from "../../secrets/random-secret.ts";
import { transaction } from "../../store/engine/db.ts";
import { findCredentialsByEmail, markVerified } from "../../store/identity/credentials.ts";
import { deleteLinksTo, findLink, takeLink } from "../../store/identity/links.ts";
import { findUserByEmail, hasAdministrator } from "../../store/identity/users.ts";
import { readRegistration } from "../../store/settings/registration.ts";
import type { ConsoleContext } from "../context.ts";
import { emailField, linkTokenField, newPasswordField } from "../forms/fields.ts";
import { refuseInsecure } from "../http/origin.ts";
import { forAnyone, TAKES_NOTHING } from "../http/route.ts";
import { addressBlock } from "../throttling/throttle.ts";
import { alreadyRegisteredEmail } from "./email-templates.ts";
import { accountExists, addUser, auditJoin, welcome } from "./join.ts";
import { linkUsedUp, sendIfPossible } from "./links.ts";
import type { Arrival } from "./session.ts";
import { personAnswer, signedInAnswer } from "./sessions.ts";
import { registrationClosed, sendVerification } from "./verification.ts";

export const registrationRoutes = {
  "claim.use": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/claim",
    summary: "Create the first administrator, with the token printed at the first start",
    body: z.strictObject({ token: linkTokenField, email: emailField, password: newPasswordField }),
    answer: signedInAnswer,
    async run(control, asked) {
      refuseInsecure(asked.headers, control.publicUrl);
      const { installation, identity } = control;
      const { token, email, password } = asked.body;
      // First, because hashing is expensive and anybody can ask for it.
      const refusal = await checkClaim(installation.db, token, installation.clock.nowMs());
      if (refusal !== null) throw claimError(refusal);
      const passwordHash = await identity.passwords.hash(password);
      try {
        const claiming = { token, email, passwordHash, actor: null, address: asked.clientAddress };
        const { id } = await claimAdministrator(installation, claiming);
        return await welcome(control, asked, id);
      } catch (error) {
        throw error instanceof ClaimRefused ? claimError(error.reason) : error;
      }
    },
  }),

  "registration.create": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/registration",
    summary:
      "Register, if registration is open. If mail is configured, a link is sent to the address, and the response does not reveal whether an account exists; the account and its password are created with the link",
    body: z.strictObject({
      email: emailField,
      /** Where no mail is sent. Where it is, the password is chosen with the link: leave it out. */
      password: newPasswordField.optional(),
    }),
    /** Null where mail is sent. */
    answer: z.object({ user: personAnswer.nullable() }),
    async run(control, asked) {
      refuseInsecure(asked.headers, control.publicUrl);
      const { installation } = control;
      const { email, password } = asked.body;
      const registration = await readRegistration(installation.db);
      if (registration !== "open") throw registrationClosed(registration);
      if (!(await hasAdministrator(installation.db))) throw nobodyYet();
      const hasMail = (await control.mail()) !== null;
      if (hasMail !== (password === undefined)) throw misplacedPassword(hasMail);
      refuseManyAccounts(control, asked.clientAddress);
      if (password !== undefined) return registerAtOnce(control, asked, email, password);
      // Not waited for: how long it takes would tell whether there is an account.
      void writeToRegistered(control, email, asked.clientAddress);
      return { user: null };
    },
  }),

  "invitation.accept": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/invitations/accept",
    summary: "Accept an invitation and create the account",
    body: z.strictObject({ token: linkTokenField, password: newPasswordField }),
    answer: signedInAnswer,
    async run(control, asked) {
      refuseInsecure(asked.headers, control.publicUrl);
      const { installation, identity } = control;
      const { db, clock } = installation;
      const digest = secretDigest(asked.body.token);
      if ((await findLink(db, digest, clock.nowMs()))?.purpose !== "invite") throw linkUsedUp();
      const passwordHash = await identity.passwords.hash(asked.body.password);
      const user = await transaction(db, async (tx) => {
        const link = await takeLink(tx, digest, "invite", clock.nowMs());
        if (link === null) throw linkUsedUp();
        const { email, role } = link;
        if ((await findUserByEmail(tx, email)) !== null) throw accountExists(email);
        const made = await addUser(tx, control, { email, role: role ?? "user", passwordHash });
        await markVerified(tx, made.id, clock.nowMs());
        await deleteLinksTo(tx, email);
        await auditJoin(tx, control, asked, made, "user.join");
        return made;
      });
      return welcome(control, asked, user.id);
    },
  }),
};

/** Without mail there is nothing to verify an address with: whoever registers first has it. */
async function registerAtOnce(
  control: ConsoleContext,
  arrival: Arrival,
  email: string,
  password: string,
): Promise<Response> {
  const { installation, identity } = control;
  const passwordHash = await identity.passwords.hash(password);
  const user = await transaction(installation.db, async (tx) => {
    if ((await findUserByEmail(tx, email)) !== null) throw accountExists(email);
    const made = await addUser(tx, control, { email, role: "user", passwordHash });
    await auditJoin(tx, control, arrival, made, "user.register");
    return made;
  });
  return welcome(control, arrival, user.id);
}

/** Whoever has the address reads what there is to do; whoever typed it does not learn whose it is. */
async function writeToRegistered(
  control: ConsoleContext,
  email: string,
  clientAddress: string,
): Promise<void> {
  const { installation, identity, gateway } = control;
  try {
    if (identity.letters.take(`to ${email}`) !== null) return;
    const found = await findCredentialsByEmail(installation.db, email);
    if (found === null) await sendVerification(control, { id: null, email }, clientAddress);
    else if (found.status === "disabled") return;
    else if (found.mustVerify)
      await sendVerification(control, { id: found.userId, email: found.email }, clientAddress);
    else
      await sendIfPossible(
        control,
        alreadyRegisteredEmail(found.email, `${control.publicUrl}/console/sign-in`),
      );
  } catch (error) {
    gateway.log.error("registration_not_written", {
      reason: error instanceof Error ? error.message : "unknown",
    });
  }
}

function misplacedPassword(hasMail: boolean): ApiError {
  return new ApiError(
    "invalid_value",
    hasMail
      ? "password: is chosen with the link that is sent to the address. Leave it out."
      : "password: is missing. This gateway sends no mail, so the password is chosen here.",
    { param: "password" },
  );
}

function refuseManyAccounts({ identity }: ConsoleContext, clientAddress: string): void {
  const wait = identity.registrations.take(addressBlock(clientAddress));
  if (wait === null) return;
  throw new ApiError(
    "rate_limit_exceeded",
    "Too many accounts were opened from this address today. Try again tomorrow, or ask an administrator for an invitation.",
    { headers: { "retry-after": String(wait) } },
  );
}

/** Otherwise somebody else could register first with the address that the administrator is going to use. */
function nobodyYet(): ApiError {
  return new ApiError(
    "registration_closed",
    "This gateway has no administrator yet. Registration opens once there is one.",
  );
}

function claimError(refusal: ClaimRefusal): ApiError {
  if (refusal === "claimed" || refusal === "none") {
    return new ApiError(
      "link_used_up",
      refusal === "claimed"
        ? "There is an administrator already, and the link works once. Sign in instead."
        : "There is nothing to claim. Start the gateway again: it makes a link while there is no administrator.",
    );
  }
  return new ApiError(
    "link_used_up",
    "The link has expired or is not of this gateway. Start the gateway again: it makes a new one while there is no administrator.",
  );
}
