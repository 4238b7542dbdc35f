/** Routes with which administrators see the people of providers and why sign-ins were rejected. */

import { z } from "zod";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError } from "../../errors.ts";
import { appendChange } from "../../store/audit-log/audit-log.ts";
import { transaction } from "../../store/engine/db.ts";
import { unlinkIdentity } from "../../store/identity/directory-grants.ts";
import { listIdentities } from "../../store/identity/external-identities.ts";
import { listRejections } from "../../store/identity/sign-in-records.ts";
import { requireLiveActor } from "../auth/actor.ts";
import { buildChangeEntry } from "../changes/audit-log-entry.ts";
import { buildPage, cursorText, pageQuery, readCursor, searchQuery } from "../http/page.ts";
import { EMPTY_INPUT, forAdmins, NO_INPUT } from "../http/route.ts";
import { requireUser } from "./users.ts";

const personResponse = z.object({
  /** The id of the user. */
  id: z.string(),
  email: z.string(),
  provider: z.string(),
  issuer: z.string(),
  subject: z.string(),
  linked_at: z.number(),
  signed_in_at: z.number(),
  /** Since when all keys of the person are suspended; null while the person has access. */
  suspended_at: z.number().nullable(),
  suspended_keys: z.number(),
});

const rejectionResponse = z.object({
  at: z.number(),
  provider: z.string(),
  /** The error code that the person saw. */
  code: z.string(),
  reason: z.string(),
  subject: z.string().nullable(),
  email: z.string().nullable(),
  /** The network address of the browser. */
  address: z.string(),
});

export const adminDirectoryRoutes = {
  "admin.directory.list": forAdmins({
    ...EMPTY_INPUT,
    method: "GET",
    path: "/api/admin/directory",
    summary: "List the people who sign in at a provider, last sign-in first",
    query: z.strictObject({ ...pageQuery, ...searchQuery }),
    response: buildPage(personResponse),
    async run({ installation: { db } }, { query: { after, limit, search = "" } }) {
      const cursor = readCursor(after, z.tuple([z.number(), z.string()]));
      const found = await listIdentities(db, { search, after: cursor, limit: limit + 1 });
      const page = found.slice(0, limit);
      const last = page.at(-1);
      return {
        data: page.map((one) => ({
          id: one.userId,
          email: one.email,
          provider: one.provider,
          issuer: one.issuer,
          subject: one.subject,
          linked_at: one.createdAtMs,
          signed_in_at: one.signedInAtMs,
          suspended_at: one.suspendedAtMs,
          suspended_keys: one.suspendedKeys,
        })),
        next:
          found.length > limit && last !== undefined ? cursorText([last.signedInAtMs, last.userId]) : null,
      };
    },
  }),

  "admin.directory.rejected": forAdmins({
    ...EMPTY_INPUT,
    method: "GET",
    path: "/api/admin/directory/rejected",
    summary: "List the last rejected sign-ins at providers, newest first, with the reason",
    response: z.object({ data: z.array(rejectionResponse), next: z.null() }),
    async run({ installation: { db } }) {
      const rejected = await listRejections(db, limits.companySignIn.rejectionsMax);
      return { data: rejected.map(({ id: _, atMs, ...one }) => ({ at: atMs, ...one })), next: null };
    },
  }),

  "admin.directory.unlink": forAdmins({
    ...EMPTY_INPUT,
    method: "DELETE",
    path: "/api/admin/directory/:id",
    summary:
      "Unlink a user from the person at the provider. What the directory granted ends, with sessions and tokens",
    params: z.strictObject({ id: z.string().max(100) }),
    response: NO_INPUT,
    async run(context, input) {
      const { db, clock } = context.installation;
      await transaction(db, async (tx) => {
        await requireLiveActor(tx, input.actor);
        const user = await requireUser(
          { installation: { ...context.installation, db: tx } },
          input.params.id,
        );
        if (!(await unlinkIdentity(tx, user.id)))
          throw new ApiError("conflict", "This user is not linked to a person of a provider.");
        const changes = [{ field: "provider", from: user.directory?.provider ?? null, to: null }];
        const entry = {
          atMs: clock.nowMs(),
          action: "directory.unlink",
          target: `user ${user.email}`,
          changes,
        };
        await appendChange(tx, buildChangeEntry(input, entry));
      });
      await context.gateway.policy.refresh();
      return {};
    },
  }),
};
