/** Routes for groups. */

import { z } from "zod";
import { DAY_MS } from "../../base/time.ts";
import { previewDocument } from "../../config/plan/apply.ts";
import { groupToFile, nameRecords, userToFile } from "../../config/state/to-file-shape.ts";
import { ApiError } from "../../errors.ts";
import { usdText } from "../../money/nano.ts";
import { type CheckedPublication, isHidden, openPublicationChecks } from "../../policy/publication.ts";
import { CHARGES, GROUP_ACCESS, type GroupRecord } from "../../records/group.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import type { PolicyRecords } from "../../records/policy.ts";
import { findUserByEmail, foldEmail } from "../../store/identity/users.ts";
import {
  type GroupFacts,
  listMembers,
  NO_GROUP_FACTS,
  readGroupFacts,
} from "../../store/policy/group-usage.ts";
import { readPolicy } from "../../store/policy/policy.ts";
import { type ConsoleAuthor, changePolicy, problemObjects, problemsResponse } from "../changes/change.ts";
import type { PolicyContext, StoreContext } from "../context.ts";
import { computeVersion, groupForm } from "../forms/policy-forms.ts";
import { fieldError } from "../http/field-error.ts";
import { namedPage } from "../http/named-page.ts";
import { buildPage, cursorText, pageQuery, readCursor, searchQuery } from "../http/page.ts";
import { forAdmins } from "../http/route.ts";
import { buildPreview, modelPreviewResponse } from "./group-preview.ts";

const groupFacts = {
  /** Active keys. They stop working if the group is deleted. */
  keys: z.number(),
  members: z.number(),
  requests_last_day: z.number(),
  failed_last_day: z.number(),
  /** USD. */
  charged_last_day: z.string(),
};

function factsObject({ keys, members, requests, failed, chargedNano }: GroupFacts) {
  return {
    keys,
    members,
    requests_last_day: requests,
    failed_last_day: failed,
    charged_last_day: usdText(chargedNano),
  };
}

const groupListResponse = z.object({
  name: z.string(),
  access: z.enum(GROUP_ACCESS),
  interfaces: z.array(z.enum(INTERFACES)),
  models: z.number(),
  /** Models of the group that no key can see, because they have no account or no price. */
  hidden_models: z.number(),
  accounts: z.number(),
  enabled_accounts: z.number(),
  charge: z.enum(CHARGES),
  multiplier: z.string(),
  created_at: z.number(),
  ...groupFacts,
});

const groupDetailResponse = z.object({
  document: groupForm,
  /** Version of the document, to be sent back when it is saved. */
  version: z.string(),
  created_at: z.number(),
  ...groupFacts,
});

const byName = { params: z.strictObject({ name: z.string() }) };

export const adminGroupRoutes = {
  "admin.groups.list": forAdmins({
    method: "GET",
    path: "/api/admin/groups",
    summary: "List groups, with their models, accounts, keys and members",
    query: z.strictObject({ ...pageQuery, ...searchQuery }),
    response: buildPage(groupListResponse),
    async run({ installation: { db, clock } }, { query }) {
      const records = await readPolicy(db);
      const { page, next } = namedPage(records.groups, ({ name }) => name, query);
      const since = clock.nowMs() - DAY_MS;
      const known = await readGroupFacts(
        db,
        page.map(({ id }) => id),
        since,
      );
      const enabled = new Set(records.accounts.filter(({ enabled }) => enabled).map(({ id }) => id));
      const lookUpChecks = openPublicationChecks(records);
      return {
        data: page.map((group) => listedObject(group, lookUpChecks(group), enabled, known.get(group.id))),
        next,
      };
    },
  }),
  "admin.groups.get": forAdmins({
    ...byName,
    method: "GET",
    path: "/api/admin/groups/:name",
    summary: "Get a group, in the format of gateway.yaml",
    response: groupDetailResponse,
    run: async (context, { params }) => readGroupDetail(context, params.name),
  }),
  "admin.groups.create": forAdmins({
    method: "POST",
    path: "/api/admin/groups",
    summary: "Create a group",
    body: groupForm,
    response: groupDetailResponse,
    async run(context, input) {
      await changePolicy(context, input, async (context) => {
        const { groups } = await readPolicy(context.installation.db);
        if (groups.some(({ name }) => name === input.body.name)) {
          throw fieldError("name", "conflict", "another group already has this name. Choose another name.");
        }
        return { groups: [input.body] };
      });
      return readGroupDetail(context, input.body.name);
    },
  }),
  "admin.groups.save": forAdmins({
    ...byName,
    method: "PUT",
    path: "/api/admin/groups/:name",
    summary: "Replace the configuration of a group; omitted fields are reset to their defaults",
    body: z.strictObject({
      document: groupForm,
      /** If omitted, the current document is replaced regardless of its version. */
      version: z.string().optional(),
    }),
    response: groupDetailResponse,
    async run(context, input) {
      const { name } = input.params;
      const { document, version } = input.body;
      await changePolicy(context, input, async (context) => {
        const before = await findGroup(context, name);
        if (document.name !== name) {
          throw fieldError(
            "name",
            "invalid_value",
            "the name of a group cannot be changed. Create another group, and create new keys in it.",
          );
        }
        if (version !== undefined && version !== computeVersion(toDocument(before))) {
          throw new ApiError(
            "conflict",
            "This group was changed by another user after you opened it. Reload it and repeat your change.",
          );
        }
        return { groups: [document] };
      });
      return readGroupDetail(context, name);
    },
  }),
  "admin.groups.delete": forAdmins({
    ...byName,
    method: "DELETE",
    path: "/api/admin/groups/:name",
    summary: "Delete a group and revoke its keys",
    response: z.object({ revoked_keys: z.number() }),
    async run(context, input) {
      const { group } = await findGroup(context, input.params.name);
      const { changes } = await changePolicy(context, input, {}, { groups: [group.name] });
      return { revoked_keys: changes.filter(({ what }) => what.startsWith("key ")).length };
    },
  }),
  "admin.groups.preview": forAdmins({
    method: "POST",
    path: "/api/admin/group-preview",
    summary: "Preview the models of a group, saved or not",
    body: groupForm,
    response: z.object({
      /** Null if the document is invalid. */
      models: z.array(modelPreviewResponse).nullable(),
      problems: problemsResponse,
    }),
    async run({ installation }, { body }) {
      const { after, problems } = await previewDocument(installation, { groups: [body] });
      const group = after?.groups.find(({ name }) => name === body.name);
      return {
        models: after === null || group === undefined ? null : buildPreview(group, after),
        problems: problemObjects(problems, "groups[0]"),
      };
    },
  }),
  "admin.groups.members": forAdmins({
    ...byName,
    method: "GET",
    path: "/api/admin/groups/:name/members",
    summary: "List the members of a group with restricted access",
    query: z.strictObject({ ...pageQuery, ...searchQuery }),
    response: buildPage(z.object({ user_id: z.string(), email: z.string() })),
    async run(context, { params, query: { after, limit, search } }) {
      const { group } = await findGroup(context, params.name);
      const cursor = readCursor(after, z.tuple([z.string()]));
      const found = await listMembers(context.installation.db, group.id, {
        after: cursor?.[0] ?? null,
        search: search ?? null,
        limit: limit + 1,
      });
      const page = found.slice(0, limit);
      const last = page.at(-1);
      return {
        data: page.map(({ userId, email }) => ({ user_id: userId, email })),
        next: found.length > limit && last !== undefined ? cursorText([foldEmail(last.email)]) : null,
      };
    },
  }),
  "admin.groups.add_member": forAdmins({
    ...byName,
    method: "POST",
    path: "/api/admin/groups/:name/members",
    summary: "Add a member to a group",
    body: z.strictObject({ email: z.string() }),
    response: z.object({ email: z.string() }),
    run: (context, input) =>
      changeMember(context, input, input.params.name, input.body.email, (groups, name) => [
        ...groups.filter((one) => one !== name),
        name,
      ]),
  }),
  "admin.groups.remove_member": forAdmins({
    method: "DELETE",
    path: "/api/admin/groups/:name/members/:email",
    summary: "Remove a member from a group; the member's keys stay valid",
    params: z.strictObject({ name: z.string(), email: z.string() }),
    response: z.object({ email: z.string() }),
    run: (context, input) =>
      changeMember(context, input, input.params.name, input.params.email, (groups, name) =>
        groups.filter((one) => one !== name),
      ),
  }),
};

function listedObject(
  group: GroupRecord,
  checks: readonly CheckedPublication[],
  enabled: ReadonlySet<string>,
  known: GroupFacts = NO_GROUP_FACTS,
): z.input<typeof groupListResponse> {
  const hidden = checks.filter(({ shortcomings }) => shortcomings.some(isHidden));
  return {
    name: group.name,
    access: group.access,
    interfaces: group.interfaces,
    models: group.models.length,
    hidden_models: hidden.length,
    accounts: group.accounts.length,
    enabled_accounts: group.accounts.filter((id) => enabled.has(id)).length,
    charge: group.billing.charge,
    multiplier: group.billing.multiplier,
    created_at: group.createdAtMs,
    ...factsObject(known),
  };
}

interface GroupLookup {
  group: GroupRecord;
  records: PolicyRecords;
}

async function findGroup({ installation }: StoreContext, name: string): Promise<GroupLookup> {
  const records = await readPolicy(installation.db);
  const group = records.groups.find((one) => one.name === name);
  if (group !== undefined) return { group, records };
  throw new ApiError("not_found", "This group does not exist. GET /api/admin/groups lists the groups.");
}

function toDocument({ group, records }: GroupLookup) {
  return groupToFile(group, nameRecords(records));
}

async function readGroupDetail(
  context: StoreContext,
  name: string,
): Promise<z.input<typeof groupDetailResponse>> {
  const { db, clock } = context.installation;
  const found = await findGroup(context, name);
  const { id, createdAtMs } = found.group;
  const known = await readGroupFacts(db, [id], clock.nowMs() - DAY_MS);
  const document = toDocument(found);
  return {
    document,
    version: computeVersion(document),
    created_at: createdAtMs,
    ...factsObject(known.get(id) ?? NO_GROUP_FACTS),
  };
}

async function changeMember(
  context: PolicyContext,
  author: ConsoleAuthor,
  groupName: string,
  email: string,
  change: (groups: string[], name: string) => string[],
): Promise<{ email: string }> {
  let found = email;
  await changePolicy(context, author, async (context) => {
    const { group, records } = await findGroup(context, groupName);
    const user = await findUserByEmail(context.installation.db, email);
    if (user === null) throw fieldError("email", "not_found", "no user has this address.");
    found = user.email;
    const names = new Map(records.groups.map(({ id, name }) => [id, name]));
    const written = userToFile(user, names, undefined);
    return { users: [{ ...written, groups: change(written.groups ?? [], group.name) }] };
  });
  return { email: found };
}
