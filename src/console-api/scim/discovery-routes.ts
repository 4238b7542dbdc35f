/** Routes that describe what SCIM supports here. */

import { ApiError } from "../../errors.ts";
import { describeProvider, listResourceTypes, listSchemas } from "../../scim/documents.ts";
import { listResponse, type Push, scimJson, scimRoute } from "./push.ts";

export const scimDiscoveryRoutes = {
  "scim.config": scimRoute({
    method: "GET",
    path: "/scim/v2/ServiceProviderConfig",
    summary: "SCIM: get the supported features",
    run: async ({ base }) => scimJson(describeProvider(base)),
  }),
  "scim.resource_types": scimRoute({
    method: "GET",
    path: "/scim/v2/ResourceTypes",
    summary: "SCIM: list the kinds of resources",
    run: async (push) => listAll(push, listResourceTypes(push.base)),
  }),
  "scim.resource_type": scimRoute({
    method: "GET",
    path: "/scim/v2/ResourceTypes/:id",
    summary: "SCIM: get a kind of resources",
    run: async (push) => getOne(push, listResourceTypes(push.base)),
  }),
  "scim.schemas": scimRoute({
    method: "GET",
    path: "/scim/v2/Schemas",
    summary: "SCIM: list the schemas",
    run: async (push) => listAll(push, listSchemas(push.base)),
  }),
  "scim.schema": scimRoute({
    method: "GET",
    path: "/scim/v2/Schemas/:id",
    summary: "SCIM: get a schema",
    run: async (push) => getOne(push, listSchemas(push.base)),
  }),
};

type Documents = readonly { readonly id: string }[];

/** RFC 7644, section 4: a filter on these is forbidden, so that a client does not take the list for its result. */
function listAll({ input }: Push, documents: Documents): Response {
  if (input.query.filter !== undefined)
    throw new ApiError("forbidden", "filter: is not allowed here. Remove it.");
  return listResponse([...documents], { total: documents.length, startIndex: 1 });
}

function getOne({ input }: Push, documents: Documents): Response {
  const found = documents.find(({ id }) => id.toLowerCase() === input.params.id?.toLowerCase());
  if (found === undefined) throw new ApiError("not_found", "This document does not exist.");
  return scimJson(found);
}
