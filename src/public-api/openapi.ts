/**
 * Generates the OpenAPI 3.1 document of the public API from the route table and the schemas. No part of it is
 * written by hand.
 */

import { z } from "zod";
import type { ErrorCode } from "../errors.ts";
import { errorExample } from "./error-guide.ts";
import { type Content, type Example, FAMILIES, type Operation, type Parameter } from "./operation.ts";
import { OPERATIONS, type OperationName } from "./operations.ts";
import { errorAnswer } from "./schemas/gateway.ts";
import { socketMessage } from "./schemas/responses.ts";

type Json = Readonly<Record<string, unknown>>;

export interface DocumentFacts {
  version: string;
  /** Without a trailing slash and without `/v1`, which the paths include. */
  publicUrl: string;
}

export function openApiDocument(
  routes: readonly { method: string; path: string }[],
  facts: DocumentFacts,
): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const { method, path } of routes) {
    const operation = describedAs(`${method} ${path}`);
    if (operation === null) continue;
    paths[path] = { ...paths[path], [method.toLowerCase()]: operationObject(operation) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Model Gateway",
      version: facts.version,
      summary:
        "An OpenAI-compatible API in front of many upstream accounts, with groups, limits and billing.",
      description:
        "Responses, Chat Completions, Embeddings and Images with one API key. Each key belongs to a group, which defines its models, prices and limits. Every response has an `x-request-id` header. Unknown fields are forwarded to the upstream.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [
      {
        url: facts.publicUrl,
        description: "This gateway. The base URL for SDKs is this address with `/v1`.",
      },
    ],
    tags: FAMILIES.map((name) => ({ name })),
    security: [{ bearer: [] }],
    paths,
    components: {
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
    },
  };
}

export function isDescribed(name: string): name is OperationName {
  return Object.hasOwn(OPERATIONS, name);
}

function describedAs(name: string): Operation | null {
  return isDescribed(name) ? OPERATIONS[name] : null;
}

function operationObject(operation: Operation): Json {
  const { id, family, summary, about, parameters, body, needsKey } = operation;
  return {
    operationId: id,
    tags: [family],
    summary,
    description: about,
    parameters: parameters.map(parameterObject),
    ...(body === null
      ? {}
      : { requestBody: { required: true, content: mapValues(body, (content) => mediaType(content)) } }),
    responses: { ...answers(operation), ...errorResponses(operation.errors) },
    ...(needsKey ? {} : { security: [] }),
    ...(id === "openResponsesSocket" ? { "x-websocket": SOCKET } : {}),
  };
}

/** The WebSocket messages, for which OpenAPI has no field. */
const SOCKET: Json = {
  client: { $ref: "#/components/schemas/SocketMessage" },
  gateway: { $ref: "#/components/schemas/ResponseEvent" },
};

function parameterObject({ name, in: place, about, schema, example }: Parameter): Json {
  return { name, in: place, description: about, required: place === "path", schema, example };
}

const ID_HEADER: Json = { "x-request-id": { $ref: "#/components/headers/RequestId" } };

function answers({ id, answer, stream }: Operation): Json {
  if (id === "openResponsesSocket") {
    return { "101": { description: "The connection was upgraded to a WebSocket.", headers: ID_HEADER } };
  }
  return {
    "200": {
      description: stream === null ? "The response." : "The response, streamed if requested.",
      headers: ID_HEADER,
      content: {
        "application/json": mediaType(answer),
        ...(stream === null
          ? {}
          : {
              "text/event-stream": {
                schema: { type: "string" },
                examples: buildExamples(stream.examples),
                "x-event": ref(stream.name),
              },
            }),
      },
    },
  };
}

/** One entry per status, with an example for each code. */
function errorResponses(codes: readonly ErrorCode[]): Json {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of codes) {
    const { status } = errorExample(code);
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, found]) => [
      String(status),
      {
        description: found.map((code) => `\`${code}\``).join(", "),
        headers: ID_HEADER,
        content: {
          "application/json": {
            schema: ref("Error"),
            examples: Object.fromEntries(found.map((code) => [code, { value: errorExample(code).body }])),
          },
        },
      },
    ]),
  );
}

function mediaType({ name, examples }: Content): Json {
  return { schema: ref(name), examples: buildExamples(examples) };
}

function buildExamples(examples: readonly Example[]): Json {
  return Object.fromEntries(examples.map(({ name, value }) => [name, { value }]));
}

function ref(name: string): Json {
  return { $ref: `#/components/schemas/${name}` };
}

function buildSchemas(operations: readonly Operation[]): Json {
  const contents = operations.flatMap(({ body, answer, stream }) => [
    ...Object.values(body ?? {}),
    answer,
    ...(stream === null ? [] : [stream]),
  ]);
  const namedSchemas: [string, z.ZodType][] = contents.map(({ name, schema }) => [name, schema]);
  namedSchemas.push(["SocketMessage", socketMessage], ["Error", errorAnswer]);
  return Object.fromEntries(namedSchemas.map(([name, schema]) => [name, jsonSchema(schema)]));
}

function jsonSchema(schema: z.ZodType): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: "input" });
  return rest;
}

function mapValues<From, To>(
  from: Readonly<Record<string, From>>,
  to: (value: From) => To,
): Record<string, To> {
  return Object.fromEntries(Object.entries(from).map(([name, value]) => [name, to(value)]));
}
