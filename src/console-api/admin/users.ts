/** Routes with which administrators manage users. */

import { z } from "zod";
import { DAY_MS } from "../../base/time.ts";
import { userToFile } from "../../config/state/to-file-shape.ts";
import { ApiError, paramError } from "../../errors.ts";
import { usdText } from "../../money/nano.ts";
import { type DirectoryGrants, ROLES, USER_STATUSES, type UserRecord } from "../../records/user.ts";
import { type ListedUser, listUserPage } from "../../store/identity/user-list.ts";
import { findUser, findUserByEmail, foldEmail } from "../../store/identity/users.ts";
import { computeDebt } from "../../store/money/wallets.ts";
import { listGroups } from "../../store/policy/groups.ts";
import { startOfDay } from "../../store/usage/usage-day.ts";
import { changePolicy } from "../changes/change.ts";
import type { StoreContext } from "../context.ts";
import { emailField } from "../forms/fields.ts";
import { limitsInput, limitsObject, limitsShape } from "../forms/limits-form.ts";
import { fieldError } from "../http/field-error.ts";
import { buildPage, cursorText, groupQuery, pageQuery, readCursor, searchQuery } from "../http/page.ts";
import { type Actor, forAdmins, forAuditors } from "../http/route.ts";

const SPEND_DAYS = 30;

const userListResponse = z.object({
  id: z.string(),
  email: z.string(),
  role: z.enum(ROLES),
  status: z.enum(USER_STATUSES),
  created_at: z.number(),
  signed_in_at: z.number().nullable(),
  has_password: z.boolean(),
  has_second_factor: z.boolean(),
  /** USD. */
  balance: z.string(),
  held: z.string(),
  /** Request costs above the holds that the balance could not cover. */
  debt: z.string(),
  /** Active keys. */
  keys: z.number(),
  /** The last 30 days including today: requests, their cost at list price, and the part that was paid. */
  requests_30d: z.number(),
  cost_30d: z.string(),
  charged_30d: z.string(),
});

const userDetailResponse = z.object({
  ...userListResponse.shape,
  /** Limits of all keys of the user together. */
  limits: limitsShape,
  /** Names of the groups that the file or the console made the user a member of. */
  groups: z.array(z.string()),
  /** The role that the file or the console gave. `role` is the higher one of it and that of the directory. */
  local_role: z.enum(ROLES),
  /** What the directory grants: by claims of the last sign-in, or pushed by SCIM. Null for other users. */
  directory: z
    .object({
      provider: z.string(),
      role: z.enum(ROLES).nullable(),
      groups: z.array(z.string()),
      /** Whether the directory has deactivated the person by SCIM; `status` is `disabled` then. */
      deactivated: z.boolean(),
    })
    .nullable(),
});

const byId = { params: z.strictObject({ id: z.string().max(100) }) };

export const adminUserRoutes = {
  "admin.users.list": forAuditors({
    method: "GET",
    path: "/api/admin/users",
    summary: "List users by address, with balance, keys and usage of the last 30 days",
    query: z.strictObject({
      ...pageQuery,
      ...searchQuery,
      /** Members of this group only. */
      ...groupQuery,
      role: z.enum(ROLES).optional(),
      status: z.enum(USER_STATUSES).optional(),
    }),
    response: buildPage(userListResponse),
    async run({ installation }, { query: { after, limit, search, group, role, status } }) {
      const { db, clock } = installation;
      const cursor = readCursor(after, z.tuple([z.string()]));
      const filter = {
        ...(search && { search }),
        ...(group && { group }),
        ...(role && { role }),
        ...(status && { status }),
      };
      const page = { after: cursor?.[0] ?? null, limit, usedSinceMs: spendStartMs(clock.nowMs()) };
      const { users, next } = await listUserPage(db, filter, page);
      return { data: users.map(listedObject), next: next === null ? null : cursorText([next]) };
    },
  }),

  "admin.users.get": forAuditors({
    ...byId,
    method: "GET",
    path: "/api/admin/users/:id",
    summary: "Get a user, with limits and groups",
    response: userDetailResponse,
    run: (context, { params }) => readUserDetail(context, params.id),
  }),

  "admin.users.create": forAdmins({
    method: "POST",
    path: "/api/admin/users",
    summary: "Create a user without a password; create a password link with POST /api/admin/links",
    body: z.strictObject({
      email: emailField,
      role: z.enum(ROLES).default("user"),
      groups: z.array(z.string()).max(1_000).default([]),
      limits: limitsInput.optional(),
    }),
    response: userDetailResponse,
    async run(context, input) {
      const { email, role, groups, limits } = input.body;
      rejectTokens(input.actor, role);
      await changePolicy(context, input, async (context) => {
        if ((await findUserByEmail(context.installation.db, email)) !== null)
          throw fieldError("email", "conflict", "another user already has this address.");
        return { users: [{ email, role, groups, ...(limits === undefined ? {} : { limits }) }] };
      });
      const created = await findUserByEmail(context.installation.db, email);
      return readUserDetail(context, created?.id ?? "");
    },
  }),

  "admin.users.change": forAdmins({
    ...byId,
    method: "PATCH",
    path: "/api/admin/users/:id",
    summary: "Update a user's role, status, groups or limits; omitted fields are unchanged",
    body: z.strictObject({
      role: z.enum(ROLES).optional(),
      /** A disabled user cannot sign in, and the keys of the user are rejected. */
      status: z.enum(USER_STATUSES).optional(),
      groups: z.array(z.string()).max(1_000).optional(),
      limits: limitsInput.optional(),
    }),
    response: userDetailResponse,
    async run(context, input) {
      const { id } = input.params;
      rejectTokens(input.actor, input.body.role);
      await changePolicy(context, input, async (context) => {
        const user = await requireUser(context, id);
        const { role = user.role, status = user.status, groups, limits } = input.body;
        if (role !== "admin" || status !== "active") rejectOwnAccount(input.actor, user);
        if (input.body.status === "active") rejectDeactivated(user);
        const names = new Map((await listGroups(context.installation.db)).map((one) => [one.id, one.name]));
        const written = userToFile(user, names, undefined);
        return {
          users: [
            {
              ...written,
              role,
              status,
              groups: groups ?? written.groups ?? [],
              limits: limits ?? written.limits ?? {},
            },
          ],
        };
      });
      return readUserDetail(context, id);
    },
  }),

  "admin.users.delete": forAdmins({
    ...byId,
    method: "DELETE",
    path: "/api/admin/users/:id",
    summary: "Delete a user whose wallet is empty, and revoke the user's keys",
    response: z.object({ revoked_keys: z.number() }),
    async run(context, input) {
      const user = await requireUser(context, input.params.id);
      rejectOwnAccount(input.actor, user);
      const { changes } = await changePolicy(context, input, {}, { users: [user.email] });
      return { revoked_keys: changes.filter(({ what }) => what.startsWith("key ")).length };
    },
  }),
};

export async function requireUser({ installation }: StoreContext, id: string): Promise<UserRecord> {
  const user = await findUser(installation.db, id);
  if (user !== null) return user;
  throw new ApiError("not_found", "This user does not exist. GET /api/admin/users lists the users.");
}

/**
 * Prevents privilege escalation: a token that creates an administrator could sign in as one and do what tokens
 * must not do. An auditor would still read everything after the token is revoked.
 */
function rejectTokens({ via }: Actor, role: UserRecord["role"] | undefined): void {
  if (role === undefined || role === "user" || via.kind !== "token") return;
  throw paramError(
    "role",
    "forbidden",
    "A personal access token cannot make a user an administrator or an auditor. Sign in to the console.",
  );
}

/** Prevents administrators from locking themselves out, because no other administrator may be left to undo it. */
function rejectOwnAccount(actor: Actor, user: UserRecord): void {
  if (actor.userId !== user.id || user.role !== "admin") return;
  throw new ApiError(
    "conflict",
    "You cannot remove your own rights or delete yourself. Ask another administrator.",
  );
}

function rejectDeactivated({ directory }: UserRecord): void {
  if (directory?.isDeactivated !== true) return;
  throw paramError(
    "status",
    "conflict",
    "The directory has deactivated this person. Activate the person at the provider, or unlink the user.",
  );
}

function spendStartMs(nowMs: number): number {
  return startOfDay(nowMs) - (SPEND_DAYS - 1) * DAY_MS;
}

function listedObject(user: ListedUser): z.input<typeof userListResponse> {
  return {
    id: user.id,
    email: user.email,
    role: user.role,
    status: user.status,
    created_at: user.createdAtMs,
    signed_in_at: user.signedInAtMs,
    has_password: user.hasPassword,
    has_second_factor: user.hasSecondFactor,
    balance: usdText(user.balanceNano),
    held: usdText(user.heldNano),
    debt: usdText(computeDebt(user)),
    keys: user.keys,
    requests_30d: user.requests,
    cost_30d: usdText(user.costNano),
    charged_30d: usdText(user.chargedNano),
  };
}

async function readUserDetail(
  context: StoreContext,
  id: string,
): Promise<z.input<typeof userDetailResponse>> {
  const { db, clock } = context.installation;
  const user = await requireUser(context, id);
  const page = { after: null, limit: 1, usedSinceMs: spendStartMs(clock.nowMs()) };
  const {
    users: [listed],
  } = await listUserPage(db, { id: user.id }, page);
  if (listed === undefined)
    throw new ApiError("not_found", `The user ${foldEmail(user.email)} does not exist.`);
  const names = new Map((await listGroups(db)).map((group) => [group.id, group.name]));
  const nameGroups = (ids: readonly string[]) => ids.map((groupId) => names.get(groupId) ?? groupId);
  return {
    ...listedObject(listed),
    limits: limitsObject(user.limits),
    groups: nameGroups(user.groups),
    local_role: user.role,
    directory: user.directory === undefined ? null : directoryObject(user.directory, nameGroups),
  };
}

function directoryObject(
  { provider, role, groups, isDeactivated }: DirectoryGrants,
  nameGroups: (ids: readonly string[]) => string[],
) {
  return { provider, role, groups: nameGroups(groups), deactivated: isDeactivated };
}
