/**
 * Writes OpenAPI 3.1 documents. The public API and the console API describe their operations in their own tables; only
 * this file knows the format.
 */

import { z } from "zod";

export type JsonObject = Readonly<Record<string, unknown>>;

export interface ApiParameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly schema: JsonObject;
  /** A path parameter is always required. */
  readonly required?: boolean;
  readonly description?: string;
  readonly example?: string;
}

export interface ApiMediaType {
  readonly schema: JsonObject;
  /** Name → value. */
  readonly examples?: JsonObject;
  /** Fields whose names begin with `x-`. */
  readonly extensions?: JsonObject;
}

type ApiContent = Readonly<Record<string, ApiMediaType>>;

export interface ApiResponse {
  readonly description: string;
  readonly headers?: JsonObject;
  readonly content?: ApiContent;
}

export interface ApiOperation {
  readonly method: string;
  /** With its parameters in braces. */
  readonly path: string;
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly ApiParameter[];
  readonly body: ApiContent | null;
  /** By status; a string refers to a response of the components. */
  readonly responses: Readonly<Record<string, ApiResponse | string>>;
  /** Replaces the security of the whole document. */
  readonly security?: readonly JsonObject[];
  /** Fields whose names begin with `x-`. */
  readonly extensions?: JsonObject;
}

export interface ApiDescription {
  readonly info: JsonObject & { readonly title: string; readonly version: string };
  readonly server: { readonly url: string; readonly description?: string };
  readonly tags?: readonly string[];
  readonly security?: readonly JsonObject[];
  readonly securitySchemes: JsonObject;
  readonly schemas: JsonObject;
  readonly headers?: JsonObject;
  readonly responses?: Readonly<Record<string, ApiResponse>>;
}

/** A document that grows by one operation at a time, so that a long table can be converted in steps. */
export class OpenApiDocument {
  readonly #description: ApiDescription;
  readonly #paths: Record<string, Record<string, JsonObject>> = {};

  constructor(description: ApiDescription) {
    this.#description = description;
  }

  add(operation: ApiOperation): void {
    const methods = this.#paths[operation.path] ?? {};
    methods[operation.method.toLowerCase()] = operationObject(operation);
    this.#paths[operation.path] = methods;
  }

  toJson(): JsonObject {
    const { info, server, tags, security, securitySchemes, schemas, headers, responses } = this.#description;
    return {
      openapi: "3.1.0",
      info,
      servers: [server],
      ...(tags && { tags: tags.map((name) => ({ name })) }),
      ...(security && { security }),
      paths: this.#paths,
      components: {
        securitySchemes,
        schemas,
        ...(headers && { headers }),
        ...(responses && { responses: mapValues(responses, responseObject) }),
      },
    };
  }
}

export function schemaRef(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

export function headerRef(name: string): JsonObject {
  return { $ref: `#/components/headers/${name}` };
}

/** With `unrepresentable: "any"`, a rule that JSON Schema cannot express, such as code, is left out. */
export function toJsonSchema(
  schema: z.ZodType,
  options: { io: "input" | "output"; unrepresentable?: "any" | "throw" },
): JsonObject {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, options);
  return rest;
}

function operationObject(operation: ApiOperation): JsonObject {
  const { id, tag, summary, description, parameters, body, responses, security, extensions } = operation;
  return {
    operationId: id,
    tags: [tag],
    summary,
    description,
    parameters: parameters.map(parameterObject),
    ...(body && { requestBody: { required: true, content: contentObject(body) } }),
    responses: mapValues(responses, (response) =>
      typeof response === "string"
        ? { $ref: `#/components/responses/${response}` }
        : responseObject(response),
    ),
    ...(security && { security }),
    ...extensions,
  };
}

function parameterObject(parameter: ApiParameter): JsonObject {
  const { name, in: location, description, schema, example, required = false } = parameter;
  return {
    name,
    in: location,
    ...(description !== undefined && { description }),
    required: required || location === "path",
    schema,
    ...(example !== undefined && { example }),
  };
}

function responseObject({ description, headers, content }: ApiResponse): JsonObject {
  return {
    description,
    ...(headers && { headers }),
    ...(content && { content: contentObject(content) }),
  };
}

function contentObject(content: ApiContent): JsonObject {
  return mapValues(content, ({ schema, examples, extensions }) => ({
    schema,
    ...(examples && { examples: mapValues(examples, (value) => ({ value })) }),
    ...extensions,
  }));
}

function mapValues<From, To>(
  values: Readonly<Record<string, From>>,
  convert: (value: From) => To,
): Record<string, To> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, convert(value)]));
}
