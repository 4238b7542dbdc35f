/** The table of operations as an OpenAPI 3.1 document: what is in the one is in the other. */

import { z } from "zod";
import { ERROR_CODES } from "../errors.ts";
import type { SharedAnswer } from "../net/wire/http-message.ts";
import { jsonDocument, type StaticDocument } from "../net/wire/static-document.ts";
import { VERSION } from "../version.ts";
import { type Access, type ConsoleRoute, forAnyone, TAKES_NOTHING } from "./http/route.ts";

type Json = Readonly<Record<string, unknown>>;

/** The operation that gives the document, itself in it. */
export function documentRoutes(others: Readonly<Record<string, ConsoleRoute>>) {
  let document: Promise<StaticDocument> | null = null;
  const own = {
    "openapi.read": forAnyone({
      ...TAKES_NOTHING,
      method: "GET",
      path: "/api/openapi.json",
      summary: "Get this document",
      answer: z.record(z.string(), z.unknown()),
      async run(_control, { headers }): Promise<SharedAnswer> {
        document ??= describeApi({ ...others, ...own }).then(jsonDocument);
        return (await document).respond(headers);
      },
    }),
  } satisfies Record<string, ConsoleRoute>;
  return own;
}

/** Schemas take a tenth of a second to convert in a young process: other requests are served between a few of them. */
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

const SAYS: Readonly<Record<Access, string>> = {
  anyone: "No authentication required.",
  user: "Requires a signed-in user.",
  admin: "Requires an administrator.",
};

function describe(name: string, route: ConsoleRoute): Json {
  const body = schemaOf(route.body, "input");
  const notes = [
    SAYS[route.access],
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
    security: securityOf(route),
    parameters: [
      ...parametersOf("path", schemaOf(route.params, "input")),
      ...parametersOf("query", schemaOf(route.query, "input")),
      ...(route.takesIdempotencyKey ? [IDEMPOTENCY_KEY] : []),
    ],
    ...(body === null
      ? {}
      : { requestBody: { required: true, content: { "application/json": { schema: body } } } }),
    responses: {
      "200": {
        description: "Success.",
        content: { [route.media]: { schema: schemaOf(route.answer, "output") ?? {} } },
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

/** For a bearer token OpenAPI 3.1 lets the list name what the token must be allowed to do: its scope. */
function securityOf({ access, tokenScope }: ConsoleRoute): Json[] {
  return [
    ...(access === "anyone" ? [{}] : []),
    ...(tokenScope === "none" ? [] : [{ token: [tokenScope] }]),
    { session: [] },
  ];
}

/** Null where nothing is taken. What JSON Schema cannot say, such as a rule in code, is left to the message. */
function schemaOf(schema: z.ZodType, io: "input" | "output"): Json | null {
  if (schema instanceof z.ZodUndefined) return null;
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    target: "draft-2020-12",
  });
  return rest;
}

function parametersOf(where: "path" | "query", schema: Json | null): Json[] {
  const properties = schema?.properties;
  const required = schema?.required;
  if (typeof properties !== "object" || properties === null) return [];
  return Object.entries(properties).map(([name, one]) => ({
    name,
    in: where,
    required: where === "path" || (Array.isArray(required) && required.includes(name)),
    schema: one,
  }));
}
