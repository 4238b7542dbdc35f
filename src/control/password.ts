/** Changing a password that is known, and getting back in without it. */

import { z } from "zod";
import { secretChange, secretSet } from "../config/difference.ts";
import { ApiError } from "../errors.ts";
import { secretDigest } from "../secrets/random-secret.ts";
import { deleteAccessTokens } from "../store/access-tokens.ts";
import { appendAudit } from "../store/audit.ts";
import { findCredentials, findCredentialsByEmail, writePassword } from "../store/credentials.ts";
import { transaction } from "../store/db.ts";
import { findLink, takeLink } from "../store/links.ts";
import { auditOf } from "./audit-entry.ts";
import type { Control } from "./control.ts";
import { codeField, emailField, linkTokenField, newPasswordField, passwordField } from "./fields.ts";
import { resetLetter } from "./letters.ts";
import { linkUsedUp, sendIfPossible } from "./links.ts";
import { makeLink } from "./make-link.ts";
import { refuseInsecure } from "./origin.ts";
import { proveAgain } from "./prove.ts";
import { forAnyone, forUsers, NOTHING, TAKES_NOTHING } from "./route.ts";
import { beginSession, withCookie } from "./session.ts";
import { arrive, refuseWrongCode, signedInAnswer } from "./sessions.ts";
import { addressBlock } from "./throttle.ts";

export const passwordRoutes = {
  "password.change": forUsers({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/password",
    summary: "Choose another password. Every other browser is signed out",
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
      const { userId, email, passwordHash } = await proveAgain(control, asked.actor, asked.body);
      const made = await identity.passwords.hash(asked.body.new_password);
      const cookie = await transaction(installation.db, async (tx) => {
        await writePassword(tx, userId, made);
        const begun = await beginSession(tx, installation, asked, userId);
        const changes = [passwordHash === null ? secretSet("password") : secretChange("password")];
        const atMs = installation.clock.nowMs();
        const target = `user ${email}`;
        await appendAudit(tx, auditOf(asked, { atMs, action: "password.change", target, changes }));
        return begun;
      });
      return withCookie({}, cookie);
    },
  }),

  "password.forgot": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/password/forgot",
    summary: "Have a link for a new password sent. The answer does not tell whether there is such a user",
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
      "Choose a new password with a link. Every browser is signed out, every personal access token revoked",
    body: z.strictObject({ token: linkTokenField, password: newPasswordField }),
    answer: NOTHING,
    async run(control, asked) {
      const { installation, identity } = control;
      const { db, clock } = installation;
      const digest = secretDigest(asked.body.token);
      // First, because hashing is expensive and anybody can ask for it.
      if ((await findLink(db, digest, clock.nowMs()))?.purpose !== "reset") throw linkUsedUp();
      const made = await identity.passwords.hash(asked.body.password);
      await transaction(db, async (tx) => {
        const link = await takeLink(tx, digest, "reset", clock.nowMs());
        if (link === null || link.userId === null) throw linkUsedUp();
        await writePassword(tx, link.userId, made);
        // Whoever could not get in may have lost the account to somebody who has made one.
        const tokens = await deleteAccessTokens(tx, link.userId);
        const ended = tokens === 0 ? [] : [{ field: "tokens", from: String(tokens), to: "0" }];
        await appendAudit(
          tx,
          auditOf(
            { actor: { userId: link.userId, email: link.email }, clientAddress: asked.clientAddress },
            {
              atMs: clock.nowMs(),
              action: "password.reset",
              target: `user ${link.email}`,
              changes: [secretChange("password"), ...ended],
            },
          ),
        );
      });
      return {};
    },
  }),

  "session.create_by_link": forAnyone({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/session/link",
    summary: "Sign in with a one-time link. With a second factor, send `code` too",
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

/** So many to one address of mail, and from one address of the network. */
export function refuseManyLetters(
  { identity }: Pick<Control, "identity">,
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

async function sendReset(control: Control, email: string, clientAddress: string): Promise<void> {
  const { installation, gateway } = control;
  try {
    const found = await findCredentialsByEmail(installation.db, email);
    if (found === null || found.status === "disabled") return;
    const user = { id: found.userId, email: found.email };
    // Anybody may have asked.
    const actor = { kind: "system", id: null, name: "gateway" } as const;
    const link = await transaction(installation.db, (tx) =>
      makeLink(tx, installation, { purpose: "reset", user }, { actor, address: clientAddress }),
    );
    await sendIfPossible(control, resetLetter(found.email, control.publicUrl + link.path));
  } catch (error) {
    gateway.log.error("reset_not_sent", { reason: error instanceof Error ? error.message : "unknown" });
  }
}
