/** The SCIM Users: list, get, create, replace, patch and remove. */

import { USER_SCHEMA } from "../../scim/documents.ts";
import type { FilterCondition } from "../../scim/filter.ts";
import { readOperations } from "../../scim/patch.ts";
import { includes, project, type Resource } from "../../scim/projection.ts";
import { isEqual, patchUser, readUser } from "../../scim/user.ts";
import { readScimMemberships } from "../../store/identity/scim-groups.ts";
import { listScimUsers, type ScimUserFilter, type ScimUserRecord } from "../../store/identity/scim-users.ts";
import { readFilterConditions, readText, unsearchable } from "./filters.ts";
import { changePerson, createPerson, removePerson, requirePerson } from "./people.ts";
import { formatMeta, type Push, type ResourcePage, respondWith, runList, scimRoute } from "./push.ts";

export const scimUserRoutes = {
  "scim.users.list": scimRoute({
    method: "GET",
    path: "/scim/v2/Users",
    summary: "SCIM: list people whom the directory has pushed",
    run: runList(listPeople),
  }),

  "scim.users.get": scimRoute({
    method: "GET",
    path: "/scim/v2/Users/:id",
    summary: "SCIM: get a person",
    run: (push) => respondWithPerson(push, readId(push)),
  }),

  "scim.users.create": scimRoute({
    method: "POST",
    path: "/scim/v2/Users",
    summary: "SCIM: push a person. One that was removed returns with the same id",
    async run(push) {
      const id = await createPerson(push, readUser(push.input.body));
      await push.refresh();
      return respondWithPerson(push, id, 201);
    },
  }),

  "scim.users.replace": scimRoute({
    method: "PUT",
    path: "/scim/v2/Users/:id",
    summary: "SCIM: replace a person. Without externalId or active, the current value stays",
    async run(push) {
      const sent = readUser(push.input.body);
      await changePerson(push, readId(push), (before) => ({
        ...sent,
        externalId: sent.externalId ?? before.externalId,
      }));
      await push.refresh();
      return respondWithPerson(push, readId(push));
    },
  }),

  "scim.users.patch": scimRoute({
    method: "PATCH",
    path: "/scim/v2/Users/:id",
    summary: "SCIM: change attributes of a person",
    async run(push) {
      const operations = readOperations(push.input.body);
      await changePerson(push, readId(push), (before) => patchUser(before, operations));
      await push.refresh();
      return respondWithPerson(push, readId(push));
    },
  }),

  "scim.users.delete": scimRoute({
    method: "DELETE",
    path: "/scim/v2/Users/:id",
    summary: "SCIM: remove a person. Sessions, tokens and keys end; wallet and usage stay",
    async run(push) {
      await removePerson(push, readId(push));
      await push.refresh();
      return new Response(null, { status: 204 });
    },
  }),
};

/** The people whom the query of the request selects. */
export async function listPeople(push: Push, page: { offset: number; limit: number }): Promise<ResourcePage> {
  const conditions = readFilterConditions(push.query.filter);
  const { db } = push.installation;
  const { issuer } = push.scim.provider;
  const { total, users } = await listScimUsers(db, issuer, buildUserFilter(conditions), page);
  const found = users.filter((user) => matchesEmails(user, conditions));
  const resources = await toResources(push, found);
  return {
    total: total - (users.length - found.length),
    resources: resources.map((resource) => project(resource, push.projection)),
  };
}

export function readId({ input }: Push): string {
  return input.params.id ?? "";
}

async function respondWithPerson(push: Push, id: string, status = 200): Promise<Response> {
  const person = await requirePerson(push.installation.db, push, id);
  const [resource = {}] = await toResources(push, [person]);
  return respondWith(push, { resource, location: locate(push, id), version: person.version }, status);
}

function locate({ base }: Push, id: string): string {
  return `${base}/Users/${id}`;
}

async function toResources(push: Push, people: readonly ScimUserRecord[]): Promise<Resource[]> {
  const ids = people.map(({ userId }) => userId);
  const hasGroups = includes(push.projection, "groups");
  const memberships = hasGroups ? await readScimMemberships(push.installation.db, ids) : new Map();
  return people.map((person) => {
    const groups: readonly { id: string; displayName: string }[] = memberships.get(person.userId) ?? [];
    return toResource(push, person, groups);
  });
}

/** Attributes without a value are left out. */
function toResource(
  push: Push,
  person: ScimUserRecord,
  groups: readonly { id: string; displayName: string }[],
): Resource {
  const { userId, externalId, userName, profile, isActive } = person;
  const name = withoutNulls(profile.name);
  return {
    schemas: [USER_SCHEMA],
    id: userId,
    ...withoutNulls({ externalId }),
    userName,
    ...(Object.keys(name).length === 0 ? {} : { name }),
    ...withoutNulls({ displayName: profile.displayName }),
    active: isActive,
    ...(profile.emails.length === 0 ? {} : { emails: profile.emails.map(withoutNulls) }),
    ...(groups.length === 0
      ? {}
      : {
          groups: groups.map(({ id, displayName }) => ({
            value: id,
            $ref: `${push.base}/Groups/${id}`,
            display: displayName,
          })),
        }),
    meta: formatMeta("User", locate(push, userId), person),
  };
}

function withoutNulls(members: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null));
}

function buildUserFilter(conditions: readonly FilterCondition[]): ScimUserFilter {
  const filter: { -readonly [Name in keyof ScimUserFilter]: ScimUserFilter[Name] } = {};
  for (const { attribute, value } of conditions) {
    if (attribute === "id") filter.id = readText(filter.id, value);
    else if (attribute === "externalid") filter.externalId = readText(filter.externalId, value);
    else if (attribute === "username") filter.userName = readText(filter.userName, value);
    else if (attribute === "displayname") filter.displayName = readText(filter.displayName, value);
    else if (attribute === "emails.value") filter.email = readText(filter.email, value);
    else if (attribute === "groups.value") filter.groupId = readText(filter.groupId, value);
    else if (attribute === "active") filter.isActive = String(value).toLowerCase() === "true";
    else if (!isEmailPart(attribute) || !conditions.some((one) => one.attribute === "emails.value"))
      throw unsearchable(attribute);
  }
  return filter;
}

function isEmailPart(attribute: string): boolean {
  return attribute === "emails.type" || attribute === "emails.primary";
}

/** `emails[type eq "work"].value eq "…"`: the address was found, its type is compared here. */
function matchesEmails({ profile }: ScimUserRecord, conditions: readonly FilterCondition[]): boolean {
  const parts = conditions.filter(({ attribute }) => isEmailPart(attribute));
  if (parts.length === 0) return true;
  const wanted = conditions.filter(({ attribute }) => attribute.startsWith("emails."));
  return profile.emails.some((email) =>
    wanted.every(({ attribute, value }) =>
      isEqual((email as Record<string, unknown>)[attribute.slice("emails.".length)], value),
    ),
  );
}
