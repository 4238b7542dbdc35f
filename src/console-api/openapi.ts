/** Generates the OpenAPI 3.1 document of the console API from the route table. */

import { z } from "zod";
import { ERROR_CODES } from "../errors.ts";
import type { SharedResponse } from "../net/wire/http-message.ts";
import { jsonDocument, type StaticDocument } from "../net/wire/static-document.ts";
import { VERSION } from "../version.ts";
import { type Access, type ConsoleRoute, forAnyone, TAKES_NOTHING } from "./http/route.ts";

type Json = Readonly<Record<string, unknown>>;

/** The route that returns the document. The document includes it. */
export function documentRoutes(others: Readonly<Record<string, ConsoleRoute>>) {
  let document: Promise<StaticDocument> | null = null;
  const documentRoute = {
    "openapi.read": forAnyone({
      ...TAKES_NOTHING,
      method: "GET",
      path: "/api/openapi.json",
      summary: "Get this document",
      answer: z.record(z.string(), z.unknown()),
      async run(_context, { headers }): Promise<SharedResponse> {
        document ??= describeApi({ ...others, ...documentRoute }).then(jsonDocument);
        return (await document).respond(headers);
      },
    }),
  } satisfies Record<string, ConsoleRoute>;
  return documentRoute;
}

/**
 * Converting all schemas takes a tenth of a second after the start, so other requests are served after every
 * few routes.
 */
const ROUTES_AT_ONCE = 4;

async function describeApi(routes: Readonly<Record<string, ConsoleRoute>>): Promise<Json> {
  const paths: Record<string, Record<string, Json>> = {};
  for (const [at, [name, route]] of Object.entries(routes).entries()) {
    if (at % ROUTES_AT_ONCE === 0) await new Promise(setImmediate);
    const path = route.path.replace(/:(\w+)\*?/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: describe(name, route) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Model Gateway console API",
      version: VERSION,
      description:
        "The API of the console. Send a personal access token as bearer token. Amounts are USD as decimal strings, and times are Unix milliseconds. Lists return `next`: send it as `after` to get the next page.",
    },
    servers: [{ url: "/" }],
    paths,
    components: {
      securitySchemes: {
        token: {
          type: "http",
          scheme: "bearer",
          description:
            "A personal access token, gwp_…. Its scope is `read`, `keys` (which includes `read`) or `admin` (which includes both); each operation states the scope it requires.",
        },
        session: { type: "apiKey", in: "cookie", name: "__Host-session" },
      },
      schemas: { Error: ERROR },
      responses: {
        Error: {
          description: "A refusal or a failure. `code` is stable, the message is for people.",
          headers: { "x-request-id": { schema: { type: "string" } } },
          content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
        },
      },
    },
  };
}

const ERROR: Json = {
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

const ACCESS_TEXTS: Readonly<Record<Access, string>> = {
  anyone: "No authentication required.",
  user: "Requires a signed-in user.",
  admin: "Requires an administrator.",
};

function describe(name: string, route: ConsoleRoute): Json {
  const body = toJsonSchema(route.body, "input");
  const notes = [
    ACCESS_TEXTS[route.access],
    route.tokenScope === "none"
      ? "Not available to personal access tokens."
      : `A personal access token requires the scope \`${route.tokenScope}\`.`,
    ...(route.adminFields.length === 0
      ? []
      : [`Only administrators may send: ${route.adminFields.join(", ")}.`]),
  ];
  return {
    operationId: name,
    summary: route.summary.replace(/\.$/, ""),
    description: notes.join(" "),
    tags: [name.startsWith("admin.") ? `admin.${name.split(".")[1]}` : (name.split(".")[0] ?? name)],
    security: buildSecurity(route),
    parameters: [
      ...buildParameters("path", toJsonSchema(route.params, "input")),
      ...buildParameters("query", toJsonSchema(route.query, "input")),
      ...(route.takesIdempotencyKey ? [IDEMPOTENCY_KEY] : []),
    ],
    ...(body === null
      ? {}
      : { requestBody: { required: true, content: { "application/json": { schema: body } } } }),
    responses: {
      "200": {
        description: "Success.",
        content: { [route.media]: { schema: toJsonSchema(route.answer, "output") ?? {} } },
      },
      default: { $ref: "#/components/responses/Error" },
    },
  };
}

const IDEMPOTENCY_KEY: Json = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description:
    "Makes retries safe: a repeated request with the same key returns the first result; a different request with the same key is rejected (409). Same as `idempotency_key` in the body; if both are sent, they must be equal.",
  schema: { type: "string", pattern: "^[\\x21-\\x7e]{1,255}$" },
};

/** For a bearer token, OpenAPI 3.1 allows the list to name the required scope. */
function buildSecurity({ access, tokenScope }: ConsoleRoute): Json[] {
  return [
    ...(access === "anyone" ? [{}] : []),
    ...(tokenScope === "none" ? [] : [{ token: [tokenScope] }]),
    { session: [] },
  ];
}

/**
 * Returns null if there is no input. Rules that JSON Schema cannot express, such as code, are left to the error
 * message.
 */
function toJsonSchema(schema: z.ZodType, io: "input" | "output"): Json | null {
  if (schema instanceof z.ZodUndefined) return null;
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    target: "draft-2020-12",
  });
  return rest;
}

function buildParameters(location: "path" | "query", schema: Json | null): Json[] {
  const properties = schema?.properties;
  const required = schema?.required;
  if (typeof properties !== "object" || properties === null) return [];
  return Object.entries(properties).map(([name, one]) => ({
    name,
    in: location,
    required: location === "path" || (Array.isArray(required) && required.includes(name)),
    schema: one,
  }));
}
