/** Searches whose parameters are in the body (RFC 7644, section 3.4.3). */

import { listPushedGroups } from "./group-routes.ts";
import { type ListResources, listResponse, readPaging, runList, scimRoute } from "./push.ts";
import { listPeople } from "./user-routes.ts";

export const scimSearchRoutes = {
  "scim.search": scimRoute({
    method: "POST",
    path: "/scim/v2/.search",
    summary: "SCIM: search people and groups",
    async run(push) {
      const { startIndex, count } = readPaging(push.query);
      const offset = startIndex - 1;
      const people = await listPeople(push, { offset, limit: count });
      const rest = { offset: Math.max(0, offset - people.total), limit: count - people.resources.length };
      const groups = await listPushedGroups(push, rest);
      const total = people.total + groups.total;
      return listResponse([...people.resources, ...groups.resources], { total, startIndex });
    },
  }),
  "scim.users.search": searchRoute("Users", listPeople),
  "scim.groups.search": searchRoute("Groups", listPushedGroups),
};

function searchRoute(name: "Users" | "Groups", list: ListResources) {
  return scimRoute({
    method: "POST",
    path: `/scim/v2/${name}/.search`,
    summary: `SCIM: search ${name} with parameters in the body`,
    run: runList(list),
  });
}
