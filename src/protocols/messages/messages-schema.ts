/**
 * Schemas of tools for the Messages API, which accepts no alternatives at the top level. A tool that has them would make
 * every request with it fail, so the alternatives become one object: it accepts all of them, and some inputs more.
 */

import { requestCounts } from "../../count-limits.ts";
import { type ApiError, paramError } from "../../errors.ts";
import { isObject } from "../../json/parse.ts";
import type { DroppedFields } from "../hub/dropped-fields.ts";
import { readString } from "../hub/json-values.ts";

type Schema = Readonly<Record<string, unknown>>;

const COMBINATORS = ["oneOf", "anyOf", "allOf"] as const;

export function writeInputSchema(schema: Schema, dropped: DroppedFields): Schema {
  const used = COMBINATORS.filter((name) => Array.isArray(schema[name]));
  if (used.length === 0) return { ...schema, type: "object" };
  const merged: Record<string, unknown> = { ...schema, type: "object" };
  const properties = new MergedProperties();
  properties.add(schema);
  const required = new Set(readRequired(schema));
  for (const name of used) {
    delete merged[name];
    dropped.add(`tools.${name}`);
    const branches = readBranches(schema, name);
    for (const branch of branches) properties.add(branch);
    const keys = name === "allOf" ? branches.flatMap(readRequired) : sharedRequired(branches);
    for (const key of keys) required.add(key);
  }
  merged.properties = properties.write();
  if (required.size > 0) merged.required = [...required];
  return merged;
}

/**
 * Branches are often references to definitions of the same schema. Each definition is read once, however many branches
 * name it, so that the work does not exceed the size of the schema.
 */
function readBranches(schema: Schema, name: (typeof COMBINATORS)[number]): readonly Schema[] {
  const branches = schema[name];
  if (!Array.isArray(branches)) return [];
  if (branches.length > requestCounts.schemaBranchesMax) throw tooManyBranchesError(name);
  return [...new Set(branches.filter(isObject).map((branch) => resolveReference(schema, branch)))];
}

function resolveReference(schema: Schema, branch: Schema): Schema {
  const [, list = "", name = ""] = REFERENCE.exec(readString(branch.$ref) ?? "") ?? [];
  const definitions = schema[list];
  const target = isObject(definitions) ? definitions[name] : undefined;
  return isObject(target) ? target : branch;
}

const REFERENCE = /^#\/(\$defs|definitions)\/([^/]+)$/;

function tooManyBranchesError(name: string): ApiError {
  const count = requestCounts.schemaBranchesMax.toLocaleString("en-US");
  return paramError(
    "tools",
    "invalid_value",
    `The schema of a tool has more than ${count} alternatives in \`${name}\`. Send at most ${count}.`,
  );
}

function readProperties(schema: Schema): Schema {
  return isObject(schema.properties) ? schema.properties : {};
}

function readRequired(schema: Schema): string[] {
  return Array.isArray(schema.required) ? schema.required.filter((key) => typeof key === "string") : [];
}

function sharedRequired(branches: readonly Schema[]): string[] {
  const counts = new Map<string, number>();
  for (const branch of branches)
    for (const key of new Set(readRequired(branch))) counts.set(key, (counts.get(key) ?? 0) + 1);
  return [...counts.keys()].filter((key) => counts.get(key) === branches.length);
}

/** A property that differs between branches, such as the discriminator, accepts each of its forms. */
class MergedProperties {
  /** The forms of each property, by their JSON: each value is written once, not compared with every other. */
  readonly #forms = new Map<string, Map<string, unknown>>();

  add(schema: Schema): void {
    for (const [key, value] of Object.entries(readProperties(schema))) {
      const forms = this.#forms.get(key) ?? new Map<string, unknown>();
      this.#forms.set(key, forms.set(JSON.stringify(value), value));
    }
  }

  write(): Schema {
    return Object.fromEntries([...this.#forms].map(([key, forms]) => [key, joinForms([...forms.values()])]));
  }
}

function joinForms([first, ...others]: readonly unknown[]): unknown {
  if (others.length === 0) return first;
  const own = isObject(first) && Array.isArray(first.anyOf) ? first.anyOf : [first];
  return { anyOf: [...own, ...others] };
}
