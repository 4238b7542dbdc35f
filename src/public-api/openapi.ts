/** Generates the public API's OpenAPI document from routes and schemas, without text by hand. */

import type { z } from "zod";
import type { ErrorCode } from "../errors.ts";
import {
  type ApiMediaType,
  type ApiOperation,
  type ApiResponse,
  headerRef,
  type JsonObject,
  OpenApiDocument,
  schemaRef,
  toJsonSchema,
} from "../openapi.ts";
import { errorExample } from "./error-guide.ts";
import { type Content, type Example, FAMILIES, type Operation } from "./operation.ts";
import { OPERATIONS, type OperationName } from "./operations.ts";
import { errorResponse } from "./schemas/gateway.ts";
import { socketMessage } from "./schemas/responses.ts";

interface Route {
  method: string;
  path: string;
}

export interface DocumentFacts {
  version: string;
  /** Without a trailing slash and without `/v1`, which the paths include. */
  publicUrl: string;
}

export function openApiDocument(routes: readonly Route[], { version, publicUrl }: DocumentFacts): JsonObject {
  const document = new OpenApiDocument({
    info: {
      title: "Model Gateway",
      version,
      summary:
        "An OpenAI-compatible API in front of many upstream accounts, with groups, limits and billing.",
      description:
        "Responses, Chat Completions, Embeddings and Images with one API key. Each key belongs to a group, which defines its models, prices and limits. Every response has an `x-request-id` header. Unknown fields are forwarded to the upstream.",
      license: { name: "MIT", identifier: "MIT" },
    },
    server: {
      url: publicUrl,
      description: "This gateway. The base URL for SDKs is this address with `/v1`.",
    },
    tags: FAMILIES,
    security: [{ bearer: [] }],
    securitySchemes: {
      bearer: {
        type: "http",
        scheme: "bearer",
        description: "An API key, as `Authorization: Bearer <API_KEY>`.",
      },
    },
    schemas: buildSchemas(Object.values(OPERATIONS)),
    headers: {
      RequestId: {
        description: "The id of the request. Include it when you report a problem.",
        schema: { type: "string" },
        example: "req_0199f3c5a1b27c3e8d4f5a6b7c8d9e0f",
      },
    },
  });
  for (const route of routes) {
    const name = `${route.method} ${route.path}`;
    if (isDescribed(name)) document.add(describeOperation(route, OPERATIONS[name]));
  }
  return document.toJson();
}

export function isDescribed(name: string): name is OperationName {
  return Object.hasOwn(OPERATIONS, name);
}

function describeOperation({ method, path }: Route, operation: Operation): ApiOperation {
  const { id, family, summary, about, parameters, body, needsKey } = operation;
  return {
    method,
    path,
    id,
    tag: family,
    summary,
    description: about,
    parameters: parameters.map(({ about: description, ...parameter }) => ({ ...parameter, description })),
    body:
      body &&
      Object.fromEntries(Object.entries(body).map(([type, content]) => [type, describeContent(content)])),
    responses: { ...describeSuccess(operation), ...describeErrors(operation.errors) },
    ...(needsKey ? {} : { security: [] }),
    ...(isSocket(operation) ? { extensions: { "x-websocket": SOCKET_MESSAGES } } : {}),
  };
}

function isSocket({ id }: Operation): boolean {
  return id === "openResponsesSocket";
}

/** The WebSocket messages, for which OpenAPI has no field. */
const SOCKET_MESSAGES: JsonObject = {
  client: schemaRef("SocketMessage"),
  gateway: schemaRef("ResponseEvent"),
};

const ID_HEADER: JsonObject = { "x-request-id": headerRef("RequestId") };

function describeSuccess(operation: Operation): Record<string, ApiResponse> {
  if (isSocket(operation)) {
    return { "101": { description: "The connection was upgraded to a WebSocket.", headers: ID_HEADER } };
  }
  const { response, stream } = operation;
  return {
    "200": {
      description: stream === null ? "The response." : "The response, streamed if requested.",
      headers: ID_HEADER,
      content: {
        "application/json": describeContent(response),
        ...(stream === null ? {} : { "text/event-stream": describeStream(stream) }),
      },
    },
  };
}

function describeStream({ name, examples }: Content): ApiMediaType {
  return {
    schema: { type: "string" },
    examples: examplesByName(examples),
    extensions: { "x-event": schemaRef(name) },
  };
}

/** One entry per status, with an example for each code. */
function describeErrors(codes: readonly ErrorCode[]): Record<string, ApiResponse> {
  const byStatus = Map.groupBy(codes, (code) => errorExample(code).status);
  return Object.fromEntries(
    [...byStatus].map(([status, sameStatus]) => [
      String(status),
      {
        description: sameStatus.map((code) => `\`${code}\``).join(", "),
        headers: ID_HEADER,
        content: {
          "application/json": {
            schema: schemaRef("Error"),
            examples: Object.fromEntries(sameStatus.map((code) => [code, errorExample(code).body])),
          },
        },
      },
    ]),
  );
}

function describeContent({ name, examples }: Content): ApiMediaType {
  return { schema: schemaRef(name), examples: examplesByName(examples) };
}

function examplesByName(examples: readonly Example[]): JsonObject {
  return Object.fromEntries(examples.map(({ name, value }) => [name, value]));
}

function buildSchemas(operations: readonly Operation[]): JsonObject {
  const contents = operations.flatMap(({ body, response, stream }) => [
    ...Object.values(body ?? {}),
    response,
    ...(stream === null ? [] : [stream]),
  ]);
  const namedSchemas: [string, z.ZodType][] = contents.map(({ name, schema }) => [name, schema]);
  namedSchemas.push(["SocketMessage", socketMessage], ["Error", errorResponse]);
  return Object.fromEntries(
    namedSchemas.map(([name, schema]) => [name, toJsonSchema(schema, { io: "input" })]),
  );
}
