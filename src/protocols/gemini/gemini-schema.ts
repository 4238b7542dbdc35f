/** Converts the schemas of Gemini's older fields (`parameters`, `responseSchema`), an OpenAPI subset, to JSON schemas. */

import { isObject } from "../../json/parse.ts";

const DEPTH_MAX = 32;

/** Types are in lower case, and `nullable` is a separate type. Fields that only Google has are left out. */
export function toJsonSchema(schema: unknown, depth = 0): Readonly<Record<string, unknown>> {
  if (!isObject(schema) || depth > DEPTH_MAX) return {};
  const converted: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(schema)) {
    if (name === "nullable" || name === "propertyOrdering" || name === "property_ordering") continue;
    converted[name] = convertMember(name, value, depth + 1);
  }
  if (schema.nullable === true && typeof converted.type === "string")
    converted.type = [converted.type, "null"];
  return converted;
}

function convertMember(name: string, value: unknown, depth: number): unknown {
  switch (name) {
    case "type":
      return typeof value === "string" ? value.toLowerCase() : value;
    case "items":
      return toJsonSchema(value, depth);
    case "anyOf":
      return Array.isArray(value) ? value.map((one) => toJsonSchema(one, depth)) : value;
    case "properties":
      return isObject(value)
        ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, toJsonSchema(one, depth)]))
        : value;
    // Google writes 64-bit numbers as text.
    case "minItems":
    case "maxItems":
    case "minLength":
    case "maxLength":
    case "minProperties":
    case "maxProperties":
      return typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
    default:
      return value;
  }
}
