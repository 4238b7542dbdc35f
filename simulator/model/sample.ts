/** Generates sample values for JSON schemas. */

import { isRecord } from "../json-fields.ts";

/** Sample values are plausible for the name of their property. */
const DEPTH_MAX = 8;

const BY_NAME: readonly (readonly [RegExp, string])[] = [
  [/city|location|place/i, "Lisbon"],
  [/country/i, "Portugal"],
  [/command|cmd|script/i, "echo hello"],
  [/path|file/i, "README.md"],
  [/dir|folder/i, "."],
  [/url|uri|link/i, "https://example.com/"],
  [/mail/i, "someone@example.com"],
  [/date|day/i, "2026-01-01"],
  [/name|title/i, "Example"],
];

export function buildSample(schema: unknown, name: string, question: string, depth = 0): unknown {
  if (!isRecord(schema) || depth > DEPTH_MAX) return question;
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  const choices = schema.enum;
  if (Array.isArray(choices) && choices.length > 0) return choices[0];
  for (const key of ["anyOf", "oneOf", "allOf"]) {
    const options = schema[key];
    if (Array.isArray(options) && options.length > 0)
      return buildSample(options[0], name, question, depth + 1);
  }
  switch (readTypeName(schema)) {
    case "object":
      return sampleObject(schema, question, depth);
    case "array":
      return [buildSample(schema.items ?? { type: "string" }, name, question, depth + 1)];
    case "integer":
    case "number":
      return typeof schema.minimum === "number" ? schema.minimum : 1;
    case "boolean":
      return true;
    case "null":
      return null;
    default:
      return sampleString(name, question);
  }
}

function readTypeName(schema: Record<string, unknown>): unknown {
  const type = schema.type;
  if (Array.isArray(type)) return type.find((one) => one !== "null") ?? "null";
  if (type === undefined && isRecord(schema.properties)) return "object";
  return type;
}

function sampleObject(schema: Record<string, unknown>, question: string, depth: number): unknown {
  const properties = isRecord(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : Object.keys(properties);
  const sample: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(properties)) {
    if (required.includes(key)) sample[key] = buildSample(value, key, question, depth + 1);
  }
  return sample;
}

function sampleString(name: string, question: string): string {
  return (
    BY_NAME.find(([pattern]) => pattern.test(name))?.[1] ?? (question || "hello").slice(0, 80).toWellFormed()
  );
}
