/** Checks a value against a JSON Schema, for as much of JSON Schema as the API's own schemas use. */

import type { JsonSchema } from "./json-schema.ts";
import { isObject } from "./json-value.ts";

/** Member names and array positions that lead to a value. */
export type JsonPath = readonly (string | number)[];

export type SchemaProblem = { readonly path: JsonPath } & (
  | { readonly kind: "type"; readonly expected: readonly JsonType[] }
  | { readonly kind: "value"; readonly allowed: readonly unknown[] }
  /** The path ends with the name of the missing member. */
  | { readonly kind: "missing" }
  | { readonly kind: "unknown" }
  | { readonly kind: "range"; readonly minimum: number | undefined; readonly maximum: number | undefined }
  | { readonly kind: "length"; readonly minimum: number | undefined; readonly maximum: number | undefined }
  | { readonly kind: "pattern"; readonly pattern: string }
);

const JSON_TYPES = ["string", "number", "integer", "boolean", "object", "array", "null"] as const;
export type JsonType = (typeof JSON_TYPES)[number];

export function findSchemaProblems(schema: JsonSchema, value: unknown, path: JsonPath = []): SchemaProblem[] {
  if (schema.anyOf !== undefined) return findUnionProblems(schema.anyOf, value, path);
  const expected = listTypes(schema);
  if (expected.length > 0 && !expected.some((type) => isOfType(value, type))) {
    return [{ kind: "type", path, expected }];
  }
  const allowed = schema.enum ?? ("const" in schema ? [schema.const] : null);
  if (allowed !== null && !allowed.includes(value)) return [{ kind: "value", path, allowed }];
  if (typeof value === "number") return findNumberProblems(schema, value, path);
  if (typeof value === "string") return findStringProblems(schema, value, path);
  if (Array.isArray(value)) return findArrayProblems(schema, value, path);
  return isObject(value) ? findObjectProblems(schema, value, path) : [];
}

function findNumberProblems(
  { minimum, maximum }: JsonSchema,
  value: number,
  path: JsonPath,
): SchemaProblem[] {
  const isInside = value >= (minimum ?? -Infinity) && value <= (maximum ?? Infinity);
  return isInside ? [] : [{ kind: "range", path, minimum, maximum }];
}

function findStringProblems(
  { minLength, pattern }: JsonSchema,
  value: string,
  path: JsonPath,
): SchemaProblem[] {
  if (value.length < (minLength ?? 0))
    return [{ kind: "length", path, minimum: minLength, maximum: undefined }];
  if (pattern === undefined || new RegExp(pattern, "u").test(value)) return [];
  return [{ kind: "pattern", path, pattern }];
}

function findArrayProblems(schema: JsonSchema, value: readonly unknown[], path: JsonPath): SchemaProblem[] {
  const { items, minItems: minimum, maxItems: maximum } = schema;
  const hasLength = value.length >= (minimum ?? 0) && value.length <= (maximum ?? Infinity);
  const inside =
    items === undefined ? [] : value.flatMap((item, i) => findSchemaProblems(items, item, [...path, i]));
  return hasLength ? inside : [{ kind: "length", path, minimum, maximum }, ...inside];
}

function findObjectProblems(
  { properties = {}, required = [], additionalProperties }: JsonSchema,
  value: Readonly<Record<string, unknown>>,
  path: JsonPath,
): SchemaProblem[] {
  const missing = required
    .filter((name) => !Object.hasOwn(value, name))
    .map((name): SchemaProblem => ({ kind: "missing", path: [...path, name] }));
  const inside = Object.entries(value).flatMap(([name, member]): SchemaProblem[] => {
    const own = Object.hasOwn(properties, name) ? properties[name] : additionalProperties;
    if (own === false) return [{ kind: "unknown", path: [...path, name] }];
    return typeof own === "object" ? findSchemaProblems(own, member, [...path, name]) : [];
  });
  return [...missing, ...inside];
}

/** No problem if one of the schemas fits; else the problems of the one that was most likely meant. */
function findUnionProblems(schemas: readonly JsonSchema[], value: unknown, path: JsonPath): SchemaProblem[] {
  const byChoice = schemas.map((schema) => findSchemaProblems(schema, value, path));
  const isHere = (problem: SchemaProblem) => problem.path.length === path.length;
  const ofType = byChoice.filter(
    (problems) => !problems.some((problem) => problem.kind === "type" && isHere(problem)),
  );
  if (ofType.length === 0) {
    const expected = byChoice.flat().flatMap((problem) => (problem.kind === "type" ? problem.expected : []));
    return [{ kind: "type", path, expected: [...new Set(expected)] }];
  }
  const values = ofType.flatMap((problems) =>
    problems.flatMap((problem) => (problem.kind === "value" && isHere(problem) ? problem.allowed : [])),
  );
  const [closest = []] = ofType.toSorted((a, b) => rankDistance(a) - rankDistance(b));
  // Several lists of allowed values at the same place are one list.
  return closest.some((problem) => problem.kind === "value" && isHere(problem))
    ? [{ kind: "value", path, allowed: [...new Set(values)] }]
    : closest;
}

/** A wrong constant, such as a `type` member, means that another schema was intended. */
function rankDistance(problems: readonly SchemaProblem[]): number {
  const wrongValues = problems.filter(({ kind }) => kind === "value").length;
  return wrongValues * 1_000 + problems.length;
}

function listTypes({ type }: JsonSchema): JsonType[] {
  const names = typeof type === "string" ? [type] : (type ?? []);
  return JSON_TYPES.filter((known) => names.includes(known));
}

function isOfType(value: unknown, type: JsonType): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}
