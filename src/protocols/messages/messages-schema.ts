/**
 * Schemas of tools for the Messages API, which accepts no alternatives at the top level. A tool that has them would make
 * every request with it fail, so the alternatives become one object: it accepts all of them, and some inputs more.
 */

import { isObject } from "../../json/parse.ts";
import type { DroppedFields } from "../hub/dropped-fields.ts";

type Schema = Readonly<Record<string, unknown>>;

const COMBINATORS = ["oneOf", "anyOf", "allOf"] as const;

export function writeInputSchema(schema: Schema, dropped: DroppedFields): Schema {
  const used = COMBINATORS.filter((name) => Array.isArray(schema[name]));
  if (used.length === 0) return { ...schema, type: "object" };
  const merged: Record<string, unknown> = { ...schema, type: "object" };
  const properties = new Map(Object.entries(readProperties(schema)));
  const required = new Set(readRequired(schema));
  for (const name of used) {
    delete merged[name];
    dropped.add(`tools.${name}`);
    const branches = readBranches(schema, name);
    for (const branch of branches)
      for (const [key, value] of Object.entries(readProperties(branch)))
        properties.set(key, mergeProperty(properties.get(key), value));
    const lists = branches.map(readRequired);
    const [first = [], ...others] = lists;
    const shared =
      name === "allOf" ? lists.flat() : first.filter((key) => others.every((list) => list.includes(key)));
    for (const key of shared) required.add(key);
  }
  merged.properties = Object.fromEntries(properties);
  if (required.size > 0) merged.required = [...required];
  return merged;
}

/** Branches are often references to definitions of the same schema. */
function readBranches(schema: Schema, name: (typeof COMBINATORS)[number]): Schema[] {
  const branches = schema[name];
  if (!Array.isArray(branches)) return [];
  return branches.filter(isObject).map((branch) => resolveReference(schema, branch));
}

function resolveReference(schema: Schema, branch: Schema): Schema {
  const [, list = "", name = ""] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(String(branch.$ref ?? "")) ?? [];
  const definitions = schema[list];
  const target = isObject(definitions) ? definitions[name] : undefined;
  return isObject(target) ? target : branch;
}

function readProperties(schema: Schema): Schema {
  return isObject(schema.properties) ? schema.properties : {};
}

function readRequired(schema: Schema): string[] {
  return Array.isArray(schema.required) ? schema.required.filter((key) => typeof key === "string") : [];
}

/** A property that differs between branches, such as the discriminator, accepts each of its forms. */
function mergeProperty(earlier: unknown, later: unknown): unknown {
  if (earlier === undefined || JSON.stringify(earlier) === JSON.stringify(later)) return later;
  const forms = isObject(earlier) && Array.isArray(earlier.anyOf) ? earlier.anyOf : [earlier];
  return { anyOf: [...forms, later] };
}
