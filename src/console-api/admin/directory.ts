/** Routes with which administrators see the people of providers and why sign-ins were rejected. */

import { z } from "zod";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError } from "../../errors.ts";
import { GROUP_SOURCES } from "../../records/settings.ts";
import { transaction } from "../../store/engine/db.ts";
import { unlinkIdentity } from "../../store/identity/directory-grants.ts";
import { findDirectoryLosses } from "../../store/identity/directory-losses.ts";
import { listIdentities } from "../../store/identity/external-identities.ts";
import { listRejectedPushes, readScimSummary } from "../../store/identity/scim-records.ts";
import { listRejections } from "../../store/identity/sign-in-records.ts";
import { readScimProvider } from "../../store/settings/sections.ts";
import { requireLiveActor } from "../auth/actor.ts";
import { auditLogActor, recordChange } from "../changes/audit-log-entry.ts";
import { buildPage, cursorText, pageQuery, readCursor, searchQuery } from "../http/page.ts";
import { forAdmins, NO_FIELDS } from "../http/route.ts";
import { restoreLostPeople } from "../sign-in/end-access.ts";
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
  /** Whether the directory pushes the person, by SCIM, and has deactivated or removed the person. */
  pushed: z.enum(["no", "active", "deactivated", "removed"]),
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

const scimResponse = z.object({
  /** The provider whose directory pushes; null if SCIM is off. */
  provider: z.string().nullable(),
  /** Where roles and groups of pushed people come from. */
  groups_from: z.enum(GROUP_SOURCES).nullable(),
  people: z.number(),
  groups: z.number(),
  last_push_at: z.number().nullable(),
  /** The name of the service account. */
  last_push_by: z.string().nullable(),
  /** Newest first. */
  rejected: z.array(
    z.object({
      at: z.number(),
      service_account: z.string(),
      /** Method and path. */
      request: z.string(),
      status: z.number(),
      reason: z.string(),
    }),
  ),
});

export const adminDirectoryRoutes = {
  "admin.directory.list": forAdmins({
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
          pushed: one.pushed,
        })),
        next:
          found.length > limit && last !== undefined ? cursorText([last.signedInAtMs, last.userId]) : null,
      };
    },
  }),

  "admin.directory.rejected": forAdmins({
    method: "GET",
    path: "/api/admin/directory/rejected",
    summary: "List the last rejected sign-ins at providers, newest first, with the reason",
    response: z.object({ data: z.array(rejectionResponse), next: z.null() }),
    async run({ installation: { db } }) {
      const rejected = await listRejections(db, limits.companySignIn.rejectionsMax);
      return { data: rejected.map(({ id: _, atMs, ...one }) => ({ at: atMs, ...one })), next: null };
    },
  }),

  "admin.directory.losses": forAdmins({
    method: "GET",
    path: "/api/admin/directory/losses",
    summary: "List the providers that have lost many people at once within a day, and have not got them back",
    response: z.object({
      data: z.array(
        z.object({
          provider: z.string(),
          suspended: z.number(),
          /** Who had access before. */
          people: z.number(),
          /** The first and the last of them. */
          from_at: z.number(),
          to_at: z.number(),
        }),
      ),
      next: z.null(),
    }),
    async run({ installation: { db, clock } }) {
      const losses = await findDirectoryLosses(db, clock.nowMs(), limits.alerts.directoryLoss);
      return {
        data: losses.map(({ fromMs, toMs, ...loss }) => ({ ...loss, from_at: fromMs, to_at: toMs })),
        next: null,
      };
    },
  }),

  "admin.directory.scim": forAdmins({
    method: "GET",
    path: "/api/admin/directory/scim",
    summary: "Get the state of SCIM: the last push, and the last rejected pushes with the reason",
    response: scimResponse,
    async run({ installation: { db } }) {
      const scim = await readScimProvider(db);
      const rejected = await listRejectedPushes(db, limits.scim.rejectionsMax);
      const summary = scim === null ? null : await readScimSummary(db, scim.provider.issuer);
      return {
        provider: scim?.provider.name ?? null,
        groups_from: scim?.settings.groups ?? null,
        people: summary?.people ?? 0,
        groups: summary?.groups ?? 0,
        last_push_at: summary?.lastSync?.atMs ?? null,
        last_push_by: summary?.lastSync?.serviceAccount ?? null,
        rejected: rejected.map(({ atMs, serviceAccount, request, status, reason }) => ({
          at: atMs,
          service_account: serviceAccount,
          request,
          status,
          reason,
        })),
      };
    },
  }),

  "admin.directory.restore": forAdmins({
    method: "POST",
    path: "/api/admin/directory/restore",
    summary: "Restore the people whom a provider has lost at once. Their keys work again",
    body: z.strictObject({ provider: z.string().max(64) }),
    response: z.object({ people: z.number(), keys: z.number() }),
    async run(context, input) {
      const by = { actor: auditLogActor(input.actor), address: input.clientAddress };
      const restored = await restoreLostPeople(context.installation, input.body.provider, by);
      if (restored.keys > 0) await context.gateway.policy.refresh();
      return restored;
    },
  }),

  "admin.directory.unlink": forAdmins({
    method: "DELETE",
    path: "/api/admin/directory/:id",
    summary:
      "Unlink a user from the person at the provider. What the directory granted ends, with sessions and tokens",
    params: z.strictObject({ id: z.string().max(100) }),
    response: NO_FIELDS,
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
        await recordChange(tx, input, entry);
      });
      await context.gateway.policy.refresh();
      return {};
    },
  }),
};
