/** One-time links: what they are for, and making them for others. */

import { z } from "zod";
import { ApiError } from "../../errors.ts";
import type { MailMessage } from "../../mail/mail.ts";
import { secretDigest } from "../../secrets/random-secret.ts";
import { appendChange } from "../../store/change-log/change-log.ts";
import { transaction } from "../../store/engine/db.ts";
import { findCredentials } from "../../store/identity/credentials.ts";
import { deleteLink, findLink, LINK_PURPOSES, listLinks } from "../../store/identity/links.ts";
import { findUserByEmail } from "../../store/identity/users.ts";
import { auditActor, auditOf } from "../changes/change-log-entry.ts";
import type { ConsoleContext } from "../context.ts";
import { emailField, linkTokenField } from "../forms/fields.ts";
import { forAdmins, forAnyone, NOTHING, TAKES_NOTHING } from "../http/route.ts";
import { invitationEmail, resetEmail, signInEmail } from "./email-templates.ts";
import { createLink, type LinkRequest } from "./make-link.ts";
import { accessAnswer, listAccess } from "./user-access.ts";

export function linkUsedUp(): ApiError {
  return new ApiError(
    "link_used_up",
    "This link was used already, has expired, or a newer one has replaced it. Ask for a new one.",
  );
}

const linkAnswer = z.object({
  id: z.string(),
  purpose: z.enum(LINK_PURPOSES),
  email: z.string(),
  role: z.enum(["admin", "user"]).nullable(),
  created_at: z.number(),
  created_by: z.string(),
  expires_at: z.number(),
});

export const linkRoutes = {
  "links.read": forAnyone({
    ...TAKES_NOTHING,
    // The token is a secret, so it travels in a body: addresses are written down along the way.
    method: "POST",
    path: "/api/links/read",
    summary:
      "Get the purpose of a one-time link and, for a password reset, the sessions, tokens and keys of its user. The link stays valid",
    body: z.strictObject({ token: linkTokenField }),
    answer: z.object({
      ...linkAnswer.pick({ purpose: true, email: true, expires_at: true }).shape,
      /** False where the link opens one: an invitation, and the verification of an address that has none. */
      has_account: z.boolean(),
      /** Of a link to choose a new password; null for the others. */
      access: accessAnswer.nullable(),
    }),
    async run({ installation }, { body }) {
      const { db, clock } = installation;
      const link = await findLink(db, secretDigest(body.token), clock.nowMs());
      if (link === null) throw linkUsedUp();
      const { purpose, email, userId } = link;
      const user = purpose === "reset" && userId !== null ? await findCredentials(db, userId) : null;
      const access = user === null ? null : await listAccess(installation, user);
      return { purpose, email, expires_at: link.expiresAtMs, has_account: userId !== null, access };
    },
  }),

  "admin.links.create": forAdmins({
    ...TAKES_NOTHING,
    method: "POST",
    path: "/api/admin/links",
    summary: "Create a one-time link: to invite a user, or for a user who cannot sign in",
    body: z.strictObject({
      purpose: z.enum(["invite", "reset", "sign_in"]),
      email: emailField,
      /** What an invitation makes of whoever takes it. */
      role: z.enum(["admin", "user"]).default("user"),
      /** Also sends it there, where mail is configured. */
      mail: z.boolean().default(false),
    }),
    tokenScope: "none",
    answer: z.object({ url: z.string(), expires_at: z.number(), mailed: z.boolean() }),
    async run(control, asked) {
      const { db } = control.installation;
      const { email, role, purpose } = asked.body;
      const made = await transaction(db, async (tx) => {
        const user = await findUserByEmail(tx, email);
        let wanted: LinkRequest;
        if (purpose === "invite") {
          if (user !== null) {
            throw new ApiError("conflict", `${email} has an account already.`, { param: "email" });
          }
          wanted = { purpose, email, role };
        } else {
          if (user === null) {
            throw new ApiError("not_found", `There is no user ${email}.`, { param: "email" });
          }
          wanted = { purpose, user };
        }
        const by = { actor: auditActor(asked.actor), address: asked.clientAddress };
        return createLink(tx, control.installation, wanted, by);
      });
      const url = control.publicUrl + made.path;
      const letter: MailMessage = {
        invite: () => invitationEmail(email, url, asked.actor.email),
        reset: () => resetEmail(email, url),
        sign_in: () => signInEmail(email, url),
      }[purpose]();
      const mailed = asked.body.mail && (await sendIfPossible(control, letter));
      return { url, expires_at: made.expiresAtMs, mailed };
    },
  }),

  "admin.links.list": forAdmins({
    ...TAKES_NOTHING,
    method: "GET",
    path: "/api/admin/links",
    summary: "List active links, newest first. The links themselves are not returned",
    query: z.strictObject({
      after: z.string().optional(),
      limit: z.coerce.number().int().min(1).max(200).default(50),
    }),
    answer: z.object({ data: z.array(linkAnswer), next: z.string().nullable() }),
    async run({ installation }, { query }) {
      const { db, clock } = installation;
      const { after = null, limit } = query;
      const found = await listLinks(db, clock.nowMs(), { after, limit: limit + 1 });
      const data = found.slice(0, limit).map((link) => ({
        id: link.id,
        purpose: link.purpose,
        email: link.email,
        role: link.role,
        created_at: link.createdAtMs,
        created_by: link.createdBy,
        expires_at: link.expiresAtMs,
      }));
      return { data, next: found.length > limit ? (data.at(-1)?.id ?? null) : null };
    },
  }),

  "admin.links.revoke": forAdmins({
    ...TAKES_NOTHING,
    method: "DELETE",
    path: "/api/admin/links/:id",
    summary: "Revoke a link",
    params: z.strictObject({ id: z.string() }),
    answer: NOTHING,
    async run({ installation }, asked) {
      const { db, clock } = installation;
      await transaction(db, async (tx) => {
        const gone = await deleteLink(tx, asked.params.id);
        if (gone === null) throw new ApiError("not_found", "There is no such link, or it was used already.");
        const target = `${gone.purpose === "invite" ? "invitation" : "user"} ${gone.email}`;
        await appendChange(
          tx,
          auditOf(asked, { atMs: clock.nowMs(), action: "link.revoke", target, changes: [] }),
        );
      });
      return {};
    },
  }),
};

/** False without a mail server, or when it did not take it. */
export async function sendIfPossible(control: ConsoleContext, message: MailMessage): Promise<boolean> {
  const mail = await control.mail();
  if (mail === null) return false;
  try {
    await mail.send(message);
    return true;
  } catch (error) {
    control.gateway.log.warn("mail_not_sent", {
      subject: message.subject,
      reason: error instanceof Error ? error.message : "unknown",
    });
    return false;
  }
}
