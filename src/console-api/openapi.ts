/** Generates the OpenAPI document of the console API from the route table. */

import { z } from "zod";
import { nextTurn } from "../base/next-turn.ts";
import { ERROR_CODES } from "../errors.ts";
import type { SharedResponse } from "../net/wire/http-message.ts";
import { jsonDocument, type StaticDocument } from "../net/wire/static-document.ts";
import {
  type ApiDescription,
  type ApiOperation,
  type ApiParameter,
  type JsonObject,
  OpenApiDocument,
  schemaRef,
  toJsonSchema,
} from "../openapi.ts";
import { VERSION } from "../version.ts";
import { type Access, type ConsoleRoute, forAnyone } from "./http/route.ts";

/** The route that returns the document. The document includes it. */
export function documentRoutes(others: Readonly<Record<string, ConsoleRoute>>) {
  let document: Promise<StaticDocument> | null = null;
  const documentRoute = {
    "openapi.read": forAnyone({
      method: "GET",
      path: "/api/openapi.json",
      summary: "Get this document",
      response: z.record(z.string(), z.unknown()),
      async run(_context, { headers }): Promise<SharedResponse> {
        document ??= describeApi({ ...others, ...documentRoute }).then(jsonDocument);
        return (await document).respond(headers);
      },
    }),
  } satisfies Record<string, ConsoleRoute>;
  return documentRoute;
}

/** Converting all schemas takes a tenth of a second, so other requests are served in between. */
const ROUTES_AT_ONCE = 4;

async function describeApi(routes: Readonly<Record<string, ConsoleRoute>>): Promise<JsonObject> {
  const document = new OpenApiDocument(DESCRIPTION);
  for (const [index, [name, route]] of Object.entries(routes).entries()) {
    if (index % ROUTES_AT_ONCE === 0) await nextTurn();
    document.add(describeOperation(name, route));
  }
  return document.toJson();
}

const ERROR: JsonObject = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["message", "type", "param", "code", "request_id"],
      properties: {
        message: { type: "string", description: "What happened and what to do." },
        type: { type: "string" },
        param: { type: ["string", "null"], description: "The field that caused the error." },
        code: { type: "string", enum: ERROR_CODES },
        request_id: { type: "string" },
        resets_at: { type: "integer", description: "Unix seconds." },
      },
    },
  },
};

const DESCRIPTION: ApiDescription = {
  info: {
    title: "Model Gateway console API",
    version: VERSION,
    description:
      "The API of the console. Send a personal access token as bearer token. Amounts are USD as decimal strings, and times are Unix milliseconds. Lists return `next`: send it as `after` to get the next page.",
  },
  server: { url: "/" },
  securitySchemes: {
    token: {
      type: "http",
      scheme: "bearer",
      description:
        "A personal access token, gwp_…. Its scope is `read`, `keys` (which includes `read`), `export` (the usage feed only) or `admin` (which includes all); each operation states the scope it requires.",
    },
    service: {
      type: "http",
      scheme: "bearer",
      description:
        "A token of a service account, gws_…. It opens only the operations that name one of the scopes of the account.",
    },
    session: { type: "apiKey", in: "cookie", name: "__Host-session" },
  },
  schemas: { Error: ERROR },
  responses: {
    Error: {
      description: "An error. `code` is stable; the message is for people and may change.",
      headers: { "x-request-id": { schema: { type: "string" } } },
      content: { "application/json": { schema: schemaRef("Error") } },
    },
  },
};

const ACCESS_TEXTS: Readonly<Record<Access, string>> = {
  anyone: "No authentication required.",
  user: "Requires a signed-in user.",
  auditor: "Requires an administrator or an auditor.",
  admin: "Requires an administrator.",
  service: "Requires a service account.",
};

function describeOperation(name: string, route: ConsoleRoute): ApiOperation {
  const body = convertSchema(route.body, "input");
  return {
    method: route.method,
    path: route.path.replace(/:(\w+)\*?/g, "{$1}"),
    id: name,
    tag: name.startsWith("admin.") ? `admin.${name.split(".")[1]}` : (name.split(".")[0] ?? name),
    summary: route.summary.replace(/\.$/, ""),
    description: describeAccess(route),
    parameters: [
      ...describeParameters("path", convertSchema(route.params, "input")),
      ...describeParameters("query", convertSchema(route.query, "input")),
      ...(route.takesIdempotencyKey ? [IDEMPOTENCY_KEY] : []),
    ],
    body: body && { "application/json": { schema: body } },
    responses: {
      "200": {
        description: "Success.",
        content: { [route.media]: { schema: convertSchema(route.response, "output") ?? {} } },
      },
      default: "Error",
    },
    security: describeSecurity(route),
  };
}

function describeAccess({ access, tokenScope, serviceScope, adminFields }: ConsoleRoute): string {
  return [
    ACCESS_TEXTS[access],
    tokenScope === "none"
      ? "Not available to personal access tokens."
      : `A personal access token requires the scope \`${tokenScope}\`.`,
    ...(serviceScope === "none" ? [] : [`A service account requires \`${serviceScope}\`.`]),
    ...(adminFields.length === 0 ? [] : [`Only administrators may send: ${adminFields.join(", ")}.`]),
  ].join(" ");
}

const IDEMPOTENCY_KEY: ApiParameter = {
  name: "Idempotency-Key",
  in: "header",
  description:
    "Makes retries safe: a repeated request with the same key returns the first result; a different request with the same key is rejected (409). Same as `idempotency_key` in the body; if both are sent, they must be equal.",
  schema: { type: "string", pattern: "^[\\x21-\\x7e]{1,255}$" },
};

/** For a bearer token, OpenAPI 3.1 allows the list to name the required scope. */
function describeSecurity({ access, tokenScope, serviceScope }: ConsoleRoute): JsonObject[] {
  return [
    ...(access === "anyone" ? [{}] : []),
    ...(tokenScope === "none" ? [] : [{ token: [tokenScope] }]),
    ...(serviceScope === "none" ? [] : [{ service: [serviceScope] }]),
    ...(access === "service" ? [] : [{ session: [] }]),
  ];
}

/** Returns null if there is no input. Rules that JSON Schema cannot express are left to the error message. */
function convertSchema(schema: z.ZodType, io: "input" | "output"): JsonObject | null {
  return schema instanceof z.ZodUndefined ? null : toJsonSchema(schema, { io, unrepresentable: "any" });
}

function describeParameters(location: "path" | "query", schema: JsonObject | null): ApiParameter[] {
  const properties = schema?.properties;
  const required = schema?.required;
  if (typeof properties !== "object" || properties === null) return [];
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: location,
    required: Array.isArray(required) && required.includes(name),
    schema: property,
  }));
}
