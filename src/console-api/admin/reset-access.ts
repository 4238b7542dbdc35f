/** Returns an account to its owner: ends all access to it and creates a link for choosing a new password. */

import { z } from "zod";
import { ApiError } from "../../errors.ts";
import { transaction } from "../../store/engine/db.ts";
import { createLink } from "../auth/create-link.ts";
import { accessResetEmail } from "../auth/email-templates.ts";
import { sendIfPossible } from "../auth/links.ts";
import { endAccess } from "../auth/user-access.ts";
import { auditLogActor } from "../changes/audit-log-entry.ts";
import { forAdmins } from "../http/route.ts";
import { requireUser } from "./users.ts";

export const resetAccessRoutes = {
  "admin.users.reset_access": forAdmins({
    method: "POST",
    path: "/api/admin/users/:id/reset-access",
    summary:
      "Invalidate a user's password, two-factor authentication, sessions, tokens, API keys and links, and create a link to choose a new password",
    params: z.strictObject({ id: z.string().max(100) }),
    body: z.strictObject({
      /** Also send the link to the user, if mail is configured. */
      mail: z.boolean().default(false),
    }),
    tokenScope: "none",
    response: z.object({
      url: z.string(),
      expires_at: z.number(),
      mailed: z.boolean(),
      revoked_keys: z.number(),
      revoked_tokens: z.number(),
      ended_sessions: z.number(),
    }),
    async run(context, input) {
      const { installation, gateway } = context;
      const user = await requireUser(context, input.params.id);
      if (user.id === input.actor.userId) {
        throw new ApiError(
          "conflict",
          "You cannot reset your own access: you would be locked out. Change your password, and revoke sessions, tokens and keys, on your own pages.",
        );
      }
      const by = { actor: auditLogActor(input.actor), address: input.clientAddress };
      const { ended, link } = await transaction(installation.db, async (tx) => ({
        ended: await endAccess(tx, installation, { user, action: "user.reset_access", by }),
        link: await createLink(tx, installation, { purpose: "reset", user }, by),
      }));
      await gateway.policy.refresh();
      const url = context.publicUrl + link.path;
      const mailed = input.body.mail && (await sendIfPossible(context, accessResetEmail(user.email, url)));
      return {
        url,
        expires_at: link.expiresAtMs,
        mailed,
        revoked_keys: ended.keys,
        revoked_tokens: ended.tokens,
        ended_sessions: ended.sessions,
      };
    },
  }),
};
