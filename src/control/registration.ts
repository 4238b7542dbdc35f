/** How people join: the first administrator by the link of the first start, others by invitation or by themselves. */

import { z } from "zod";
import { type ClaimRefusal, ClaimRefused, checkClaim, claimAdministrator } from "../config/admin-claim.ts";
import { secretSet } from "../config/difference.ts";
import { ApiError } from "../errors.ts";
import { NO_LIMITS, type Role, type UserRecord } from "../records.ts";
import { secretDigest } from "../secrets/random-secret.ts";
import { appendAudit } from "../store/audit.ts";
import { findCredentials, markUnverified, markVerified } from "../store/credentials.ts";
import { type Db, transaction } from "../store/db.ts";
import { findLink, takeLink } from "../store/links.ts";
import { readRegistration } from "../store/registration.ts";
import { findUserByEmail, hasAdministrator, putUser } from "../store/users.ts";
import { auditActor, auditOf } from "./audit-entry.ts";
import type { Control } from "./control.ts";
import { emailField, linkTokenField, newPasswordField } from "./fields.ts";
import { registeredLetter, verifyLetter } from "./letters.ts";
import { linkUsedUp, sendIfPossible } from "./links.ts";
import { makeLink } from "./make-link.ts";
import { refuseInsecure } from "./origin.ts";
import { refuseManyLetters } from "./password.ts";
import { credentialsOf } from "./prove.ts";
import { forAnyone, forUsers, NOTHING, TAKES_NOTHING } from "./route.ts";
import { type Arrival, beginSession, withCookie } from "./session.ts";
import { personAnswer, personOf, signedInAnswer } from "./sessions.ts";
import { addressBlock } from "./throttle.ts";

export const registrationRoutes = {
  "claim.use": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/claim",
    summary: "Become the first administrator, with the token of the first start",
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
      "Open an account, where registration is open. Where mail is sent, the answer does not tell whether there was one",
    body: z.strictObject({ email: emailField, password: newPasswordField }),
    /** Null where mail is sent: signing in works once the link in the message was opened. */
    answer: z.object({ user: personAnswer.nullable() }),
    async run(control, asked) {
      refuseInsecure(asked.headers, control.publicUrl);
      const { installation, identity } = control;
      const { email, password } = asked.body;
      const registration = await readRegistration(installation.db);
      if (registration !== "open") throw registrationClosed(registration);
      if (!(await hasAdministrator(installation.db))) throw nobodyYet();
      refuseManyAccounts(control, asked.clientAddress);
      const passwordHash = await identity.passwords.hash(password);
      const hasMail = (await control.mail()) !== null;
      const user = await transaction(installation.db, async (tx) => {
        const present = await findUserByEmail(tx, email);
        if (present !== null && !hasMail) throw accountExists(email);
        if (present !== null) return present;
        const made = await addUser(tx, control, { email, role: "user", passwordHash });
        if (hasMail) await markUnverified(tx, made.id);
        await auditJoin(tx, control, asked, made, "user.register");
        return made;
      });
      if (!hasMail) return welcome(control, asked, user.id);
      // Not waited for: how long it takes would tell whether there was an account.
      void writeToRegistered(control, user.id, asked.clientAddress);
      return { user: null };
    },
  }),

  "invitation.accept": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/invitations/accept",
    summary: "Open the account that an invitation is for",
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
        await auditJoin(tx, control, asked, made, "user.join");
        return made;
      });
      return welcome(control, asked, user.id);
    },
  }),

  "email.verify": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/email/verify",
    summary: "Show that an address is yours, with the link that was sent there",
    body: z.strictObject({ token: linkTokenField }),
    answer: z.object({ email: z.string() }),
    async run({ installation }, asked) {
      const { db, clock } = installation;
      return transaction(db, async (tx) => {
        const atMs = clock.nowMs();
        const link = await takeLink(tx, secretDigest(asked.body.token), "verify", atMs);
        if (link === null || link.userId === null) throw linkUsedUp();
        await markVerified(tx, link.userId, atMs);
        const actor = { userId: link.userId, email: link.email };
        const changes = [{ field: "email_verified", from: "no", to: "yes" }];
        const entry = { atMs, action: "user.verify", target: `user ${link.email}`, changes };
        await appendAudit(tx, auditOf({ actor, clientAddress: asked.clientAddress }, entry));
        return { email: link.email };
      });
    },
  }),

  "email.send_link": forUsers({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/email/link",
    summary: "Have the link that verifies your address sent again",
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

async function welcome(control: Control, arrival: Arrival, userId: string): Promise<Response> {
  const { installation } = control;
  const cookie = await transaction(installation.db, (tx) => beginSession(tx, installation, arrival, userId));
  const credentials = await findCredentials(installation.db, userId);
  if (credentials === null) throw new Error("The user who was just made is gone.");
  return withCookie({ user: personOf(credentials) }, cookie);
}

async function addUser(
  tx: Db,
  { installation: { clock, newId } }: Control,
  { email, role, passwordHash }: { email: string; role: Role; passwordHash: string },
): Promise<UserRecord> {
  const user: UserRecord = {
    id: newId("user"),
    email,
    role,
    status: "active",
    passwordHash,
    limits: NO_LIMITS,
    groups: [],
    createdAtMs: clock.nowMs(),
  };
  await putUser(tx, user);
  return user;
}

async function auditJoin(
  tx: Db,
  { installation: { clock } }: Control,
  { clientAddress }: Pick<Arrival, "clientAddress">,
  user: UserRecord,
  action: "user.register" | "user.join",
): Promise<void> {
  await appendAudit(tx, {
    atMs: clock.nowMs(),
    actor: auditActor({ userId: user.id, email: user.email }),
    action,
    target: `user ${user.email}`,
    changes: [{ field: "role", from: null, to: user.role }, secretSet("password")],
    address: clientAddress,
  });
}

/** False when it could not be sent. */
async function sendVerification(
  control: Control,
  user: { id: string; email: string },
  clientAddress: string,
): Promise<boolean> {
  const { installation } = control;
  const by = { actor: auditActor({ userId: user.id, email: user.email }), address: clientAddress };
  const link = await transaction(installation.db, (tx) =>
    makeLink(tx, installation, { purpose: "verify", user }, by),
  );
  return sendIfPossible(control, verifyLetter(user.email, control.publicUrl + link.path));
}

/** Whoever has the address reads what there is to do; whoever typed it does not learn whose it is. */
async function writeToRegistered(control: Control, userId: string, clientAddress: string): Promise<void> {
  const { installation, identity, gateway } = control;
  try {
    const found = await findCredentials(installation.db, userId);
    if (found === null || found.status === "disabled") return;
    const { email, mustVerify } = found;
    if (identity.letters.take(`to ${email}`) !== null) return;
    if (mustVerify) await sendVerification(control, { id: userId, email }, clientAddress);
    else await sendIfPossible(control, registeredLetter(email, `${control.publicUrl}/console/sign-in`));
  } catch (error) {
    gateway.log.error("registration_not_written", {
      reason: error instanceof Error ? error.message : "unknown",
    });
  }
}

function refuseManyAccounts({ identity }: Control, clientAddress: string): void {
  const wait = identity.registrations.take(addressBlock(clientAddress));
  if (wait === null) return;
  throw new ApiError(
    "rate_limit_exceeded",
    "Too many accounts were opened from this address today. Try again tomorrow, or ask an administrator for an invitation.",
    { headers: { "retry-after": String(wait) } },
  );
}

function registrationClosed(registration: "invite" | "closed"): ApiError {
  return new ApiError(
    "registration_closed",
    registration === "invite"
      ? "Registration is by invitation. Ask an administrator for a link."
      : "Registration is closed. Ask an administrator for an account.",
  );
}

/** Otherwise somebody else could register first with the address that the administrator is going to use. */
function nobodyYet(): ApiError {
  return new ApiError(
    "registration_closed",
    "This gateway has no administrator yet. Registration opens once there is one.",
  );
}

function accountExists(email: string): ApiError {
  return new ApiError("conflict", `There is an account with ${email} already. Sign in instead.`, {
    param: "email",
  });
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
