/** What the service provider supports: its configuration, resource types and schemas (RFC 7643, sections 5 to 7). */

import { limits } from "../config/limits/product-limits.ts";

export const USER_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:User";
export const GROUP_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Group";
const CONFIG_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig";
const TYPE_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:ResourceType";
const SCHEMA_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Schema";

type Document = { readonly id: string; readonly [name: string]: unknown };

/** `base` is the address of SCIM without a trailing slash. */
export function describeProvider(base: string) {
  return {
    schemas: [CONFIG_SCHEMA],
    patch: { supported: true },
    bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
    filter: { supported: true, maxResults: limits.scim.pageMax },
    changePassword: { supported: false },
    sort: { supported: false },
    etag: { supported: true },
    authenticationSchemes: [
      {
        type: "oauthbearertoken",
        name: "Bearer token",
        description: "A token of a service account with the scope scim",
      },
    ],
    meta: { resourceType: "ServiceProviderConfig", location: `${base}/ServiceProviderConfig` },
  };
}

export function listResourceTypes(base: string): readonly Document[] {
  return [
    { id: "User", name: "User", endpoint: "/Users", schema: USER_SCHEMA },
    { id: "Group", name: "Group", endpoint: "/Groups", schema: GROUP_SCHEMA },
  ].map((type) => ({
    schemas: [TYPE_SCHEMA],
    ...type,
    meta: { resourceType: "ResourceType", location: `${base}/ResourceTypes/${type.id}` },
  }));
}

export function listSchemas(base: string): readonly Document[] {
  return [
    { id: USER_SCHEMA, name: "User", attributes: USER_ATTRIBUTES },
    { id: GROUP_SCHEMA, name: "Group", attributes: GROUP_ATTRIBUTES },
  ].map((schema) => ({
    schemas: [SCHEMA_SCHEMA],
    ...schema,
    meta: { resourceType: "Schema", location: `${base}/Schemas/${schema.id}` },
  }));
}

interface AttributeTraits {
  readonly type?: "string" | "boolean" | "complex" | "reference";
  readonly multiValued?: boolean;
  readonly required?: boolean;
  readonly mutability?: "readWrite" | "readOnly" | "immutable";
  readonly uniqueness?: "none" | "server";
  readonly referenceTypes?: readonly string[];
  readonly canonicalValues?: readonly string[];
  readonly subAttributes?: readonly object[];
}

function attribute(name: string, description: string, traits: AttributeTraits = {}) {
  return {
    name,
    type: "string",
    multiValued: false,
    description,
    required: false,
    caseExact: false,
    mutability: "readWrite",
    returned: "default",
    uniqueness: "none",
    ...traits,
  };
}

const USER_ATTRIBUTES = [
  attribute("userName", "The name with which the person signs in at the provider", {
    required: true,
    uniqueness: "server",
  }),
  attribute("name", "The parts of the name", {
    type: "complex",
    subAttributes: [
      attribute("formatted", "The whole name"),
      attribute("familyName", "The family name"),
      attribute("givenName", "The given name"),
    ],
  }),
  attribute("displayName", "The name that is shown"),
  // Always present: it cannot be removed. A new person without it is active.
  attribute("active", "Whether the person has access", { type: "boolean", required: true }),
  attribute("emails", "Addresses. The primary one is the address of the user", {
    type: "complex",
    multiValued: true,
    required: true,
    subAttributes: [
      attribute("value", "The address", { required: true }),
      attribute("type", "The kind of the address", { canonicalValues: ["work", "home", "other"] }),
      attribute("primary", "Whether this is the primary address", { type: "boolean" }),
    ],
  }),
  attribute("groups", "The pushed groups of the person", {
    type: "complex",
    multiValued: true,
    mutability: "readOnly",
    subAttributes: [
      attribute("value", "The id of the group", { mutability: "readOnly" }),
      attribute("$ref", "The address of the group", {
        type: "reference",
        referenceTypes: ["Group"],
        mutability: "readOnly",
      }),
      attribute("display", "The name of the group", { mutability: "readOnly" }),
    ],
  }),
];

const GROUP_ATTRIBUTES = [
  attribute("displayName", "The name, to which gateway.yaml maps roles and groups", {
    required: true,
    uniqueness: "server",
  }),
  attribute("members", "The people of the group", {
    type: "complex",
    multiValued: true,
    subAttributes: [
      attribute("value", "The id of the person", { mutability: "immutable" }),
      attribute("$ref", "The address of the person", {
        type: "reference",
        referenceTypes: ["User"],
        mutability: "immutable",
      }),
      attribute("type", "The kind of the member", { mutability: "immutable", canonicalValues: ["User"] }),
    ],
  }),
];
