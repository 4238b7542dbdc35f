/** The SCIM Groups: list, get, create, replace, patch and delete. */

import { GROUP_SCHEMA } from "../../scim/documents.ts";
import { patchGroup, readGroup } from "../../scim/group.ts";
import { readOperations } from "../../scim/patch.ts";
import { includes, project, type Resource } from "../../scim/projection.ts";
import {
  listScimGroups,
  listScimMembers,
  type ScimGroupFilter,
  type ScimGroupRecord,
} from "../../store/identity/scim-groups.ts";
import { readFilterConditions, readText, unsearchable } from "./filters.ts";
import { changeGroup, createGroup, deleteGroup, fitPage, requireGroup } from "./groups.ts";
import { formatMeta, type Push, type ResourcePage, respondWith, runList, scimRoute } from "./push.ts";
import { readId } from "./user-routes.ts";

export const scimGroupRoutes = {
  "scim.groups.list": scimRoute({
    method: "GET",
    path: "/scim/v2/Groups",
    summary: "SCIM: list groups that the directory has pushed",
    run: runList(listPushedGroups),
  }),

  "scim.groups.get": scimRoute({
    method: "GET",
    path: "/scim/v2/Groups/:id",
    summary: "SCIM: get a group with its members",
    run: (push) => respondWithGroup(push, readId(push)),
  }),

  "scim.groups.create": scimRoute({
    method: "POST",
    path: "/scim/v2/Groups",
    summary: "SCIM: push a group",
    run: async (push) => respondWithGroup(push, await createGroup(push, readGroup(push.input.body)), 201),
  }),

  "scim.groups.replace": scimRoute({
    method: "PUT",
    path: "/scim/v2/Groups/:id",
    summary: "SCIM: replace a group with its members",
    async run(push) {
      const sent = readGroup(push.input.body);
      await changeGroup(push, readId(push), (before) => ({
        ...sent,
        externalId: sent.externalId ?? before.externalId,
      }));
      return respondWithGroup(push, readId(push));
    },
  }),

  "scim.groups.patch": scimRoute({
    method: "PATCH",
    path: "/scim/v2/Groups/:id",
    summary: "SCIM: change the name or the members of a group",
    async run(push) {
      const operations = readOperations(push.input.body);
      await changeGroup(push, readId(push), (before) => patchGroup(before, operations));
      // A group may have thousands of members, which directories do not read here.
      return push.projection.kind === "only"
        ? respondWithGroup(push, readId(push))
        : new Response(null, { status: 204 });
    },
  }),

  "scim.groups.delete": scimRoute({
    method: "DELETE",
    path: "/scim/v2/Groups/:id",
    summary: "SCIM: delete a group. Its members lose what it grants",
    async run(push) {
      await deleteGroup(push, readId(push));
      return new Response(null, { status: 204 });
    },
  }),
};

/** The groups that the query of the request selects. A page with large groups is shorter. */
export async function listPushedGroups(
  push: Push,
  page: { offset: number; limit: number },
): Promise<ResourcePage> {
  const { db } = push.installation;
  const filter = buildGroupFilter(push.query.filter);
  const { total, groups } = await listScimGroups(db, push.scim.provider.issuer, filter, page);
  const fitting = includes(push.projection, "members") ? await fitPage(db, groups) : groups;
  const resources = await Promise.all(fitting.map((group) => toResource(push, group)));
  return { total, resources: resources.map((resource) => project(resource, push.projection)) };
}

async function respondWithGroup(push: Push, id: string, status = 200): Promise<Response> {
  const group = await requireGroup(push.installation.db, push, id);
  const resource = await toResource(push, group);
  return respondWith(push, { resource, location: locate(push, id), version: group.version }, status);
}

function locate({ base }: Push, id: string): string {
  return `${base}/Groups/${id}`;
}

async function toResource(push: Push, group: ScimGroupRecord): Promise<Resource> {
  const { id, externalId, displayName } = group;
  const members = includes(push.projection, "members") ? await listScimMembers(push.installation.db, id) : [];
  return {
    schemas: [GROUP_SCHEMA],
    id,
    ...(externalId === null ? {} : { externalId }),
    displayName,
    ...(members.length === 0
      ? {}
      : { members: members.map((value) => ({ value, $ref: `${push.base}/Users/${value}`, type: "User" })) }),
    meta: formatMeta("Group", locate(push, id), group),
  };
}

function buildGroupFilter(text: unknown): ScimGroupFilter {
  const filter: { -readonly [Name in keyof ScimGroupFilter]: ScimGroupFilter[Name] } = {};
  for (const { attribute, value } of readFilterConditions(text)) {
    if (attribute === "id") filter.id = readText(filter.id, value);
    else if (attribute === "externalid") filter.externalId = readText(filter.externalId, value);
    else if (attribute === "displayname") filter.displayName = readText(filter.displayName, value);
    else if (attribute === "members.value") filter.memberId = readText(filter.memberId, value);
    else throw unsearchable(attribute);
  }
  return filter;
}
