/** Routes that create and inspect one-time links. */

import { z } from "zod";
import { ApiError, paramError } from "../../errors.ts";
import type { MailMessage } from "../../mail/mail.ts";
import { ROLES } from "../../records/user.ts";
import { secretDigest } from "../../secrets/random-secret.ts";
import { transaction } from "../../store/engine/db.ts";
import { findCredentials } from "../../store/identity/credentials.ts";
import { deleteLink, findLink, LINK_PURPOSES, listLinks } from "../../store/identity/links.ts";
import { findUserByEmail } from "../../store/identity/users.ts";
import { auditLogActor, recordChange } from "../changes/audit-log-entry.ts";
import type { ConsoleContext } from "../context.ts";
import { emailField, linkTokenField } from "../forms/fields.ts";
import { forAdmins, forAnyone, NO_FIELDS } from "../http/route.ts";
import { createLink, type LinkRequest } from "./create-link.ts";
import { invitationEmail, resetEmail, signInEmail } from "./email-templates.ts";
import { accessResponse, listAccess } from "./user-access.ts";

export function linkUsedError(): ApiError {
  return new ApiError(
    "link_used_up",
    "This link was already used, has expired, or was replaced by a newer one. Request a new link.",
  );
}

const linkResponse = z.object({
  id: z.string(),
  purpose: z.enum(LINK_PURPOSES),
  email: z.string(),
  role: z.enum(ROLES).nullable(),
  created_at: z.number(),
  created_by: z.string(),
  expires_at: z.number(),
});

export const linkRoutes = {
  "links.read": forAnyone({
    // The token is a secret, so it is sent in a body: URLs are logged on the way.
    method: "POST",
    path: "/api/links/read",
    summary:
      "Get the purpose of a one-time link and, for a password reset, the sessions, tokens and keys of its user. The link stays valid",
    body: z.strictObject({ token: linkTokenField }),
    response: z.object({
      ...linkResponse.pick({ purpose: true, email: true, expires_at: true }).shape,
      /** Only for a password reset link; otherwise null. */
      access: accessResponse.nullable(),
    }),
    async run({ installation }, { body }) {
      const { db, clock } = installation;
      const link = await findLink(db, secretDigest(body.token), clock.nowMs());
      if (link === null) throw linkUsedError();
      const { purpose, email, userId } = link;
      const user = purpose === "reset" && userId !== null ? await findCredentials(db, userId) : null;
      const access = user === null ? null : await listAccess(installation, user);
      return { purpose, email, expires_at: link.expiresAtMs, access };
    },
  }),

  "admin.links.create": forAdmins({
    method: "POST",
    path: "/api/admin/links",
    summary: "Create a one-time link: to invite a user, or for a user who cannot sign in",
    body: z.strictObject({
      purpose: z.enum(["invite", "reset", "sign_in"]),
      email: emailField,
      /** The role of a user who accepts the invitation. */
      role: z.enum(ROLES).default("user"),
      /** Also send the link by e-mail, if mail is configured. */
      mail: z.boolean().default(false),
    }),
    tokenScope: "none",
    response: z.object({ url: z.string(), expires_at: z.number(), mailed: z.boolean() }),
    async run(context, input) {
      const { db } = context.installation;
      const { email, role, purpose } = input.body;
      const created = await transaction(db, async (tx) => {
        const user = await findUserByEmail(tx, email);
        let linkRequest: LinkRequest;
        if (purpose === "invite") {
          if (user !== null) {
            throw paramError("email", "conflict", `${email} already has an account.`);
          }
          linkRequest = { purpose, email, role };
        } else {
          if (user === null) {
            throw paramError("email", "not_found", `The user ${email} does not exist.`);
          }
          linkRequest = { purpose, user };
        }
        const by = { actor: auditLogActor(input.actor), address: input.clientAddress };
        return createLink(tx, context.installation, linkRequest, by);
      });
      const url = context.publicUrl + created.path;
      const mailMessage: MailMessage = {
        invite: () => invitationEmail(email, url, input.actor.email),
        reset: () => resetEmail(email, url),
        sign_in: () => signInEmail(email, url),
      }[purpose]();
      const mailed = input.body.mail && (await sendIfPossible(context, mailMessage));
      return { url, expires_at: created.expiresAtMs, mailed };
    },
  }),

  "admin.links.list": forAdmins({
    method: "GET",
    path: "/api/admin/links",
    summary: "List active links, newest first. The links themselves are not returned",
    query: z.strictObject({
      after: z.string().optional(),
      limit: z.coerce.number().int().min(1).max(200).default(50),
    }),
    response: z.object({ data: z.array(linkResponse), next: z.string().nullable() }),
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
    method: "DELETE",
    path: "/api/admin/links/:id",
    summary: "Revoke a link",
    params: z.strictObject({ id: z.string() }),
    response: NO_FIELDS,
    async run({ installation }, input) {
      const { db, clock } = installation;
      await transaction(db, async (tx) => {
        const deleted = await deleteLink(tx, input.params.id);
        if (deleted === null)
          throw new ApiError("not_found", "This link does not exist, or was already used.");
        const target = `${deleted.purpose === "invite" ? "invitation" : "user"} ${deleted.email}`;
        await recordChange(tx, input, { atMs: clock.nowMs(), action: "link.revoke", target, changes: [] });
      });
      return {};
    },
  }),
};

/** Returns false if no mail server is configured, or if it rejected the message. */
export async function sendIfPossible(
  context: Pick<ConsoleContext, "gateway" | "mail">,
  message: MailMessage,
): Promise<boolean> {
  const mail = await context.mail();
  if (mail === null) return false;
  try {
    await mail.send(message);
    return true;
  } catch (error) {
    context.gateway.log.warn("mail_not_sent", {
      subject: message.subject,
      reason: error instanceof Error ? error.message : "unknown",
    });
    return false;
  }
}
